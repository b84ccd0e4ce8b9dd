#include "cache/url.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/text.h"
#include "cache/http/client.h"

namespace weightfs::http {
namespace {

using CurlUrl = std::unique_ptr<CURLU, decltype([](CURLU* url) { curl_url_cleanup(url); })>;

// Encodes spaces and non-ASCII bytes as %XX like browsers, since Location headers contain them.
constexpr unsigned kLenient = CURLU_URLENCODE | CURLU_ALLOW_SPACE;

CurlUrl parse(const std::string& text, unsigned flags = kLenient) {
  CurlUrl url(curl_url());
  if (url == nullptr) throw std::bad_alloc();
  if (text.empty() || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), flags) != CURLUE_OK) url = nullptr;
  return url;
}

std::string part(const CurlUrl& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) return "";
  const std::unique_ptr<char, decltype(&curl_free)> owned(text, curl_free);
  return text;
}

bool is_web(const CurlUrl& url) {
  const std::string scheme = url == nullptr ? "" : part(url, CURLUPART_SCHEME);
  return scheme == "http" || scheme == "https";
}

// The port of a URL that is no number of 16 bits; empty for any other URL.
std::string invalid_port(std::string_view text) {
  const size_t host_at = text.find("//");
  if (host_at == text.npos) return {};
  std::string_view host = text.substr(host_at + 2);
  host = host.substr(0, host.find_first_of("/?#\\"));
  const size_t colon = host.rfind(':');
  if (colon == host.npos || host.find(']', colon) != host.npos) return {};
  const std::string_view port = host.substr(colon + 1);
  constexpr size_t kMaxDigits = 20;
  const bool is_number =
      !port.empty() && port.size() <= kMaxDigits && port.find_first_not_of("0123456789") == port.npos;
  return is_number && !parse_number<uint16_t>(port) ? std::string(port) : "";
}

}  // namespace

std::string with_lower_case_host(std::string url) {
  const std::string scheme = lower_case(url.substr(0, url.find("//") + 2));
  if (scheme != "http://" && scheme != "https://") return url;
  const size_t end = std::min(url.find_first_of("/?#\\", scheme.size()), url.size());
  const size_t at = url.substr(0, end).rfind('@');
  const size_t begin = at == url.npos ? scheme.size() : at + 1;
  if (url[begin] == '[') return scheme + url.substr(scheme.size());  // the zone of an address has a case
  return scheme + url.substr(scheme.size(), begin - scheme.size()) + lower_case(url.substr(begin, end - begin)) +
         url.substr(end);
}

Result<Url> parse_url(const std::string& text) {
  const CurlUrl url = parse(with_lower_case_host(text));
  if (const std::string port = url == nullptr ? invalid_port(text) : ""; !port.empty())
    return failure(Code::unsupported, fmt::format("invalid URL: its port {} is above 65535", port));
  if (!is_web(url))
    return failure(Code::unsupported, fmt::format("{}: only http and https are supported", printable_url(text)));
  if (!part(url, CURLUPART_USER).empty() || !part(url, CURLUPART_PASSWORD).empty())
    return failure(Code::unsupported,
                   fmt::format("{}: URLs with user or password are not supported", printable_url(text)));
  curl_url_set(url.get(), CURLUPART_FRAGMENT, nullptr, 0);
  return Url{part(url, CURLUPART_URL), part(url, CURLUPART_SCHEME), part(url, CURLUPART_HOST), origin_of(text)};
}

std::string origin_of(const std::string& url) {
  const CurlUrl parts = parse(url);
  if (!is_web(parts)) return "";
  return fmt::format("{}://{}:{}", part(parts, CURLUPART_SCHEME), lower_case(part(parts, CURLUPART_HOST)),
                     part(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string resolve_url(const std::string& base, const std::string& reference) {
  const CurlUrl url = parse(base);
  if (url == nullptr || reference.empty()) return url == nullptr ? "" : base;
  if (curl_url_set(url.get(), CURLUPART_URL, reference.c_str(), kLenient | CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return "";
  return part(url, CURLUPART_URL);
}

std::string normalized_url(const std::string& url) {
  const auto parsed = parse_url(url);
  return parsed ? parsed->text : url;
}

std::string printable_url(const std::string& url) {
  const CurlUrl parts = parse(with_lower_case_host(url), kLenient | CURLU_NON_SUPPORT_SCHEME);
  if (parts == nullptr) return "invalid URL";
  for (const CURLUPart secret :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY, CURLUPART_FRAGMENT})
    curl_url_set(parts.get(), secret, nullptr, 0);
  return printable(part(parts, CURLUPART_URL));
}

std::string url_encoded(std::string_view text, std::string_view kept) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-._~").find(c) != std::string_view::npos || kept.find(c) != kept.npos;
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string url_decoded(std::string_view text, bool* is_valid) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 2);
    const auto byte = text[i] == '%' && digits.size() == 2 ? parse_number<uint8_t>(digits, 16) : std::nullopt;
    if (text[i] == '%' && !byte && is_valid != nullptr) *is_valid = false;
    out += byte ? static_cast<char>(*byte) : text[i];
    if (byte) i += digits.size();
  }
  return out;
}

bool may_redirect(const std::string& from, const std::string& to) {
  const auto is_https = [](const std::string& url) { return origin_of(url).substr(0, 8) == "https://"; };
  return is_https(to) || !is_https(from);
}

}  // namespace weightfs::http
