// How a command opens the SOURCE that it reads.
#pragma once

#include <functional>
#include <memory>

#include "cache/blob_store.h"
#include "cli/options/open_options.h"
#include "cli/sandbox/broker.h"
#include "cli/sandbox/output_file.h"
#include "fs/forest.h"

namespace weightfs {

/// An open source. The store and the broker serve its files, so they outlive the forest.
struct OpenedSource {
  BlobStorePtr store;
  std::unique_ptr<sandbox::Broker> broker;  ///< null if the sandbox is off
  std::unique_ptr<Forest> forest;
};

/// Creates the store, enters the sandbox and opens the source. Reports warnings to standard error. The model's blobs
/// come from `blobs_from(store)` if it is given (default: from the store). The broker publishes `output` if that is not
/// null.
Result<OpenedSource> open_source(SourceInput& input,
                                 const std::function<BlobsPtr(const BlobStorePtr&)>& blobs_from = {},
                                 sandbox::OutputFile* output = nullptr);

}  // namespace weightfs
