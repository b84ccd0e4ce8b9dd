// Blobs that other programs keep on this machine, read in place and never written: Ollama's store, the cartons' cache,
// the Hugging Face hub's cache, directories that the user names.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/source.h"

namespace weightfs {

/// A file that should hold a blob, by its name. Nobody has compared its digest yet.
struct Candidate {
  std::string path;
  SourcePtr bytes;
};

/// Callable from any thread. The directories are looked at again after a second at the earliest, and only those that
/// changed are listed again: that a blob is not there costs one look into a table.
class Elsewhere {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// `directories` in front of the well-known places of this user: $OLLAMA_MODELS/blobs, ~/.ollama/models/blobs,
  /// /usr/share/ollama/.ollama/models/blobs; $CARTON_CACHE_DIR/files, ~/.carton/cache/files; $HF_HUB_CACHE,
  /// $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub.
  /// Of the environment only absolute paths count. Nothing is looked at yet.
  explicit Elsewhere(std::vector<std::string> directories, Clock clock = std::chrono::steady_clock::now);

  /// Every file that is named as that blob would be: in a directory (or its blobs/) sha256-HEX, sha256:HEX, HEX,
  /// sha256/HEX (an OCI image layout), HEX/file (cartons), and models--*/blobs/HEX (the hub; also datasets--*,
  /// spaces--*). Symbolic links are followed; a file that several of these are is told once. What lies on a weightfs
  /// mount is passed over. Files of another size than `size`, and those that cannot be read, are left out, and said in
  /// `wrong`, a line each.
  std::vector<Candidate> find(const Digest& digest, std::optional<uint64_t> size,
                              std::vector<std::string>& wrong) const;

  /// Makes the next find() look again, whenever the last look was: a file was found to have changed.
  void look_again() const;

  /// How many directories were listed up to now, for tests.
  uint64_t listed() const;

 private:
  // The names in a directory that are those of blobs or lead to some, as it had them at that time.
  struct Listing {
    struct stat directory;
    bool settled;  // it was not changed just before, so that the next change shows in its time
    std::vector<std::pair<std::string, std::string>> blobs;  // the digest in hex, and the path
    std::vector<std::string> below;                          // the paths of directories to be listed, too
    bool complete;                                           // false: names in it have to be tried
  };
  struct Table;

  std::shared_ptr<const Table> table() const;
  void add(Table& table, const std::string& directory, int depth) const;
  const Listing* listing_of(const std::string& directory, const struct stat& status) const;

  std::vector<std::string> directories_;
  Clock clock_;
  mutable std::mutex mutex_;  // guards the rest
  mutable std::map<std::string, Listing> listings_;
  mutable std::shared_ptr<const Table> table_;
  mutable uint64_t listed_ = 0;
};

/// The well-known places of this user.
std::vector<std::string> external_stores();

/// Fails when what the user named cannot be one of `directories`: not_found when it is not there, io when it is no
/// directory or cannot be entered.
Result<void> check_blob_directory(const std::string& path);

}  // namespace weightfs
