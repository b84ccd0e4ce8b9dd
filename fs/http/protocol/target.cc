#include "fs/http/protocol/target.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs::httpd {
namespace {

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// Takes the next piece of `text` up to `separator`.
std::string_view next_piece(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

Accepted<std::string_view> without_origin(std::string_view target, Target& out) {
  if (target.starts_with('/')) return target;
  const size_t scheme = target.find("://");
  if (scheme == target.npos) return refused(400, "not a valid target");
  const std::string name = lower_case(target.substr(0, scheme));
  if (name != "http" && name != "https") return refused(400, "not a target of this server");
  const std::string_view rest = target.substr(scheme + 3);
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  out.authority = rest.substr(0, end);
  if (out.authority.empty()) return refused(400, "not a valid target");
  return rest.substr(end);
}

}  // namespace

Accepted<Target> parse_target(std::string_view target) {
  Target out;
  const auto path_and_query = without_origin(target, out);
  if (!path_and_query) return tl::unexpected(path_and_query.error());
  std::string_view rest = *path_and_query;
  if (rest.find('#') != rest.npos) return refused(400, "a fragment in the target");
  std::string_view path = next_piece(rest, '?');
  out.query = rest;
  out.path = path.empty() ? "/" : path;
  out.is_directory = path.empty() || path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
  while (!path.empty()) {
    const std::string_view raw = next_piece(path, '/');
    if (raw.empty() || raw == ".") continue;
    if (raw == "..") {
      if (!out.segments.empty()) out.segments.pop_back();
      continue;
    }
    auto segment = decoded(raw);
    if (!segment) return refused(400, "an invalid escape in the path");
    if (*segment == "." || *segment == ".." || segment->find('\0') != segment->npos)
      return refused(400, "a dot segment or NUL in the path");
    out.segments.push_back(std::move(*segment));
  }
  return out;
}

std::optional<std::string> parameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    std::string_view value = next_piece(query, '&');
    if (decoded(next_piece(value, '=')) != name) continue;
    std::string text(value);
    std::ranges::replace(text, '+', ' ');
    return decoded(text);
  }
  return std::nullopt;
}

std::string url_segment(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool is_unreserved = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                               c == '.' || c == '_' || c == '~';
    if (is_unreserved)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace weightfs::httpd
