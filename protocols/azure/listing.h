// The XML of Azure's responses: a page of a list, and errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "protocols/azure.h"

namespace weightfs::azure {

/// A page of a list (List Blobs). Blobs that stand for a directory of a hierarchical namespace are left out.
struct ListingPage {
  std::vector<Blob> blobs;
  std::string next;  ///< the marker of the next page; empty: this is the last one
};

/// Fails with corrupt if the text is not a list, or a blob has no valid name, one of more than 4 KiB, or no valid size.
/// Decodes a name that is `Encoded`, because XML does not allow its characters.
Result<ListingPage> parse_listing(std::string_view text);

/// "BlobNotFound"; empty if the body says nothing.
std::string error_code(std::string_view body);

/// "BlobNotFound: The specified blob does not exist", printable, without the ID of the request; empty if the body says
/// nothing.
std::string error_text(std::string_view body);

/// A date of a header or a list; 0 if it is not one, or not from 1970 to 2200.
Time time_of(std::string_view text);

}  // namespace weightfs::azure
