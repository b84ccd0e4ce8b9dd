#include "cli/open_source.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "cli/console/report_error.h"
#include "cli/console/suggestions.h"
#include "cli/inspect/models_below.h"
#include "cli/sandbox/sandbox.h"
#include "cli/sandbox/settle_network.h"
#include "formats/one_model.h"
#include "fs/source_tree.h"

namespace weightfs {
namespace {

struct StoreAndBroker {
  BlobStorePtr store;
  std::unique_ptr<sandbox::Broker> broker;
};

Result<StoreAndBroker> confine(const std::vector<std::string>& sources, SourceInput& input, sandbox::Output* output) {
  TRY_VOID(check_spelling(sources));
  sandbox::settle_network(sources, input.open_options, input.store_flags);
  StoreAndBroker confined;
  confined.store = TRY(use_store(sources, input.open_options, input.store_flags, log_to_stderr));
  TRY_VOID(read_credentials(sources, input.open_options));
  confined.broker =
      TRY(sandbox::confine_command(sources, input.open_options.access, input.store_flags, log_to_stderr, output));
  return confined;
}

}  // namespace

Result<OpenedSource> open_source(SourceInput& input, const std::function<BlobsPtr(const BlobStorePtr&)>& blobs_from,
                                 sandbox::Output* output) {
  StoreAndBroker confined = TRY(confine({input.source}, input, output));
  if (blobs_from) input.open_options.blobs = blobs_from(confined.store);
  OpenedSource opened{std::move(confined.store), std::move(confined.broker), nullptr};
  opened.forest =
      std::make_unique<Forest>(TRY(open_sources({input.source}, input.open_options, {.layout = input.layout})));
  return opened;
}

Result<OpenedSources> open_each_source(const std::vector<std::string>& sources, SourceInput& input,
                                       const std::function<void(size_t source, const Error& error)>& failed,
                                       sandbox::Output* output) {
  StoreAndBroker confined = TRY(confine(sources, input, output));
  OpenedSources opened{std::move(confined.store), std::move(confined.broker), {}};
  for (size_t i = 0; i < sources.size(); ++i) {
    auto forest = open_sources({sources[i]}, input.open_options);
    if (!forest && !failed) return failure(forest.error());
    if (!forest) failed(i, forest.error());
    opened.forests.push_back(forest ? std::make_unique<Forest>(std::move(*forest)) : nullptr);
  }
  return opened;
}

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
