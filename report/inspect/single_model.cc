#include "report/inspect/single_model.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/one_model.h"
#include "report/inspect/models_below.h"

namespace weightfs {

Result<ModelPtr> with_lazy_parts(const ModelPtr& model) {
  return model->complete_model ? model->complete_model->get() : Result<ModelPtr>(model);
}

Error several_models(const std::string& source, const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 10;
  const bool are_models = std::ranges::all_of(names, [](const std::string& name) { return is_named_as_weights(name); });
  std::string text = are_models ? fmt::format("{} models", names.size()) : "several models";
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) text += (i == 0 ? ": " : ", ") + printable(names[i]);
  if (names.size() > kMaxNames) text += fmt::format(" and {} others", names.size() - kMaxNames);
  return {Code::unsupported, fmt::format("{} has {}; name one of them", printable_source(source), text)};
}

Result<SingleModel> single_model(Forest& forest, const std::string& source) {
  if (const ModelPtr model = forest.model_of(Forest::kRoot)) return SingleModel{TRY(with_lazy_parts(model)), ""};
  constexpr size_t kMost = 100;
  std::vector<std::string> paths = models_below(forest, Forest::kRoot, "", kMost);
  if (paths.size() == 1) {
    const Ino ino = TRY(forest.resolve(paths.front()));
    const Forest::Listing all = TRY(forest.list(ino));
    if (const ModelPtr model = all.tree->model()) return SingleModel{TRY(with_lazy_parts(model)), paths.front()};
  }
  for (std::string& path : paths) path.pop_back();
  return failure(several_models(source, paths));
}

}  // namespace weightfs
