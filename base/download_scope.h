// Restricts Source::prefetch() to downloads, for bytes that no reader has requested yet: they are worth a download, but
// not reading or decoding a local file.
#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"

namespace weightfs {

/// While it exists, Source::prefetch() in the calling thread only downloads bytes of the given range: it does not read
/// local files, and does not decode. A blob that is downloaded as a whole is skipped unless the range has all its
/// bytes.
class DownloadScope {
 public:
  /// prefetch() fails with resource when more than `max_bytes` would be requested.
  explicit DownloadScope(uint64_t max_bytes = UINT64_MAX)
      : max_bytes_(max_bytes), outer_(std::exchange(current_, this)) {}
  ~DownloadScope() { current_ = outer_; }
  DownloadScope(const DownloadScope&) = delete;
  DownloadScope& operator=(const DownloadScope&) = delete;

  /// The bytes that were requested from servers or were already downloaded.
  uint64_t bytes() const { return bytes_; }

  static bool is_active() { return current_ != nullptr; }  ///< in the calling thread

  /// Counts bytes before they are requested.
  static Result<void> charge(uint64_t bytes) {
    if (current_ == nullptr) return {};
    if (bytes > current_->max_bytes_ - current_->bytes_) return failure(Code::resource, "larger than the cache");
    current_->bytes_ += bytes;
    return {};
  }

 private:
  static inline thread_local DownloadScope* current_ = nullptr;

  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  DownloadScope* outer_;
};

}  // namespace weightfs
