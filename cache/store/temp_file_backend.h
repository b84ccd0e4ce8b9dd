// The shelf of one process: a temporary file without a name, in which every blob has a place of its own. It goes with
// the process, however that ends.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "cache/store/blob_backend.h"

namespace weightfs {

/// The file, and how much of it is taken. Callable from any thread.
class TemporaryFile : public std::enable_shared_from_this<TemporaryFile> {
 public:
  /// Bytes of the file, given back with it: whoever may read them shares it. Only who took it changes it.
  class Taken {
   public:
    Taken(std::shared_ptr<TemporaryFile> file, uint64_t offset, uint64_t size)
        : file_(std::move(file)), offset_(offset), size_(size) {}
    ~Taken() { shorten(0); }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

    uint64_t offset() const { return offset_; }
    uint64_t size() const { return size_; }
    /// Gives back what is beyond the first `size` bytes, which nobody reads.
    void shorten(uint64_t size);

   private:
    std::shared_ptr<TemporaryFile> file_;
    uint64_t offset_;
    uint64_t size_;
  };

  /// Fails when there is no place for one.
  static Result<std::shared_ptr<TemporaryFile>> open(std::optional<uint64_t> quota);

  TemporaryFile(OpenFilePtr file, uint64_t quota) : file_(std::move(file)), quota_(quota) {}

  const OpenFilePtr& file() const { return file_; }

  /// The next `size` bytes of the file, allocated if the system can.
  Result<std::shared_ptr<Taken>> take(uint64_t size);

 private:
  void give_back(uint64_t offset, uint64_t size);

  OpenFilePtr file_;
  uint64_t quota_;
  std::mutex mutex_;   // guards the rest
  uint64_t end_ = 0;   // of what was ever taken
  uint64_t used_ = 0;  // of it, what was not given back
};

class Temporary final : public Shelf, public std::enable_shared_from_this<Temporary> {
 public:
  explicit Temporary(std::optional<uint64_t> quota) : quota_(quota) {}

  Kept opened(const Name& name) override;
  Kept find(const Name& name, std::optional<uint64_t> size) override;
  Result<Begun> begin(const Name& name, std::optional<uint64_t> size, const std::atomic<bool>& stop) override;

  std::optional<Digest> noted(Of of, const std::string& key) override;
  Result<void> note(Of of, const std::string& key, const Digest& digest) override;

  /// Keeps the blob; returns the one of the same digest that was there before, if there was.
  Kept keep(const std::string& name, Kept blob);

 private:
  Result<std::shared_ptr<TemporaryFile>> file();

  std::mutex mutex_;  // guards the rest
  std::optional<uint64_t> quota_;
  std::shared_ptr<TemporaryFile> file_;
  std::unordered_map<std::string, Digest> notes_;
  std::unordered_map<std::string, Kept> blobs_;  // each by its digest, and by the names that it was wanted under
};

}  // namespace weightfs
