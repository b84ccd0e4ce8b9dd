#include "cli/inspect/safety.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/console/report_error.h"
#include "cli/console/words.h"
#include "formats/format.h"

namespace weightfs {
namespace {

// Formats whose files are pickles, or may have them inside. Their names are those of formats().
constexpr std::array<std::string_view, 5> kWithPickles = {"npy", "pytorch-legacy", "pickle", "zip", "tar"};

// The files of a directory or archive that are neither the weights of its one model nor models in nested/.
void check_other_files(const Model& model, const std::set<size_t>& nested, const std::string& name, Outcome& outcome) {
  const std::vector<std::string>& weights = model.chosen->weight_files;
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const Part& part = model.parts[i];
    if (nested.contains(i) || part.is_structure || !part.link_target.empty()) continue;
    if (std::ranges::find(weights, part.path) != weights.end()) continue;
    const std::string path = join_path(name, part.path);
    const auto read = model_of_part(model, part, kWithPickles);
    if (!read)
      outcome.fail(error_at(path, read.error()));
    else if (*read != nullptr)
      check_safety(*read, path, outcome);
  }
}

}  // namespace

void check_safety(const ModelPtr& model, const std::string& name, Outcome& outcome) {
  if (model->complete_model != nullptr) {
    const auto& complete = model->complete_model->get();
    return complete ? check_safety(*complete, name, outcome) : outcome.fail(error_at(name, complete.error()));
  }
  if (const auto* const names = model->common.find_as<std::string>("dangerous_globals"))
    outcome.fail({Code::unsupported, fmt::format("{}: runs code when it is loaded: {}", printable(name), *names)});
  if (const auto* const names = model->common.find_as<std::string>("later_dangerous_globals"))
    outcome.fail({Code::unsupported, fmt::format("{}: its later pickles may run code: {}", printable(name), *names)});
  const auto nested = model->nested ? model->nested(model) : std::vector<Nested>();
  if (!nested) return outcome.fail(error_at(name, nested.error()));
  std::set<size_t> parts;
  for (const Nested& inner : *nested) {
    parts.insert(inner.part);
    const std::string path = join_path(name, model->parts[inner.part].path);
    const auto& read = inner.model.get();
    if (read)
      check_safety(*read, path, outcome);
    else
      outcome.fail(error_at(path, read.error()));
  }
  if (model->chosen.is_set()) check_other_files(*model, parts, name, outcome);
}

}  // namespace weightfs
