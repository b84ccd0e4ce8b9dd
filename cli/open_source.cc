#include "cli/open_source.h"

#include "cli/console/report_error.h"
#include "cli/sandbox/sandbox.h"
#include "fs/source_tree.h"

namespace weightfs {

Result<OpenedSource> open_source(SourceInput& input, const std::function<BlobsPtr(const BlobStorePtr&)>& blobs_from,
                                 sandbox::OutputFile* output) {
  OpenOptions& options = input.open_options;
  if (is_offline_by_environment({input.source})) input.store_flags.offline = true;
  OpenedSource opened;
  opened.store = TRY(use_store(options, input.store_flags, log_to_stderr));
  TRY_VOID(read_credentials({input.source}, options));
  opened.broker = TRY(sandbox::confine_command(input.source, options.access, input.store_flags, log_to_stderr, output));
  if (blobs_from) options.blobs = blobs_from(opened.store);
  opened.forest = std::make_unique<Forest>(TRY(open_sources({input.source}, options)));
  return opened;
}

}  // namespace weightfs
