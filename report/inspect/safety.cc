#include "report/inspect/safety.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/format.h"
#include "report/text/errors.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

constexpr Only kWithPickles = &Traits::may_have_pickles;

void check_safety(const ModelPtr& model, const std::string& name, int depth, const ReportError& report);

// Whether the part is a pickle that the model was made from.
bool is_read_pickle(const Part& part) { return part.is_structure && part.path.ends_with(".pkl"); }

// A file that is neither weights of its model nor a model in nested/.
Result<ModelPtr> model_of_file(const Model& model, const Part& part) {
  if (auto found = TRY(unpickled_part(model, part, kWithPickles))) return found;
  // In an archive, each of these is in nested/.
  return model.chosen.is_set() && !part.is_structure ? model_of_part(model, part, kWithPickles) : ModelPtr();
}

// Whether all names in a file are those of the model, which was made from it.
bool is_named_by(const Model& model, const Model& file) {
  constexpr const char* kUnknown = "unknown_globals";
  const auto* const of_model = model.common.find_as<List>(kUnknown);
  const auto* const of_file = file.common.find_as<List>(kUnknown);
  const auto is_known = [&](const Value& name) {
    const auto is_same = [&](const Value& other) {
      return std::get<std::string>(other) == std::get<std::string>(name);
    };
    return of_model != nullptr && std::ranges::any_of(*of_model, is_same);
  };
  return file.format.empty() && file.common.find("code") == nullptr && of_file != nullptr &&
         std::ranges::all_of(*of_file, is_known);
}

// The files of a directory or archive that are neither the weights of its one model nor models in nested/.
void check_other_files(const Model& model, const std::set<size_t>& nested, const std::string& name, int depth,
                       const ReportError& report) {
  const auto is_weights = [&](const std::string& path) {
    return model.chosen.is_set() &&
           std::ranges::find(model.chosen->weight_files, path) != model.chosen->weight_files.end();
  };
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const Part& part = model.parts[i];
    if (nested.contains(i) || !part.link_target.empty() || is_weights(part.path) || is_read_pickle(part)) continue;
    const std::string path = join_path(name, part.path);
    const auto read = model_of_file(model, part);
    if (!read)
      report(error_at(path, read.error()));
    else if (*read != nullptr && !is_named_by(model, **read))
      check_safety(*read, path, depth + 1, report);
  }
}

std::string first_names(const List& names) {
  constexpr size_t kShown = 10;
  std::string shown;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    if (const auto* const name = std::get_if<std::string>(&names[i])) shown += (i == 0 ? "" : ", ") + *name;
  return names.size() <= kShown ? shown : fmt::format("{} and {} more", shown, names.size() - kShown);
}

// "config.json: AutoModel: modeling_x.XModel runs code when …", without the file if it is the model itself.
std::string sentence_of(const CodeItem& item, const std::string& name) {
  if (item.runs.empty()) return item.what;
  const bool is_itself = item.where.empty() || name == item.where || name.ends_with("/" + item.where);
  return fmt::format("{}{} runs code {}", is_itself ? "" : item.where + ": ", item.what, item.runs);
}

// What may run code in a model, and the names in its pickles that are not known.
void check_code(const Model& model, const std::string& name, const ReportError& report) {
  const auto fail = [&](const std::string& what) {
    report({Code::unsupported, fmt::format("{}: {}", printable(name), what)});
  };
  const FoundCode code = code_of(model);
  const auto pickled = [&](std::string_view when) {
    std::string names;
    for (const CodeItem& item : code.items)
      if (item.runs == when) names += (names.empty() ? "" : ", ") + item.what;
    return names;
  };
  if (const std::string names = pickled(kUnpickled); !names.empty())
    fail(fmt::format("names {}, which can run code", names));
  if (const std::string names = pickled(kUnpickledLater); !names.empty())
    fail(fmt::format("its later pickles name {}, which can run code", names));
  for (const CodeItem& item : code.items)
    if (item.runs != kUnpickled && item.runs != kUnpickledLater) fail(sentence_of(item, name));
  for (const std::string& file : code.not_examined) fail(file);
  if (const auto* const names = model.common.find_as<List>("unknown_globals"))
    fail(fmt::format("names {}, of which weightfs does not know that {} harmless", first_names(*names),
                     names->size() == 1 ? "it is" : "they are"));
}

void check_safety(const ModelPtr& model, const std::string& name, int depth, const ReportError& report) {
  if (model->complete_model != nullptr) {
    const auto& complete = model->complete_model->get();
    return complete ? check_safety(*complete, name, depth, report) : report(error_at(name, complete.error()));
  }
  check_code(*model, name, report);
  if (depth > kMaxNestingDepth)
    return report({Code::unsupported, fmt::format("{}: not examined: nested deeper than {} containers", printable(name),
                                                  kMaxNestingDepth)});
  const auto nested = model->nested ? model->nested(model) : std::vector<Nested>();
  if (!nested) return report(error_at(name, nested.error()));
  std::set<size_t> parts;
  for (const Nested& inner : *nested) {
    parts.insert(inner.part);
    const std::string path = join_path(name, model->parts[inner.part].path);
    const auto& read = inner.model.get();
    if (read)
      check_safety(*read, path, depth + 1, report);
    else
      report(error_at(path, read.error()));
  }
  if (model->chosen.is_set() || model->has_members) check_other_files(*model, parts, name, depth, report);
}

// A name, cut if it is long.
std::string short_name(const std::string& name) {
  constexpr size_t kMost = 60;
  return name.size() <= kMost ? name : to_utf8(begin_of_text(name, kMost)) + "…";
}

}  // namespace

std::string reasons_of(const std::vector<CodeItem>& items) {
  constexpr size_t kMostNames = 5, kMostMoments = 2;
  std::vector<std::pair<std::string, std::string>> moments;  // each with the names that run then
  uint64_t shown = 0, hidden = 0;
  for (const CodeItem& item : items) {
    auto moment = std::ranges::find(moments, item.runs, [](const auto& each) { return each.first; });
    const bool is_new = moment == moments.end();
    if (item.runs.empty() || shown == kMostNames || (is_new && moments.size() == kMostMoments)) {
      hidden += item.runs.empty() ? std::max<uint64_t>(others_in(item), 1) : 1;
      continue;
    }
    if (is_new) moment = moments.insert(moments.end(), {item.runs, ""});
    moment->second += (moment->second.empty() ? "" : ", ") + short_name(item.what);
    ++shown;
  }
  std::string out;
  for (const auto& [runs, names] : moments) out += fmt::format("{}{} {}", out.empty() ? "" : "; ", names, runs);
  return hidden == 0 ? out : fmt::format("{}; and {} more", out, hidden);
}

void check_safety(const ModelPtr& model, const std::string& name, const ReportError& report) {
  check_safety(model, name, 0, report);
}

void check_code(std::vector<Part> files, const std::string& directory, const ReportError& report) {
  Model model;
  model.has_members = true;
  model.parts = std::move(files);
  check_code(model, directory, report);
}

void check_safety(const Part& file, const std::string& directory, const ReportError& report) {
  const std::string path = join_path(directory, file.path);
  const auto read = unpickled_part(Model(), file, kWithPickles);
  if (!read)
    report(error_at(path, read.error()));
  else if (*read != nullptr)
    check_safety(*read, path, 1, report);
}

}  // namespace weightfs
