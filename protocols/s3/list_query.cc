#include "protocols/s3/list_query.h"

#include <fmt/core.h>

#include "cache/url.h"

namespace weightfs::s3 {

std::string ListPosition::query(const std::string& prefix) const {
  const std::string from = http::url_encoded(after);
  if (is_v1)
    return fmt::format("?encoding-type=url{}{}&max-keys=1000&prefix={}", after.empty() ? "" : "&marker=", from,
                       http::url_encoded(prefix));
  return fmt::format("?{}{}{}encoding-type=url&list-type=2&max-keys=1000&prefix={}",
                     after.empty() ? "" : "continuation-token=", from, after.empty() ? "" : "&",
                     http::url_encoded(prefix));
}

// ListObjects states NextMarker only with a delimiter: without it the last key is the marker.
void ListPosition::move_behind(const ListingPage& page) {
  is_v1 = is_v1 || page.next.empty();
  after = !is_v1 ? page.next : page.objects.empty() ? "" : page.objects.back().key;
}

bool refuses_v2(const download::Response& response) {
  const int status = response.head.status;
  if (status == 405 || status == 501) return true;
  const std::string code = status == 400 ? parse_error(response.body).code : "";
  return code == "InvalidArgument" || code == "NotImplemented" || code == "InvalidRequest";
}

}  // namespace weightfs::s3
