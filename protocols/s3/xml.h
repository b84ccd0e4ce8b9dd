// The XML of S3's responses: elements and their texts, without declarations of types and entities.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/s3.h"

namespace weightfs::s3 {

/// Calls `on_end` at the end of each element, with the names of its ancestors and its own name joined by `/`, without
/// their prefixes, and with the text between its tags; not that of elements within it. `on_start`, if it is set, gets
/// the attributes of each element as they are written, with white space and a `/`. Fails with corrupt if the text is
/// not well-formed, has a document type, or is nested deeper than 16 elements.
Result<void> read_xml(std::string_view text,
                      const std::function<void(std::string_view path, const std::string& text)>& on_end,
                      const std::function<void(std::string_view path, std::string_view attributes)>& on_start = {});

/// Decodes %XX, and `+` as a space, as in `encoding-type=url`; nothing for an invalid text.
std::optional<std::string> key_decoded(std::string text);

/// A page of a listing (ListObjectsV2).
struct ListingPage {
  std::vector<Object> objects;
  bool is_truncated = false;
  std::string next;  ///< the continuation token
};

/// Fails with corrupt if the text is not a listing, or an object has no key, one of more than 1024 bytes, or no valid
/// size.
Result<ListingPage> parse_listing(std::string_view text);

/// What an error response says; empty fields for what it does not say.
struct ErrorBody {
  std::string code;     ///< "NoSuchKey"
  std::string message;  ///< "The specified key does not exist."
  std::string region;   ///< that the bucket is in
};
ErrorBody parse_error(std::string_view text);

/// "NoSuchKey: The specified key does not exist", printable; empty if the body says nothing.
std::string error_text(std::string_view body);

}  // namespace weightfs::s3
