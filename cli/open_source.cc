#include "cli/open_source.h"

#include "cli/console/check_spelling.h"
#include "cli/console/report_error.h"
#include "cli/sandbox/sandbox.h"
#include "cli/sandbox/settle_network.h"
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

}  // namespace weightfs
