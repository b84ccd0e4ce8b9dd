// The page that a browser shows: its files (page/), which are a part of the program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"

namespace weightfs {

/// A file of the page, as it is, and compressed with gzip.
struct Asset {
  std::string_view name;  ///< "views/model.js"
  std::string_view bytes;
  std::string_view gzip;
};

/// All of them; made by CMake.
std::span<const Asset> page_assets();

/// Callable from any thread.
class WebPage {
 public:
  /// `directory`: where the files are read from at each request, to edit them; empty: those of the program.
  explicit WebPage(std::string directory) : directory_(std::move(directory)) {}

  /// Whether a target is of the page: the root, for a browser that has not asked for a listing, or below
  /// /.weightfs/page/. Nothing in it is of a model.
  static bool is_of_page(const httpd::Request& request, const httpd::Target& target);

  /// The response for such a target; nothing for any other.
  std::optional<httpd::Accepted<httpd::Response>> answer(const httpd::Request& request,
                                                         const httpd::Target& target) const;

 private:
  httpd::Accepted<httpd::Response> file(const httpd::Request& request, const std::string& name) const;

  const std::string directory_;
};

}  // namespace weightfs
