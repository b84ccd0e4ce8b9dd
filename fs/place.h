// What a user names on the command line, as a tree: a container file, a directory that is one model, a directory of
// models, a store of manifests, a model in a registry, or several of these.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.h"
#include "fs/source_location.h"
#include "fs/tree.h"

namespace weightfs {

/// A source that is no path: a model's name in a registry.
struct Remote {
  Container container;
  std::string source;  ///< what it is, in full: "ollama://registry.ollama.ai/library/llama3.2:latest@sha256:…"
  std::string name;    ///< as a file would be called: "llama3.2:latest"
};

/// How sources are opened.
struct Opening {
  const Format* forced = nullptr;     ///< read every container as this, whatever it looks like
  bool all_files = false;             ///< in a directory, show files that are no model too, as they are
  BlobsPtr blobs = unstored_blobs();  ///< where what has to be unpacked is kept
  /// Finds a source whose name is no path: nothing when it is one (of a file, perhaps another than was named).
  std::function<Result<std::optional<Remote>>(std::string& source)> find = {};
  Access access = {};  ///< what may be opened for a source
  /// Told of what the rules of a source forbid to open, a line each.
  std::function<void(const std::string& line)> log = [](const std::string&) {};
  std::string hidden = {};  ///< an absolute path that is never looked at: a mount that showed itself would never end
};

/// One source: its tree is the mount itself. More: a directory for each, under its own file name (the second of one
/// name gets
/// `~2`), entered later. A source that is a directory with a key_file() is that model; one with manifests/ and blobs/
/// in it is an Ollama store: its models, by host/namespace/model/tag; any other directory shows, under their own names,
/// the models and directories in it, each read when it is entered. Fails with not_found, with io, or as reading the one
/// container fails; with unsupported where a directory has nothing to show. Of several sources each must exist, and a
/// file be a model.
Result<TreePtr> open_sources(const std::vector<std::string>& sources, const Opening& opening);

}  // namespace weightfs
