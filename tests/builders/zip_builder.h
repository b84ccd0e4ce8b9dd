// Builds zips for tests, right or wrong, with every field under the test's control.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "tests/support/compressed.h"

namespace weightfs::test {

inline constexpr uint16_t kUtf8Flag = 1U << 11;
inline constexpr uint16_t kEncryptedFlag = 1U << 0;
inline constexpr uint16_t kDescriptorFlag = 1U << 3;

/// A member, with the values of its directory record and its local header.
struct ZipMember {
  std::string name;
  uint16_t method = 0;
  std::string data;  ///< as stored in the zip
  uint64_t size = 0;
  uint32_t crc = 0;
  uint16_t flags = 0;
  uint16_t made_by = 0x031E;  ///< Unix
  uint32_t attributes = 0100644U << 16;
  uint32_t time = 0x5A210000;     ///< DOS date and time
  std::string local_name = name;  ///< in the local header
  std::string local_extra = {};   ///< only there, so that the data begin later than one might think
  std::optional<uint64_t> stored_size = std::nullopt;  ///< in the directory, if not data.size()
  std::optional<uint64_t> offset = std::nullopt;       ///< of the local header, if it is another's
  bool zip64 = false;                                  ///< sizes and offset in an extra field
};

class ZipBuilder {
 public:
  /// Adds a member of `bytes`, stored as `data`, compressed by `method`. It may be changed until build().
  ZipMember& packed(std::string_view name, uint16_t method, std::string data, std::string_view bytes) {
    return members_.emplace_back(ZipMember{.name = std::string(name),
                                           .method = method,
                                           .data = std::move(data),
                                           .size = bytes.size(),
                                           .crc = crc32(0, std::as_bytes(std::span(bytes)))});
  }
  ZipMember& stored(std::string_view name, std::string_view bytes) {
    return packed(name, 0, std::string(bytes), bytes);
  }
  ZipMember& deflated(std::string_view name, std::string_view bytes) {
    return packed(name, 8, deflate_stored(bytes), bytes);
  }
  ZipMember& zstandard(std::string_view name, std::string_view bytes) {
    return packed(name, 93, zstd::sized_frame(bytes), bytes);
  }
  ZipMember& link(std::string_view name, std::string_view target) {
    ZipMember& member = stored(name, target);
    member.attributes = 0120777U << 16;
    return member;
  }

  ZipBuilder& junk(std::string_view bytes) {
    junk_ = bytes;
    return *this;
  }
  /// Bytes before the first member that the offsets count, as those of an executable.
  ZipBuilder& executable(std::string_view bytes) {
    executable_ = bytes;
    return *this;
  }
  ZipBuilder& comment(std::string_view bytes) {
    comment_ = bytes;
    return *this;
  }
  ZipBuilder& zip64() {
    zip64_ = true;
    return *this;
  }
  /// Makes the end record tell another number of members than the truth, …
  ZipBuilder& claiming(uint64_t members) {
    claimed_ = members;
    return *this;
  }
  /// … and another size and offset of the directory.
  ZipBuilder& claiming_directory(uint64_t size, uint64_t offset) {
    claimed_size_ = size;
    claimed_offset_ = offset;
    return *this;
  }

  std::string build() const {
    std::string zip = executable_;
    std::string directory;
    for (const ZipMember& member : members_) {
      directory += record(member, member.offset.value_or(zip.size()));
      zip += local_header(member) + member.data;
      // A data descriptor, which is redundant with the directory.
      if ((member.flags & kDescriptorFlag) != 0)
        zip += "PK\7\10" + le(member.crc, 4) + le(member.data.size(), 4) + le(member.size, 4);
    }
    return junk_ + zip + directory + end(directory.size(), zip.size()) + comment_;
  }

  /// An end record without a comment.
  static std::string end_record(uint64_t members, uint64_t size, uint64_t offset) {
    return "PK\5\6" + le(0, 4) + le(members, 2) + le(members, 2) + le(size, 4) + le(offset, 4) + le(0, 2);
  }
  static std::string local_header(const ZipMember& m) {
    std::string extra = m.local_extra;
    if (m.zip64) extra += le(1, 2) + le(16, 2) + le(m.size, 8) + le(stored_size(m), 8);
    return "PK\3\4" + le(20, 2) + le(m.flags, 2) + le(m.method, 2) + le(m.time, 4) + sizes(m) +
           le(m.local_name.size(), 2) + le(extra.size(), 2) + m.local_name + extra;
  }

 private:
  static uint64_t stored_size(const ZipMember& m) { return m.stored_size.value_or(m.data.size()); }

  static std::string sizes(const ZipMember& m) {
    const bool later = (m.flags & kDescriptorFlag) != 0;
    if (m.zip64) return le(m.crc, 4) + le(0xFFFFFFFF, 4) + le(0xFFFFFFFF, 4);
    return le(later ? 0 : m.crc, 4) + le(later ? 0 : stored_size(m), 4) + le(later ? 0 : m.size, 4);
  }

  static std::string record(const ZipMember& m, uint64_t offset) {
    std::string extra;
    if (m.zip64) extra = le(1, 2) + le(24, 2) + le(m.size, 8) + le(stored_size(m), 8) + le(offset, 8);
    const std::string lengths = m.zip64 ? le(0xFFFFFFFF, 4) + le(0xFFFFFFFF, 4) : le(stored_size(m), 4) + le(m.size, 4);
    return "PK\1\2" + le(m.made_by, 2) + le(20, 2) + le(m.flags, 2) + le(m.method, 2) + le(m.time, 4) + le(m.crc, 4) +
           lengths + le(m.name.size(), 2) + le(extra.size(), 2) + le(0, 6) + le(m.attributes, 4) +
           le(m.zip64 ? 0xFFFFFFFF : offset, 4) + m.name + extra;
  }

  std::string end(uint64_t directory_size, uint64_t directory_offset) const {
    const uint64_t members = claimed_.value_or(members_.size());
    const uint64_t size = claimed_size_.value_or(directory_size);
    const uint64_t offset = claimed_offset_.value_or(directory_offset);
    std::string end;
    if (zip64_) {
      end += "PK\6\6" + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 8) + le(members, 8) + le(members, 8) + le(size, 8) +
             le(offset, 8);
      end += "PK\6\7" + le(0, 4) + le(directory_offset + directory_size, 8) + le(1, 4);
    }
    end += zip64_ ? end_record(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF) : end_record(members, size, offset);
    return end.replace(end.size() - 2, 2, le(comment_.size(), 2));
  }

  std::deque<ZipMember> members_;
  std::string junk_, executable_, comment_;
  bool zip64_ = false;
  std::optional<uint64_t> claimed_, claimed_size_, claimed_offset_;
};

}  // namespace weightfs::test
