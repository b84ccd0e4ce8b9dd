#include "cache/download/response.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.h"
#include "base/values/base64.h"
#include "base/values/http.h"
#include "cache/download/shown_reason.h"

namespace weightfs::download {
namespace {

constexpr size_t kMaxTag = 500;
constexpr size_t kMaxPageHead = 4096;  // of a web page, to recognize it

bool is_plain(std::string_view tag) { return tag.size() <= kMaxTag && is_visible_ascii(tag); }

// "404 Not Found".
std::string printable_status(int status) {
  const std::string_view reason = reason_of(status);
  if (!reason.empty()) return fmt::format("{} {}", status, reason);
  return fmt::format("status {}", status);
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t slash = text.find('/');
  if (lower_case(text.substr(0, kUnit.size())) != kUnit || slash == std::string_view::npos) return std::nullopt;
  const std::string_view span = text.substr(kUnit.size(), slash - kUnit.size());
  const std::string_view total = text.substr(slash + 1);
  ContentRange range;
  range.total = parse_number<uint64_t>(total);
  if (!range.total && total != "*") return std::nullopt;
  if (span == "*") return range.total ? std::optional(range) : std::nullopt;
  const size_t dash = std::min(span.find('-'), span.size());
  range.first = parse_number<uint64_t>(span.substr(0, dash));
  range.last = parse_number<uint64_t>(span.substr(std::min(dash + 1, span.size())));
  if (!range.first || !range.last || *range.first > *range.last || *range.last == UINT64_MAX) return std::nullopt;
  if (range.total && *range.last >= *range.total) return std::nullopt;
  return range;
}

std::optional<uint64_t> content_length(const http::Response& response) {
  // With a Transfer-Encoding a Content-Length means nothing (RFC 9112, section 6.3).
  if (response.is_encoded() || !response.header("transfer-encoding").empty()) return std::nullopt;
  return parse_number<uint64_t>(response.header("content-length"));
}

std::optional<Digest> stated_digest(const http::Response& response) {
  constexpr std::string_view kSha256 = "sha-256=:";
  if (response.is_encoded()) return std::nullopt;
  for (std::string_view rest = response.header("repr-digest"); !rest.empty();) {
    const std::string_view member = trimmed(rest.substr(0, rest.find(',')));
    const size_t comma = rest.find(',');
    rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
    if (!member.starts_with(kSha256) || !member.ends_with(':') || member.size() == kSha256.size()) continue;
    const auto bytes = from_base64(member.substr(kSha256.size(), member.size() - kSha256.size() - 1));
    Digest digest;
    if (!bytes || bytes->size() != digest.bytes.size()) continue;
    std::memcpy(digest.bytes.data(), bytes->data(), bytes->size());
    return digest;
  }
  return std::nullopt;
}

std::string_view unquoted(std::string_view etag) {
  return etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"') ? etag.substr(1, etag.size() - 2) : etag;
}

FileVersion version_of(const http::Response& response, uint64_t size) {
  FileVersion version{size};
  const std::string_view etag = response.is_encoded() ? "" : response.header("etag");
  const std::string_view modified = response.header("last-modified");
  if (modified.size() <= kMaxTag) version.weak = modified;
  if (is_plain(etag) && etag.starts_with("W/"))
    version.weak = fmt::format("{} {}", etag, version.weak);
  else if (is_plain(etag) && !unquoted(etag).empty())
    version.etag = etag;
  return version;
}

std::optional<Head> head_of(const http::Response& response, const std::optional<FileVersion>& known, uint64_t most) {
  const auto range = parse_content_range(response.header("content-range"));
  const bool is_part = range && range->first == 0U && range->total && !response.is_encoded();
  const auto length = response.status == 200 ? content_length(response) : std::nullopt;
  if (response.status == 304 && known) return Head{*known};
  if ((response.status == 200 || response.status == 206) && is_part)
    return Head{version_of(response, *range->total), std::min(most, *range->last + 1)};
  if (response.status == 416 && range && range->total == 0U) return Head{version_of(response, 0)};
  if (length) return Head{version_of(response, *length), std::min(most, *length), *length <= most};
  return std::nullopt;
}

bool is_same_version(const FileVersion& version, const FileVersion& sent) {
  if (sent.size != version.size) return false;
  if (version.is_pinned()) return unquoted(sent.etag) == unquoted(version.etag);
  return sent.weak == version.weak;
}

std::string version_text(const FileVersion& version) {
  return fmt::format("{}\n{}\n{}\n", version.size, version.etag, version.weak);
}

std::optional<FileVersion> parse_version(std::string_view text) {
  FileVersion version;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version.size);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  const size_t etag_end = text.find('\n', 1);
  if (!text.starts_with('\n') || etag_end == text.npos || !text.ends_with('\n')) return std::nullopt;
  version.etag = text.substr(1, etag_end - 1);
  if (etag_end + 1 < text.size()) version.weak = text.substr(etag_end + 1, text.size() - etag_end - 2);
  return version;
}

bool is_web_page(const http::Response& response) {
  const std::string type = lower_case(response.header("content-type"));
  return type.starts_with("text/html") || type.starts_with("application/xhtml+xml");
}

bool begins_web_page(std::string_view body) {
  const std::string text = lower_case(trimmed(body.substr(0, kMaxPageHead)));
  return text.starts_with("<!doctype html") || text.starts_with("<html") || text.starts_with("<head");
}

std::string why_no_size(const http::Response& response) {
  const std::string_view sent = response.header("content-range");
  const std::string status = printable_status(response.status);
  if (is_web_page(response)) return "the server sent a web page (text/html)";
  if (response.status != 200 && response.status != 206) return fmt::format("{} is not an answer with a file", status);
  if (response.is_encoded())
    return fmt::format("the server sends the file with the encoding {}, without its size",
                       quoted(response.header("content-encoding")));
  if (response.status == 206 && sent.empty()) return fmt::format("{} without a content-range", status);
  if (!sent.empty()) {
    const auto range = parse_content_range(sent);
    const char* const problem = !range                                    ? "which is not valid"
                                : !range->total                           ? "without the size of the file"
                                : response.status == 206 && !range->first ? "without a range"
                                                                          : "instead of the first bytes";
    return fmt::format("{} with content-range {}, {}", status, quoted(sent), problem);
  }
  const std::string_view transfer = response.header("transfer-encoding");
  if (!transfer.empty())
    return fmt::format("{} without a content-length (transfer-encoding {})", status, quoted(transfer));
  const std::string_view length = response.header("content-length");
  return length.empty() ? fmt::format("{} without a content-length", status)
                        : fmt::format("{} with content-length {}, which is not valid", status, quoted(length));
}

Outcome outcome_of(const http::Response& response, http::Credentials* credentials) {
  const int status = response.status;
  const bool is_login = status == 401 && credentials == nullptr;
  Outcome outcome{
      Outcome::Next::give_up,
      {Code::network, fmt::format("{}: {}", http::printable_url(response.url),
                                  is_login ? "the server asks for a login (401)" : printable_status(status))}};
  if (status == 404 || status == 410) outcome.error.code = Code::not_found;
  if (status == 401 || status == 403 || status == 407 || status == 451) outcome.error.code = Code::forbidden;
  if (status < 300) outcome.error.code = Code::corrupt;
  if (credentials != nullptr && (status == 401 || status == 403)) {
    const std::string identity = credentials->description();
    outcome.error.message += fmt::format(" ({})", identity.empty() ? "tried anonymously" : identity);
  }
  if (const std::string_view reason = response.header("x-error-message"); !reason.empty())
    outcome.error.message += ", " + shown_reason(reason);
  if (http::is_temporary(status)) {
    outcome.next = Outcome::Next::retry_later;
    outcome.retry_after = requested_delay(response);
    outcome.is_deferred = response.is_deferred;
  }
  return outcome;
}

Outcome outcome_of(const Error& error) {
  if (is_given_up(error)) return {Outcome::Next::give_up, {error.code, error.message}};
  const bool is_retried = may_pass(error) && error.code != Code::unreachable;
  return {is_retried ? Outcome::Next::retry_later : Outcome::Next::give_up, error};
}

bool is_timeout_of_store(std::string_view body) {
  return body.find("<Code>RequestTimeout</Code>") != std::string_view::npos;
}

std::optional<std::string> identity_of(const std::string& url, const FileVersion& version, const BlockListPtr& list) {
  if (!version.is_pinned()) return std::nullopt;
  const std::string shown = http::printable_url(url);
  const std::string query = shown == url ? "" : " " + sha256(url).hex();  // it may be secret
  const std::string verified = list == nullptr ? "" : " fs-verity " + list->digest().hex();
  return fmt::format("{} {} {}{}{}", shown, unquoted(version.etag), version.size, query, verified);
}

std::optional<std::string> identity_of(const std::string& url, const FileVersion& version, const Digest& digest,
                                       const BlockListPtr& list) {
  if (!version.is_pinned()) return std::nullopt;
  const std::string verified = list == nullptr ? "" : " fs-verity " + list->digest().hex();
  return fmt::format("{}/ sha256:{} {}{}", http::origin_of(url), digest.hex(), version.size, verified);
}

}  // namespace weightfs::download
