// Lists of checksums, as sha256sum, md5sum, shasum and openssl write them. They are hostile: a line that is not valid
// is left out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"

namespace weightfs {

/// The digest of a file, of one kind.
struct FileDigest {
  std::optional<Digest> sha256 = {};
  std::optional<Sha1> sha1 = {};
  std::optional<Md5> md5 = {};
  std::optional<Sha1> git_id = {};  ///< its Git object id
};

/// The digest that hex digits of either case give: by their number SHA-256, SHA-1 or MD5; nothing for any other text.
std::optional<FileDigest> file_digest_of_hex(std::string_view hex);

/// A line of a list.
struct ListedDigest {
  std::string path;  ///< as in the list, without `./`; empty if the line has only the digest
  FileDigest digest;
};

/// The lines `HEX  NAME`, `HEX *NAME`, `SHA256 (NAME) = HEX` and `HEX` of a text, in their order.
std::vector<ListedDigest> parse_checksum_list(std::string_view text);

}  // namespace weightfs
