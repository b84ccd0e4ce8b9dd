// What libzip reads a zip from.
#pragma once

#include <zip.h>

#include <optional>
#include <span>
#include <vector>

#include "base/source.h"

namespace weightfs::zips {

/// What libzip is shown for the method of a member that WinZip encrypted (99).
inline constexpr uint16_t kHiddenMethod = 0xFF63;

/// A Source with a place where it is. While the directory is read, libzip is shown nothing but that and its end record.
class Feed {
 public:
  /// `zip`: from its first byte on. The directory lies at [directory, end) of it.
  Feed(SourcePtr zip, uint64_t directory, uint64_t end) : zip_(std::move(zip)), directory_(directory), end_(end) {}

  /// The callback that libzip is given, with the Feed as `self`.
  static zip_int64_t answer(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command);

  /// Shows kHiddenMethod in place of 99: libzip refuses a whole zip when one such member lacks its extra field. Returns
  /// whether there is such a member. Fails as reading fails.
  Result<bool> hide_encryption();

  /// From now on members are read, not the directory.
  void directory_is_read();

  uint64_t last_read() const { return last_read_; }  ///< where the last read began

  /// What went wrong: an error of ours, or what libzip says of the bytes.
  Error error(zip_error_t& libzip);

 private:
  static constexpr size_t kWindow = 64 * 1024;

  zip_int64_t answer(void* data, zip_uint64_t length, zip_source_cmd_t command);
  zip_int64_t read(std::span<std::byte> out);
  Result<size_t> read_directory(std::span<std::byte> out);
  Result<size_t> read_window(std::span<std::byte> out);

  SourcePtr zip_;
  uint64_t directory_, end_;
  uint64_t at_ = 0;
  uint64_t last_read_ = 0;
  bool opening_ = true;
  size_t reads_ = 0;
  std::vector<uint64_t> hidden_;   // where the high bytes of methods lie that are changed; sorted
  std::vector<std::byte> window_;  // while opening: bytes from window_at_ on
  uint64_t window_at_ = 0;
  std::optional<Error> error_;
  zip_error_t zip_error_ = {};  // holds codes only: nothing to free
};

}  // namespace weightfs::zips
