// SHA-256, the digest that names blobs, and the older checksums that containers and Git carry.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/source.h"

namespace weightfs {

/// A SHA-256 digest (FIPS 180-4).
struct Digest {
  std::array<std::byte, 32> bytes{};

  std::string hex() const;  ///< 64 lower-case hex digits
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

/// The digest that 64 hex digits of either case give; nothing for any other text.
std::optional<Digest> digest_of_hex(std::string_view hex);

/// Parses "sha256:" and 64 hex digits of either case, as OCI descriptors write a digest; nothing for any other text.
std::optional<Digest> parse_digest(std::string_view text);

/// An MD5 checksum (RFC 1321): against accidents, not against people.
struct Md5 {
  std::array<std::byte, 16> bytes{};

  std::string hex() const;  ///< 32 lower-case hex digits
  friend bool operator==(const Md5&, const Md5&) = default;
};

/// The checksum that 32 hex digits of either case give; nothing for any other text.
std::optional<Md5> md5_of_hex(std::string_view hex);

/// A SHA-1 hash (FIPS 180-4), by which Git names files: against accidents, and against a second file with a given name.
struct Sha1 {
  std::array<std::byte, 20> bytes{};

  std::string hex() const;  ///< 40 lower-case hex digits
  friend bool operator==(const Sha1&, const Sha1&) = default;
};

/// The hash that 40 hex digits of either case give; nothing for any other text.
std::optional<Sha1> sha1_of_hex(std::string_view hex);

/// An incremental hash by OpenSSL. Call finish() once; restart() begins another hash without allocating memory.
template <class Sum>
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) = delete;
  void update(std::span<const std::byte> bytes);
  Sum finish();
  void restart();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

using Sha256 = Hasher<Digest>;
using Md5Sum = Hasher<Md5>;
using Sha1Sum = Hasher<Sha1>;

/// The digest of `text`.
Digest sha256(std::string_view text);

/// The digest of everything in `source`, read in order with bounded memory. Calls `on_bytes` with each piece, if it is
/// not null.
Result<Digest> sha256(const Source& source, const std::function<void(std::span<const std::byte>)>& on_bytes = {});

/// The name of a file with this content in Git: the SHA-1 of "blob ", the size, a NUL and the content (gitformat-pack,
/// git-hash-object).
Sha1 git_blob_id(std::string_view content);

/// The SHA-1 of the content of `source`, which is read as sha256() does.
Result<Sha1> sha1(const Source& source);

/// The name of a file with the content of `source` in Git, which is read as sha256() does.
Result<Sha1> git_blob_id(const Source& source);

/// Continues the CRC-32 of zip and gzip (polynomial 0xEDB88320) over `bytes`; the initial value is 0.
uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes);

/// The CRC-32C (Castagnoli, RFC 3720, section B.4) of `bytes`.
uint32_t crc32c(std::span<const std::byte> bytes);

/// Continues a CRC-32C over `bytes`; the initial value is 0.
uint32_t crc32c(uint32_t crc, std::span<const std::byte> bytes);

}  // namespace weightfs
