// The files of a repository as the JSON of the Hub's API.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/value.h"
#include "fs/http/protocol/message.h"
#include "serve/hub/repository.h"

namespace weightfs::hub {

/// An entry of a listing: a file, or a directory.
struct Entry {
  std::string path;
  const RepositoryFile* file;  ///< null: a directory
};

enum class Depth { one, all };

/// The files and directories below a directory, "" for the root, sorted by path. Empty if there is no such directory.
std::vector<Entry> entries_below(const Repository& repository, const std::string& directory, Depth depth);

/// The entry at a path; its path is empty if there is none.
Entry entry_at(const Repository& repository, const std::string& path);

/// An entry, with its last commit if the client wants entries to be expanded.
Map value_of(const Repository& repository, const Entry& entry, bool is_expanded);

/// What a repository is, with its files: their names, or their sizes and digests, too. JSON.
std::string describe(const Repository& repository, bool with_sizes);

/// The paths that the body of a request names, as a form or JSON.
struct WantedPaths {
  std::vector<std::string> paths;
  bool is_expanded = false;
};
/// Refuses with 400 what is neither.
httpd::Accepted<WantedPaths> wanted_paths(const httpd::Request& request);

}  // namespace weightfs::hub
