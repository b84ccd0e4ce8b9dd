#include "formats/python/boosters.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/python/joblib.h"

namespace weightfs::python {
namespace {

using pickle::Index;
using pickle::Kind;
using pickle::kNoValue;
using pickle::Meaning;

// The attributes that have the model, of the classes whose names begin so.
struct ModelAttribute {
  std::string_view type, attribute;
};
constexpr std::string_view kRawBooster = "_Booster";  // of an XGBModel of old versions
constexpr auto kAttributes = std::to_array<ModelAttribute>({
    {"xgboost.core.Booster", "handle"},
    {"xgboost.sklearn.", kRawBooster},
    {"lightgbm.basic.Booster", "handle"},
    {"lightgbm.basic.Booster", "_handle"},  // since LightGBM 4
    {"lightgbm.basic.Booster", "model_str"},
});

// The memory of a part, of its place among the files, and of the model nested in it before it is read.
constexpr uint64_t kMembers = 3;

// The name of a booster that is the whole pickle.
constexpr std::string_view kBare = "booster";

std::string_view suffix_of(std::string_view head) {
  if (head.starts_with("tree")) return ".txt";
  if (!head.starts_with('{')) return ".bst";
  const size_t first = head.find_first_not_of(" \t\r\n", 1);
  return first != head.npos && head[first] == '"' ? ".json" : ".ubj";
}

// XGBoost 1.0 to 1.2 wrote this text, an i64, the binary form of so many bytes, and the configuration as JSON
// (LearnerIO::Save in src/learner.cc). The binary form is the model.
Result<Slice> without_configuration(Slice file) {
  constexpr std::string_view kMark = "CONFIG-offset:";
  constexpr uint64_t kBegin = kMark.size() + sizeof(uint64_t);
  if (file.size() < kBegin) return file;
  const std::string head = TRY(read_text(file, 0, kBegin));
  if (!head.starts_with(kMark)) return file;
  return slice(file.whole(), file.offset() + kBegin,
               std::min(little_endian(head.substr(kMark.size())), file.size() - kBegin));
}

}  // namespace

Result<std::optional<Meaning>> Boosters::meaning(const std::string& name, Index value) {
  constexpr size_t kMost = 1024;  // keys and values of the state; the largest have 100
  const std::string type = class_of(pickle_, value);
  if (!type.starts_with("xgboost.") && !type.starts_with("lightgbm.")) return std::nullopt;
  const std::vector<Index> items = pickle_.items(pickle_.call(value).state, kMost);
  TRY_VOID(out_.charges.charge(Cost::step, items.size()));
  for (const auto& [begin, attribute] : kAttributes) {
    if (!type.starts_with(begin)) continue;
    Index model = kNoValue;  // the last of a name counts
    for (size_t i = 0; i + 1 < items.size(); i += 2)
      if (pickle_.text(items[i]) == attribute) model = items[i + 1];
    if (model == kNoValue) continue;
    std::string path = value == pickle_.root() ? std::string(kBare) : name;
    if (attribute == kRawBooster) path = value == pickle_.root() ? attribute : fmt::format("{}.{}", name, attribute);
    TRY_VOID(add(std::move(path), model));
    break;
  }
  return std::nullopt;
}

Result<void> Boosters::add(std::string path, Index model) {
  const Kind kind = pickle_.kind(model);
  const bool is_array = kind == Kind::call && pickle::is_bytearray(pickle_, model);
  if (!is_array && !pickle_.is_text(model)) return {};  // none, or the Booster of an XGBModel
  TRY_VOID(out_.charges.charge(Cost::member, kMembers));
  TRY_VOID(out_.charges.charge(Cost::kept, 2 * path.size()));
  const auto file = model_file(model);
  if (!file && !is_about_the_bytes(file.error())) return tl::unexpected(file.error());
  if (!file) {
    out_.warnings.refuse(file.error().code, "booster {}: {}; its trees are not shown", quoted(path),
                         file.error().message);
    return {};
  }
  const std::string head = TRY(read_text(**file, 0, std::min<uint64_t>((*file)->size(), kHeadSize)));
  path += suffix_of(head);
  parts_.push_back({std::move(path), Later<SourcePtr>::of(*file)});
  return {};
}

Result<SourcePtr> Boosters::model_file(Index model) {
  SourcePtr& file = files_[model];
  if (file != nullptr) return file;
  TRY_VOID(out_.charges.charge(Cost::input, kHeadSize));
  const bool is_array = pickle_.kind(model) == Kind::call;
  const Slice bytes = TRY(is_array ? pickle::bytearray_of(pickle_, model, file_) : bytes_of(pickle_, model, file_));
  if (bytes.size() == 0) return failure(Code::corrupt, "its model is empty");
  file = std::make_shared<Slice>(TRY(without_configuration(bytes)));
  return file;
}

Result<void> add_boosters(Model& model, std::vector<Part> boosters, const Container& around) {
  if (boosters.empty()) return {};
  model.stored_bytes = 0;
  for (const Part& part : model.parts) *model.stored_bytes += TRY(part.source.get())->size();
  std::vector<Nested> nested;
  std::map<const Source*, Later<ModelPtr>> models;
  for (Part& part : boosters) {
    const SourcePtr bytes = TRY(part.source.get());
    const Container container{.name = part.path.substr(part.path.rfind('/') + 1),
                              .bytes = bytes,
                              .blobs = around.blobs,
                              .depth = around.depth + 1,
                              .budget = around.budget};
    model.parts.push_back(std::move(part));
    if (around.depth >= kMaxNestingDepth) continue;
    // JSON that holds the configuration, too, is known only by its names.
    if (!container.name.ends_with(".json") && !TRY(could_be_model(container))) continue;
    const Later<ModelPtr> read(
        [container]() -> Result<ModelPtr> { return std::make_shared<const Model>(TRY(read_model(container))); });
    nested.push_back({model.parts.size() - 1, models.try_emplace(bytes.get(), read).first->second});
  }
  if (nested.empty()) return {};
  model.nested = [nested = std::move(nested)](const ModelPtr&) -> Result<std::vector<Nested>> { return nested; };
  return {};
}

}  // namespace weightfs::python
