// What the tests of cache/ make blobs from: streams that count, wait, end early or lie, and what a store left on disk.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/blobs.h"
#include "base/text.h"

namespace weightfs::test {

/// Opened once, by whoever; all who wait go on.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

/// How a blob is made in a test, and how often it was. May be changed while nothing is made of it.
struct Making {
  std::string bytes;                   ///< what the stream gives
  size_t piece = 100'000;              ///< at most so many at a time
  std::function<void(size_t)> before;  ///< called with the number of bytes given so far, before more
  std::optional<Error> error;          ///< what it ends with
  std::atomic<int> starts = 0;
};
using MakingPtr = std::shared_ptr<Making>;

class MakingStream final : public Stream {
 public:
  explicit MakingStream(MakingPtr making) : making_(std::move(making)) {}

  Result<size_t> next(std::span<std::byte> out) override {
    if (making_->before) making_->before(at_);
    const size_t count = std::min({out.size(), making_->piece, making_->bytes.size() - at_});
    if (count == 0 && making_->error) return tl::unexpected(*making_->error);
    std::memcpy(out.data(), making_->bytes.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  MakingPtr making_;
  size_t at_ = 0;
};

/// `size` bytes that repeat nowhere soon; others for every seed.
inline std::string some_bytes(size_t size, uint32_t seed = 1) {
  std::string bytes(size, '\0');
  uint32_t state = seed * 2654435761U + 1;
  for (char& c : bytes) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

inline MakingPtr making(std::string bytes) {
  auto made = std::make_shared<Making>();
  made->bytes = std::move(bytes);
  return made;
}

/// A recipe of these bytes, found again by `key`.
inline Recipe recipe_of(const MakingPtr& making, std::string key) {
  Recipe recipe;
  recipe.name = "member";
  recipe.size = making->bytes.size();
  recipe.key = std::move(key);
  recipe.start = [making]() -> Result<StreamPtr> {
    ++making->starts;
    return std::make_unique<MakingStream>(making);
  };
  return recipe;
}

/// Bytes in a form to compare and to print: the first few, how many, and their digest.
inline std::string told(std::string_view bytes) {
  return str(quoted(bytes.substr(0, 20)), ", ", bytes.size(), " bytes ", sha256(bytes).hex().substr(0, 8));
}

/// Those bytes of the source, told, or what went wrong.
inline std::string read(const Source& source, uint64_t offset, size_t size) {
  std::string out(size, '?');
  const auto got = source.read(offset, std::as_writable_bytes(std::span(out)));
  return got ? told(std::string_view(out).substr(0, *got)) : "error: " + got.error().message;
}
inline std::string read(const Source& source) { return read(source, 0, source.size()); }

/// Every file below a directory, in order, by its path from there; directories are not told.
inline std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(directory)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_symlink() || !entry.is_directory()) files.push_back(entry.path().lexically_relative(directory));
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string blob_path(std::string_view bytes) {
  const std::string hex = sha256(bytes).hex();
  return str("v1/blobs/", hex.substr(0, 2), "/", hex);
}

/// What the files below a directory take on disk.
inline uint64_t allocated_in(const std::string& directory) {
  uint64_t sum = 0;
  for (const std::string& file : files_in(directory)) {
    struct stat status {};
    if (::lstat(str(directory, "/", file).c_str(), &status) == 0) sum += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  return sum;
}

}  // namespace weightfs::test
