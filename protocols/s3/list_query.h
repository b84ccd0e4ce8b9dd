// The queries of listings: ListObjectsV2, and ListObjects for stores that have only that. (docs.aws.amazon.com, "Amazon
// S3 API Reference".)
#pragma once

#include <string>

#include "cache/download/request_with_retry.h"
#include "protocols/s3/xml.h"

namespace weightfs::s3 {

/// The page of a listing that is requested next.
struct ListPosition {
  bool is_v1 = false;      ///< ListObjects
  std::string after = {};  ///< the continuation token, or the last key of the page before; empty for the first page

  /// With its `?`; the parameters are sorted, as the signature needs them.
  std::string query(const std::string& prefix) const;
  /// Moves behind a page that is not the last one. `after` is empty if the page does not say what follows. A store that
  /// states no continuation token has ignored the version of the listing.
  void move_behind(const ListingPage& page);
};

/// Whether the response is a refusal of ListObjectsV2 by a store that may have ListObjects.
bool refuses_v2(const download::Response& response);

}  // namespace weightfs::s3
