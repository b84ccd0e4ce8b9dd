// Checksums of all bytes of a file, as containers, lists of checksums and servers state them. Another kind of checksum
// is another alternative of Checksum.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/digest.h"

namespace weightfs {

/// The CRC-32 of zip and gzip.
struct Crc32 {
  uint32_t value = 0;

  std::string hex() const;  ///< 8 lower-case hex digits
  friend bool operator==(const Crc32&, const Crc32&) = default;
};

/// The name of a file with these bytes in Git: see git_blob_id().
struct GitId {
  Sha1 id;

  std::string hex() const { return id.hex(); }
  friend bool operator==(const GitId&, const GitId&) = default;
};

/// A checksum of one kind.
using Checksum = std::variant<Digest, Sha1, GitId, Md5, Crc32>;

std::string_view name_of(const Checksum& sum);  ///< of its kind: "SHA-256"
std::string hex_of(const Checksum& sum);        ///< lower-case hex digits

/// The checksums of a file, one of each kind at most, in the order of the alternatives. One needs no memory of its own.
class FileChecksums {
 public:
  FileChecksums() = default;
  explicit FileChecksums(const Checksum& sum) : first_(sum) {}
  FileChecksums(const FileChecksums& other);
  FileChecksums(FileChecksums&&) = default;
  FileChecksums& operator=(FileChecksums other);
  ~FileChecksums() = default;

  bool empty() const { return !first_; }

  /// Adds a checksum, or replaces the one of its kind.
  void set(Checksum sum);

  /// The checksum of a kind; null if there is none.
  template <class Kind>
  const Kind* get() const {
    for (const FileChecksums* at = this; at != nullptr && at->first_; at = at->others_.get())
      if (const auto* const found = std::get_if<Kind>(&*at->first_)) return found;
    return nullptr;
  }

  std::vector<Checksum> all() const;

 private:
  std::optional<Checksum> first_;
  std::unique_ptr<FileChecksums> others_;  // not empty; null if there are none
};

}  // namespace weightfs
