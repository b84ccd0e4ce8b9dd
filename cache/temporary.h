// The shelf of one process: a temporary file without a name, in which every blob has a place of its own. It goes with
// the process, however that ends.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "cache/shelf.h"

namespace weightfs {

class Temporary final : public Shelf, public std::enable_shared_from_this<Temporary> {
 public:
  explicit Temporary(std::optional<uint64_t> quota) : quota_(quota) {}

  Kept opened(const Name& name) override;
  Kept find(const Name& name, std::optional<uint64_t> size) override;
  Result<Begun> begin(const Name& name, std::optional<uint64_t> size) override;

  /// The next `size` bytes of the file, allocated if the system can.
  Result<Range::Piece> take(uint64_t size);
  /// Lets go of a piece that take() gave.
  void give_back(const Range::Piece& piece);
  /// Keeps the blob; returns the one of the same digest that was there before, if there was.
  Kept keep(const std::string& name, Kept blob);

 private:
  Result<OpenFilePtr> file();

  std::mutex mutex_;  // guards the rest
  std::optional<uint64_t> quota_;
  OpenFilePtr file_;
  uint64_t end_ = 0;                             // of what was ever taken
  uint64_t used_ = 0;                            // of it, what was not given back
  std::unordered_map<std::string, Kept> blobs_;  // each by its digest, and by the names that it was wanted under
};

}  // namespace weightfs
