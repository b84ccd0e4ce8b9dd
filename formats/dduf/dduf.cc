// DDUF: a diffusers pipeline as a zip of stored members, at most one directory deep. The rules are those of the reader
// in huggingface_hub (serialization/_dduf.py). A zip that breaks them is shown, with a warning for each violation.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/symlink.h"
#include "formats/archive/zip.h"
#include "formats/common/flat.h"
#include "formats/common/missing_shards.h"
#include "formats/directory/small_json.h"
#include "formats/grouped.h"

namespace weightfs::dduf {
namespace {

constexpr const char* kIndex = "model_index.json";
constexpr std::string_view kWeights = ".safetensors";
constexpr std::array<std::string_view, 4> kSuffixes = {".json", ".model", kWeights, ".txt"};
constexpr std::array<std::string_view, 4> kConfigs = {"config.json", "tokenizer_config.json",
                                                      "preprocessor_config.json", "scheduler_config.json"};

// An index has a line for each folder of the pipeline.
constexpr uint64_t kMaxIndexSize = 1 << 20;
constexpr uint64_t kMaxIndexValues = 10'000;

// An index of shards in a folder has a line for each tensor.
constexpr std::string_view kWeightIndex = ".safetensors.index.json";
constexpr uint64_t kMaxWeightIndexSize = 16 << 20;

// The charges of a member, and of reading its tensors besides what its parser charges.
constexpr uint64_t kMemberSteps = 2;
constexpr uint64_t kWeightsSteps = 300;

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The object in model_index.json; empty, with a warning, if it is none. Fails with errors that are not about the bytes.
Result<Map> read_index(const archive::Archive& archive, Warnings& warnings, Budget& budget) {
  const auto text = archive.text(kIndex, kMaxIndexSize);
  auto root = text ? parse_json(*in_memory(*text), 0, text->size(), budget, kMaxIndexValues)
                   : Result<Value>(tl::unexpected(text.error()));
  if (!root && !is_about_the_bytes(root.error())) return tl::unexpected(root.error());
  if (root)
    if (Map* const map = std::get_if<Map>(&*root)) return std::move(*map);
  warnings.miss_file(Code::corrupt, "{}: {}", kIndex, root ? "not a JSON object" : root.error().message);
  return Map{};
}

// Adds a warning for each rule that the members break.
class RuleCheck {
 public:
  RuleCheck(const Map& index, Warnings& warnings) : warnings_(warnings) {
    for (const auto& [key, value] : index) index_.insert(key);
    components_ = directory::components_in(index).value_or(std::vector<directory::NamedComponent>());
  }

  /// Fails as opening the part does.
  Result<void> check(const Part& part) {
    const std::string_view path = part.path;
    const auto slashes = std::count(path.begin(), path.end(), '/');
    const auto has_suffix = [&](std::string_view suffix) { return path.ends_with(suffix); };
    if (std::none_of(kSuffixes.begin(), kSuffixes.end(), has_suffix))
      warn(path, "the suffix is none of .json, .model, .safetensors and .txt");
    if (path.find('\\') != path.npos) warn(path, "a name with a backslash");
    if (slashes > 1) warn(path, "more than one directory deep");
    const SourcePtr bytes = TRY(part.source.get());
    if (archive::method_of(*bytes).value_or(archive::kStored) != archive::kStored) warn(path, "compressed");
    if (slashes != 1) return {};
    const std::string_view folder = archive::directory_of(path);
    if (folders_.emplace(folder).second && !index_.contains(folder))
      warn(folder, "a folder that is not in model_index.json");
    if (std::find(kConfigs.begin(), kConfigs.end(), name_of(path)) != kConfigs.end()) configured_.emplace(folder);
    return {};
  }

  void check_folders() {
    for (const directory::NamedComponent& component : components_) {
      constexpr const char* kMissing = "a folder that is in model_index.json is missing";
      if (folders_.contains(component.name)) continue;
      if (component.has_weights)
        warnings_.miss_file(Code::corrupt, "dduf: {}: {}", quoted(component.name), kMissing);
      else
        warn(component.name, kMissing);
    }
    for (const std::string_view folder : folders_)
      if (!configured_.contains(folder)) warn(folder, "a folder without config.json or its like");
  }

 private:
  void warn(std::string_view path, std::string_view problem) { warnings_.add("dduf: {}: {}", quoted(path), problem); }

  std::set<std::string_view> index_;  // its keys
  std::vector<directory::NamedComponent> components_;
  Warnings& warnings_;
  std::set<std::string_view> folders_, configured_;  // in the paths of the parts
};

// Adds the tensors of a member, with its folder in front of their names.
Result<void> add_tensors(Model& model, Warnings& warnings, const Part& part, const Container& container) {
  const auto charge = std::make_shared<codec::DecodeCharge>(container.budget);
  const codec::DecodeCharge::Active active(charge);
  const SourcePtr bytes = TRY(part.source.get());
  const SourcePtr parsed = TRY(archive::bytes_to_parse(bytes, charge));
  Model inner = TRY(read_as("safetensors", {.name = std::string(name_of(part.path)),
                                            .bytes = parsed,
                                            .blobs = container.blobs,
                                            .depth = container.depth + 1,
                                            .budget = container.budget}));
  const std::string prefix(part.path.substr(0, part.path.size() - name_of(part.path).size()));
  TRY_VOID(container.budget->charge(Cost::kept, prefix.size() * inner.tensors.size()));
  TRY_VOID(inner.tensors.move_to(bytes));
  for (TensorView tensor : inner.tensors) {
    const std::string name = fmt::format("{}{}", prefix, tensor.name);
    tensor.name = name;
    model.tensors.push_back(tensor);
  }
  model.string_pool.splice(model.string_pool.end(), inner.string_pool);
  warnings.append(inner, quoted(part.path) + ": ");
  return {};
}

// Reports the shards that the index of a folder lists, and that the folder lacks. The tensors are those of all shards
// that are there: an index that is not valid changes nothing.
Result<void> check_index(const Part& part, const archive::Archive& archive, Warnings& warnings, Budget& budget) {
  const auto text = archive.text(part.path, kMaxWeightIndexSize);
  if (!text && !is_about_the_bytes(text.error())) return tl::unexpected(text.error());
  if (!text) return {};
  TRY_VOID(budget.charge(Cost::input, text->size()));
  const auto root = parse_json(*in_memory(*text), 0, text->size(), budget);
  if (!root && !is_about_the_bytes(root.error())) return tl::unexpected(root.error());
  const auto* const index = root ? std::get_if<Map>(&*root) : nullptr;
  const auto* const weights = index == nullptr ? nullptr : index->find_as<Map>("weight_map");
  if (weights == nullptr) return {};
  std::map<std::string_view, uint64_t> tensors;
  for (const auto& [name, shard] : *weights)
    if (const auto* const file = std::get_if<std::string>(&shard)) ++tensors[*file];
  MissingShards missing;
  for (const auto& [shard, count] : tensors) {
    const std::string path = fmt::format("{}/{}", archive::directory_of(part.path), shard);
    if (archive.find(path) != nullptr) continue;
    missing.add(path, "; " + lost_tensors(count, "missing"));
    warnings.add_missing_tensors(count);
  }
  missing.report(tensors.size(), warnings);
  release(footprint(*root), budget);
  return {};
}

Map common_of(const Map& index) {
  Map common;
  for (const auto& [key, name] : {std::pair{"_name_or_path", "name"}, std::pair{"_class_name", "architecture"}})
    if (const Value* const value = index.find(key); value != nullptr && std::holds_alternative<std::string>(*value))
      common.append(name, *value);
  return common;
}

Result<Model> read(archive::Archive archive, const Container& container) {
  Model model;
  model.format = "dduf";
  Warnings warnings;
  model.metadata = TRY(read_index(archive, warnings, *container.budget));
  model.common = common_of(model.metadata);
  RuleCheck rules(model.metadata, warnings);
  for (const Part& part : archive.parts) {
    if (!part.link_target.empty()) continue;
    if (!container.budget->charge(Cost::step, part.path.ends_with(kWeights) ? kWeightsSteps : kMemberSteps)) {
      warnings.miss_file(Code::unsupported, "{}: the budget is exhausted; this member and those after it are not read",
                         quoted(part.path));
      break;
    }
    TRY_VOID(rules.check(part));
    if (part.path.ends_with(kWeightIndex)) TRY_VOID(check_index(part, archive, warnings, *container.budget));
    if (!part.path.ends_with(kWeights)) continue;
    const auto added = add_tensors(model, warnings, part, container);
    if (!added && !is_about_the_bytes(added.error())) return tl::unexpected(added.error());
    if (!added)
      warnings.miss_file(added.error().code, "{}: {}; its tensors are missing", quoted(part.path),
                         added.error().message);
  }
  rules.check_folders();
  archive.warnings.append(warnings, "");
  archive::add_members(model, std::move(archive), container);
  return model;
}

}  // namespace
}  // namespace weightfs::dduf

namespace weightfs {

Result<bool> matches_dduf(const archive::Archive& archive) { return archive.find(dduf::kIndex) != nullptr; }

Result<Model> read_dduf(archive::Archive archive, const Container& container) {
  return dduf::read(std::move(archive), container);
}

}  // namespace weightfs
