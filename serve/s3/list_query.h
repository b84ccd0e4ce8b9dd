// The queries of listings (ListObjects, ListObjectsV2), and the documents that answer them.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>

#include "base/result.h"
#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"
#include "serve/s3/listing.h"

namespace weightfs::objects {

/// The query of a listing of either version.
struct ListQuery {
  PageQuery page;
  bool is_second = false;  ///< ListObjectsV2
};

/// Refuses with 400 a parameter that is not valid.
httpd::Accepted<ListQuery> list_query_of(const httpd::Target& target);

/// What a listing says of an object besides its key.
struct ObjectFacts {
  std::time_t modified = 0;
  std::string tag;  ///< quoted
  uint64_t size = 0;
};

/// The document of a page. `facts_of` gets the numbers of its files; fails as that does.
Result<std::string> listing_text(const std::string& bucket, const httpd::Target& target, const ListQuery& query,
                                 const Page& page, const std::function<Result<ObjectFacts>(size_t file)>& facts_of);

}  // namespace weightfs::objects
