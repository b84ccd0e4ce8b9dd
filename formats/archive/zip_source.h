// The input of libzip.
#pragma once

#include <zip.h>

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/source.h"

namespace weightfs::archive::zips {

/// Replaces the method of a member that WinZip encrypted (99) in the data for libzip.
inline constexpr uint16_t kHiddenMethod = 0xFF63;

/// A Source with a position. While libzip parses the directory, it sees only the directory and its end record.
class ZipSource {
 public:
  /// `zip` begins with the first byte of the zip. The directory is at [directory, end) of it.
  ZipSource(SourcePtr zip, uint64_t directory, uint64_t end) : zip_(std::move(zip)), directory_(directory), end_(end) {}

  /// The callback for libzip, with the ZipSource as `self`.
  static zip_int64_t answer(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command);

  /// Charges the comparisons that libzip makes for the names in the directory: it puts them into a hash table, and
  /// anybody can choose names of one hash. Fails with corrupt if programs differ in the name of a member, and as the
  /// budget and as reading do.
  Result<void> check_names(Budget& budget);

  /// Replaces method 99 by kHiddenMethod: libzip refuses a whole zip if one such member lacks its extra field. Returns
  /// whether there is such a member. Fails as reading fails.
  Result<bool> hide_encryption();

  /// The name of a member as Python reads it, if it has a zero byte, for which libzip puts a space; else null.
  const std::string* cut_name(uint64_t index) const;

  /// Ends the directory phase: members are read from now on.
  void directory_is_read();

  uint64_t last_read() const { return last_read_; }  ///< offset of the last read

  /// A member is opened from now on: the first read is that of its local header.
  void member_is_opened() { first_read_.reset(); }
  /// Compares the signature of the header that was read, which libzip skips. Fails with corrupt, and as reading does.
  Result<void> check_header() const;

  /// The last error: of the source, or of libzip.
  Error error(zip_error_t& libzip);

 private:
  static constexpr size_t kWindow = 64 * 1024;

  zip_int64_t answer(void* data, zip_uint64_t length, zip_source_cmd_t command);
  zip_int64_t read(std::span<std::byte> out);
  template <class Visit>
  Result<void> each_record(const Visit& visit);
  Result<std::string> read_text_at(uint64_t offset, size_t size);
  Result<size_t> read_opening(std::span<std::byte> out);
  Result<size_t> read_directory(std::span<std::byte> out);
  Result<size_t> read_window(std::span<std::byte> out);

  SourcePtr zip_;
  uint64_t directory_, end_;
  uint64_t at_ = 0;
  uint64_t last_read_ = 0;
  std::optional<uint64_t> first_read_;  // since member_is_opened()
  bool opening_ = true;
  size_t reads_ = 0;
  std::map<uint64_t, std::string> cut_names_;  // by the index of the member
  std::vector<uint64_t> hidden_;               // offsets of the high bytes of replaced methods; sorted
  std::vector<std::byte> window_;              // while opening: bytes from window_at_ on
  uint64_t window_at_ = 0;
  std::optional<Error> error_;
  zip_error_t zip_error_ = {};  // holds codes only: nothing to free
};

}  // namespace weightfs::archive::zips
