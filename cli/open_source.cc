#include "cli/open_source.h"

#include "cli/console/check_spelling.h"
#include "cli/console/report_error.h"
#include "cli/pipeline/stages.h"

namespace weightfs {
namespace {

struct ConfinedCommand {
  std::unique_ptr<sandbox::Broker> broker;
  Confined confined;
};

// Hands the options with the store back to `input`.
Result<ConfinedCommand> confine(const std::vector<std::string>& sources, SourceInput& input, sandbox::Output* output) {
  TRY_VOID(check_spelling(sources));
  Plan plan = Plan::make(sources, input.open_options, input.store_flags, log_to_stderr);
  auto broker = TRY(sandbox::start_command_broker(plan.flags, output));
  Rights rights{.broker = plan.flags.sandbox ? broker.get() : nullptr};
  if (output != nullptr && !output->writable_directory().empty())
    rights.access.files.write.push_back(output->writable_directory());
  Confined confined = TRY(Confined::enter({std::move(plan), std::move(rights)}));
  input.open_options = confined.options;
  return ConfinedCommand{std::move(broker), std::move(confined)};
}

}  // namespace

Result<OpenedSource> open_source(SourceInput& input, const std::function<BlobsPtr(const BlobStorePtr&)>& blobs_from,
                                 sandbox::Output* output) {
  ConfinedCommand command = TRY(confine({input.source}, input, output));
  Confined& confined = command.confined;
  if (blobs_from) input.open_options.blobs = confined.options.blobs = blobs_from(confined.store);
  auto forest = TRY(confined.open(input.source, input.layout));
  return OpenedSource{std::move(confined.store), std::move(command.broker), std::move(forest), confined.sandbox.proof};
}

Result<OpenedSources> open_each_source(const std::vector<std::string>& sources, SourceInput& input,
                                       const std::function<void(size_t source, const Error& error)>& failed,
                                       sandbox::Output* output) {
  ConfinedCommand command = TRY(confine(sources, input, output));
  std::vector<std::unique_ptr<Forest>> forests;
  for (size_t i = 0; i < sources.size(); ++i) {
    auto forest = command.confined.open(sources[i]);
    if (!forest && !failed) return failure(forest.error());
    if (!forest) failed(i, forest.error());
    forests.push_back(forest ? std::move(*forest) : nullptr);
  }
  return OpenedSources{std::move(command.confined.store), std::move(command.broker), std::move(forests)};
}

}  // namespace weightfs
