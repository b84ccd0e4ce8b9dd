// How a command opens the SOURCEs that it reads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "cli/options/open_options.h"
#include "cli/sandbox/broker.h"
#include "cli/sandbox/output_file.h"
#include "fs/tree/forest.h"

namespace weightfs {

/// An open source. The store and the broker serve its files, so they outlive the forest.
struct OpenedSource {
  BlobStorePtr store;
  std::unique_ptr<sandbox::Broker> broker;  ///< null if the sandbox is off
  std::unique_ptr<Forest> forest;
  MayOpen proof;
};

/// Creates the store, enters the sandbox and opens the source (cli/pipeline/stages.h); afterwards the options of
/// `input` are those with the store. Reports warnings to standard error. The model's blobs come from
/// `blobs_from(store)` if it is given (default: from the store). The broker publishes `output` if that is not null.
Result<OpenedSource> open_source(SourceInput& input,
                                 const std::function<BlobsPtr(const BlobStorePtr&)>& blobs_from = {},
                                 sandbox::Output* output = nullptr);

/// Several open sources, in the order of the arguments.
struct OpenedSources {
  BlobStorePtr store;
  std::unique_ptr<sandbox::Broker> broker;       ///< null if the sandbox is off
  std::vector<std::unique_ptr<Forest>> forests;  ///< null for one that failed
};

/// Opens each of `sources`, with the options of `input`, whose source is ignored. A source that cannot be opened
/// is passed to `failed`, with its place; without `failed`, its error is the result. The broker publishes `output` if
/// that is not null.
Result<OpenedSources> open_each_source(const std::vector<std::string>& sources, SourceInput& input,
                                       const std::function<void(size_t source, const Error& error)>& failed = {},
                                       sandbox::Output* output = nullptr);

}  // namespace weightfs
