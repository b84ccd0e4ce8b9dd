#include "protocols/azure/listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/values/http.h"
#include "cache/download/shown_reason.h"
#include "cache/url.h"
#include "protocols/s3/xml.h"

namespace weightfs::azure {
namespace {

constexpr size_t kMaxTag = 500;
constexpr size_t kMaxName = 4096;       // bytes; 1024 characters
constexpr size_t kMaxEntries = 10'000;  // of a page; 5000 are requested

// A blob as it is listed: its texts.
struct ListedTexts {
  std::string name;
  bool is_encoded = false;  // the name
  std::string size;
  std::string etag;
  std::string modified;
  bool is_directory = false;
};

// A strong tag with quotes, which the service leaves out; empty for others.
std::string etag_of(std::string text) {
  if (text.size() > 2 && text.starts_with('"') && text.ends_with('"')) text = text.substr(1, text.size() - 2);
  const bool is_plain = !text.empty() && text.size() <= kMaxTag && !text.starts_with("W/") && is_visible_ascii(text) &&
                        text.find('"') == text.npos;
  return is_plain ? fmt::format("\"{}\"", text) : "";
}

Result<Blob> blob_of(const ListedTexts& texts) {
  const auto size = parse_number<uint64_t>(texts.size);
  bool is_valid = true;
  const std::string name = texts.is_encoded ? http::url_decoded(texts.name, &is_valid) : texts.name;
  if (name.size() > kMaxName)
    return failure(Code::corrupt, fmt::format("a name of {} bytes in the list, at most {}", name.size(), kMaxName));
  if (!is_valid || name.empty() || !size || *size > uint64_t{INT64_MAX})
    return failure(Code::corrupt, fmt::format("invalid entry {} in the list", quoted(texts.name)));
  return Blob{name, *size, etag_of(texts.etag), time_of(texts.modified)};
}

}  // namespace

Time time_of(std::string_view text) {
  constexpr std::time_t kEnd = 7'289'654'400;  // the end of the year 2200
  const std::time_t date = parse_http_date(std::string(text)).value_or(0);
  return date < 0 || date >= kEnd ? 0 : Time{date} * 1'000'000'000;
}

Result<ListingPage> parse_listing(std::string_view text) {
  bool is_listing = false;
  ListingPage page;
  ListedTexts current;
  std::vector<ListedTexts> listed;
  size_t entries = 0;
  const auto on_start = [&](std::string_view path, std::string_view attributes) {
    const bool is_name = path == "EnumerationResults/Blobs/Blob/Name";
    if (is_name) current.is_encoded = attributes.find("Encoded=\"true\"") != attributes.npos;
  };
  const auto on_end = [&](std::string_view path, const std::string& content) {
    constexpr std::string_view kRoot = "EnumerationResults";
    constexpr std::string_view kBlob = "/Blobs/Blob";
    if (!path.starts_with(kRoot)) return;
    path.remove_prefix(kRoot.size());
    if (path.empty()) is_listing = true;
    if (path == "/NextMarker") page.next = content;
    if (!path.starts_with(kBlob)) return;
    path.remove_prefix(kBlob.size());
    if (path == "/Name") current.name = content;
    if (path == "/Properties/Content-Length") current.size = content;
    if (path == "/Properties/Etag") current.etag = content;
    if (path == "/Properties/Last-Modified") current.modified = content;
    if (path == "/Properties/ResourceType") current.is_directory |= lower_case(content) == "directory";
    if (path == "/Metadata/hdi_isfolder") current.is_directory |= lower_case(content) == "true";
    if (path.empty() && ++entries <= kMaxEntries) listed.push_back(std::exchange(current, {}));
  };
  TRY_VOID(s3::read_xml(text, on_end, on_start));
  if (!is_listing) return failure(Code::corrupt, "not a list of blobs");
  if (entries > kMaxEntries)
    return failure(Code::corrupt, fmt::format("{} entries in a page of the list, at most {}", entries, kMaxEntries));
  for (const ListedTexts& texts : listed)
    if (!texts.is_directory) page.blobs.push_back(TRY(blob_of(texts)));
  return page;
}

std::string error_code(std::string_view body) { return s3::parse_error(body).code; }

std::string error_text(std::string_view body) {
  const s3::ErrorBody error = s3::parse_error(body);
  // The lines that follow are the ID of the request, and its time.
  std::string message(trimmed(std::string_view(error.message).substr(0, error.message.find('\n'))));
  if (message.ends_with('.')) message.pop_back();
  std::string text = error.code;
  if (!message.empty()) text += (text.empty() ? "" : ": ") + message;
  return download::shown_reason(text);
}

}  // namespace weightfs::azure
