#include "serve/page/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/digest.h"
#include "base/files/file_source.h"
#include "base/text.h"
#include "fs/adapters/error_numbers.h"
#include "fs/http/listing.h"
#include "fs/http/protocol/conditions.h"

namespace weightfs {
namespace {

using httpd::Accepted;
using httpd::Request;
using httpd::Response;
using httpd::Target;

constexpr uint64_t kMaxAsset = 4 << 20;  // of a directory

// Scripts and styles of this server only, no other host, and no page may frame it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".md")) return "text/plain; charset=utf-8";
  return "text/html; charset=utf-8";
}

bool accepts_gzip(const Request& request) {
  const auto field = request.list("accept-encoding");
  return field && field->find("gzip") != std::string::npos && field->find("gzip;q=0") == std::string::npos;
}

// A name that cannot leave a directory.
bool is_asset_name(const std::string& name) {
  const bool has_other = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_./") != name.npos;
  return !name.empty() && !has_other && name.find("..") == name.npos && name.front() != '/' && name.front() != '.';
}

}  // namespace

bool WebPage::is_of_page(const Request& request, const Target& target) {
  if (target.segments.size() >= 3) return target.segments[0] == ".weightfs" && target.segments[1] == "page";
  if (!target.segments.empty() || !httpd::wants_pages(request)) return false;
  const auto has = [&](const char* name) { return httpd::parameter(target.query, name).has_value(); };
  // The parameters of a list of files, which a view may have, too.
  return has("view") || std::ranges::none_of(std::array{"plain", "after", "q", "limit"}, has);
}

std::optional<Accepted<Response>> WebPage::answer(const Request& request, const Target& target) const {
  if (!is_of_page(request, target)) return std::nullopt;
  if (target.segments.empty()) return file(request, "index.html");
  std::string name;
  for (size_t i = 2; i < target.segments.size(); ++i) name += (i == 2 ? "" : "/") + target.segments[i];
  return file(request, name);
}

Accepted<Response> WebPage::file(const Request& request, const std::string& name) const {
  const auto missing = [&] { return httpd::refused(404, fmt::format("the page has no {}", printable(name))); };
  if (!is_asset_name(name)) return missing();
  std::string text;
  Asset asset{name, {}, {}};
  if (directory_.empty() || name.starts_with("docs/")) {
    const auto assets = page_assets();
    const auto found = std::ranges::find(assets, name, &Asset::name);
    if (found == assets.end()) return missing();
    asset = *found;
  } else {
    const auto source = open_file(directory_ + "/" + name);
    auto read = source && (*source)->size() <= kMaxAsset ? read_text(**source, 0, (*source)->size())
                                                         : Result<std::string>(failure(Code::not_found, ""));
    if (!read) return missing();
    text = std::move(*read);
    asset.bytes = text;
  }
  constexpr size_t kDigits = 32;
  const bool is_gzip = !asset.gzip.empty() && accepts_gzip(request);
  const std::string tag =
      fmt::format("\"{}{}\"", std::string_view(sha256(asset.bytes).hex()).substr(0, kDigits), is_gzip ? "-gzip" : "");
  Response response;
  response.add("ETag", tag).add("Cache-Control", "no-cache").add("Vary", "Accept, Accept-Encoding");
  response.add("Content-Security-Policy", kPolicy).add("X-Content-Type-Options", "nosniff");
  response.add("Referrer-Policy", "no-referrer").add("Cross-Origin-Resource-Policy", "same-origin");
  response.add("Cross-Origin-Opener-Policy", "same-origin");
  if (evaluate(request, httpd::Validators{tag}, 0) == httpd::Verdict::not_modified) {
    response.status = 304;
    return response;
  }
  response.add("Content-Type", std::string(type_of(name)));
  if (is_gzip) response.add("Content-Encoding", "gzip");
  response.body.emplace_back(std::string(is_gzip ? asset.gzip : asset.bytes));
  return response;
}

}  // namespace weightfs
