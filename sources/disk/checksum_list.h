// Lists of checksums, as sha256sum, md5sum, shasum and openssl write them. Anybody may have written a list, so an
// invalid line is ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"

namespace weightfs {

/// The digest of a file, of one kind. Empty if that is not supported: SHA-384, SHA-512, BLAKE2.
struct FileDigest {
  std::optional<Digest> sha256 = {};
  std::optional<Sha1> sha1 = {};
  std::optional<Md5> md5 = {};
  std::optional<Sha1> git_id = {};  ///< its Git object id

  bool is_supported() const { return sha256 || sha1 || md5 || git_id; }
};

/// The digest that hex digits of either case give: by their number SHA-256, SHA-1, MD5, or one that is not supported.
/// Nothing for any other text.
std::optional<FileDigest> file_digest_of_hex(std::string_view hex);

/// A line of a list.
struct ListedDigest {
  std::string path;  ///< as in the list, without `./`, and with `/` for `\`; empty if the line has only the digest
  FileDigest digest;
};

/// The lines `HEX  NAME`, `HEX *NAME`, `SHA256 (NAME) = HEX` and `HEX` of a text in UTF-8, or in UTF-16 with a byte
/// order mark; in their order.
std::vector<ListedDigest> parse_checksum_list(std::string_view text);

}  // namespace weightfs
