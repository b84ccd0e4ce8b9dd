// Blobs in the stores of other programs, read in place and never written: Ollama, cartons, the Hugging Face hub, and
// directories that the user names.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/os/mounts.h"
#include "base/source.h"

namespace weightfs {

/// A file that is named as a blob. Not verified.
struct Candidate {
  std::string path;
  SourcePtr bytes;
};

/// Thread-safe. Directories are rescanned after one second at the earliest, and listed again only if they changed: a
/// lookup that finds nothing costs one hash table access.
class ExternalStores {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// Searches `directories` first, then the well-known stores of this user: $OLLAMA_MODELS/blobs,
  /// ~/.ollama/models/blobs, /usr/share/ollama/.ollama/models/blobs; $CARTON_CACHE_DIR/files, ~/.carton/cache/files;
  /// $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. Relative paths in the
  /// environment are ignored. Reads no directory yet.
  explicit ExternalStores(std::vector<std::string> directories, Clock clock = std::chrono::steady_clock::now);

  /// Finds every file with a name of that blob: in a directory (or its blobs/) sha256-HEX, sha256:HEX, HEX, sha256/HEX
  /// (an OCI image layout), HEX/file (cartons), and models--*/blobs/HEX (the hub; also datasets--*, spaces--*). Follows
  /// symbolic links, returns each file once, and skips weightfs mounts. Skips unreadable files and files of another
  /// size than `size`, with a line for each in `rejected`.
  std::vector<Candidate> find(const Digest& digest, std::optional<uint64_t> size,
                              std::vector<std::string>& rejected) const;

  /// Makes the next find() rescan, because a file was found to have changed.
  void invalidate() const;

 private:
  // The relevant names in a directory at one time: blobs, and subdirectories that may hold blobs.
  struct Listing {
    struct stat directory;
    bool is_stable;  // the mtime is old enough that any later change alters it
    std::vector<std::pair<std::string, std::string>> blobs = {};  // digest in hex, and path
    std::vector<std::string> subdirectories = {};                 // paths of directories to list
    bool complete = true;                                         // false: the names must be tried one by one
  };

  std::vector<std::string> paths_of(const std::string& hex) const;
  void add(const Mounts& mounts, const std::string& directory, int depth) const;
  const Listing& list(const std::string& directory, const struct stat& status) const;

  std::vector<std::string> directories_;
  Clock clock_;
  mutable std::mutex mutex_;  // guards the rest
  mutable std::map<std::string, Listing> listings_;
  mutable std::chrono::steady_clock::time_point expires_;                    // of the next two
  mutable std::unordered_map<std::string, std::vector<std::string>> paths_;  // by digest in hex, in search order
  mutable std::vector<std::string> unlisted_;  // searchable directories that cannot be listed
};

/// The well-known stores of this user.
std::vector<std::string> well_known_stores();

}  // namespace weightfs
