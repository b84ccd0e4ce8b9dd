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

using BlobsFrom = std::function<BlobsPtr(const BlobStorePtr&)>;

/// An open source. The store and the broker serve its files, so they outlive the forest.
struct OpenedSource {
  BlobStorePtr store;
  std::unique_ptr<sandbox::Broker> broker;  ///< null if the sandbox is off
  std::unique_ptr<Forest> forest;
  std::string source;     ///< what was opened: for one in a mount the first source of the mount
  std::string path = {};  ///< of SOURCE in the model, if that is a directory in a mount (SourceInput::takes_paths)
};

/// Creates the store, enters the sandbox and opens the source (cli/pipeline/stages.h); afterwards the options of
/// `input` are those with the store. For a directory in a mount opens the source of the mount. Reports warnings to
/// standard error. The broker publishes `output` if that is not null. Messages of errors begin with the source.
Result<OpenedSource> open_source(SourceInput& input, sandbox::Output* output = nullptr);

/// Several open sources, in the order of the arguments.
struct OpenedSources {
  BlobStorePtr store;
  std::unique_ptr<sandbox::Broker> broker;       ///< null if the sandbox is off
  std::vector<std::unique_ptr<Forest>> forests;  ///< null for one that failed
  std::vector<std::string> sources;              ///< as OpenedSource::source
  MayOpen proof;
};

struct OpenEach {
  /// Receives the place of each source that cannot be opened; without it, the first error is the result.
  std::function<void(size_t source, const Error& error)> failed = {};
  BlobsFrom blobs_from = {};          ///< returns what the blobs of the models come from (default: the store)
  sandbox::Output* output = nullptr;  ///< published by the broker
};

/// Opens each of `sources`, with the options of `input`, whose source is ignored.
Result<OpenedSources> open_each_source(const std::vector<std::string>& sources, SourceInput& input,
                                       const OpenEach& how = {});

/// A model of a forest as a forest of its own.
struct EnteredModel {
  std::unique_ptr<Forest> forest;
  std::string path;  ///< in the forest that it is from; empty for its root
};

/// The only model of a directory of models; the forest as it is, if it is a model, has several, or is that of a store,
/// whose models are known by their names. `source`: what was opened.
EnteredModel only_model(std::unique_ptr<Forest> forest, const std::string& source);

}  // namespace weightfs
