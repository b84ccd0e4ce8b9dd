// What Google Cloud Storage states of a whole object, and its comparison with what was read.
// (cloud.google.com/storage/docs/xml-api/reference-headers: x-goog-hash.)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/source.h"
#include "cache/http/client.h"

namespace weightfs::s3 {

/// The checksums of x-goog-hash. An object that was composed of others has no MD5.
struct StatedHash {
  std::optional<uint32_t> crc32c = {};
  std::optional<Md5> md5 = {};

  bool is_empty() const { return !crc32c && !md5; }
  /// Whether these bytes, the whole object, have the stated CRC-32C or, if none is stated, the stated MD5.
  bool is_of(std::string_view bytes) const;
};

/// "crc32c=n03x6A==" and "md5=Ojk9c3dhfxgoKVVHYwFbHQ==" in base64, in one header or several; others, and those that are
/// not valid, are left out. Empty for an object that is stored compressed, because its bytes may be decompressed.
StatedHash stated_hash(const http::Response& response);

/// The CRC-32C of `size` bytes that arrive in any order. Not thread-safe.
class CrcOfRanges {
 public:
  explicit CrcOfRanges(uint64_t size) : size_(size) {}

  /// Bytes that were added before are ignored. Beyond kMaxRuns runs, bytes that extend none are ignored: they can be
  /// added later.
  void add(uint64_t offset, std::span<const std::byte> bytes);
  /// Nothing before all bytes were added.
  std::optional<uint32_t> whole() const;

  static constexpr size_t kMaxRuns = 4096;

 private:
  struct Run {
    uint64_t end;
    uint32_t crc;
  };
  const uint64_t size_;
  std::map<uint64_t, Run> runs_;  // by their begin; they do not touch
};

constexpr const char* kOtherHash = "its bytes do not match the checksum of the server (x-goog-hash)";

/// `bytes`, of which the CRC-32C is compared when all of them were read: a difference fails the last of these reads
/// with mismatch, and all later ones. `shown` names it in messages. `on_mismatch` is called once, by the
/// first of these reads: it drops what is cached.
SourcePtr compared(SourcePtr bytes, const StatedHash& stated, std::string shown, std::function<void()> on_mismatch);

}  // namespace weightfs::s3
