// The listing of a directory: HTML with plain links, JSON with the fields of Caddy, or text; whole, in pages, or what a
// search finds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fs/http/protocol/message.h"
#include "fs/tree/forest.h"

namespace weightfs::httpd {

enum class ListingForm { html, json, text };

struct ListingQuery {
  ListingForm form;
  std::string path;                       ///< of the directory, for its title; ends in a slash
  std::optional<std::string> after = {};  ///< begin after the entry of this name
  std::optional<uint64_t> limit = {};     ///< entries; nothing: all
  std::string search = {};                ///< part of the names of files below the directory; empty: its own entries
};

/// The form that the client prefers (Accept): JSON or text if it names them, else HTML.
ListingForm listing_form(const Request& request);

/// Whether the client is a browser, which is sent pages: it names HTML. rclone and `wget -r` do not, and get the whole
/// listing.
bool wants_pages(const Request& request);

inline constexpr uint64_t kListingPage = 1'000;  ///< entries of a page, by default
inline constexpr uint64_t kMaxFound = 10'000;    ///< results of a search

/// The response for a directory. Fails as Forest::list() does.
Result<Response> listing_response(Forest& forest, Ino directory, const ListingQuery& query);

}  // namespace weightfs::httpd
