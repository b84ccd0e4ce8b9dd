// Lists of checksums, as sha256sum, md5sum, shasum and openssl write them. Anybody may have written a list, so an
// invalid line is ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"

namespace weightfs {

/// The digest of a file. Empty if its kind is not supported: SHA-384, SHA-512, BLAKE2.
struct FileDigest {
  std::optional<Checksum> sum = {};

  bool is_supported() const { return sum.has_value(); }
  bool is_sha256() const { return sum && std::holds_alternative<Digest>(*sum); }
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
