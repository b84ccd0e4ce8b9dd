#include "cache/download/origin_info.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/text.h"
#include "cache/download/reassembly_buffer.h"

namespace weightfs {
namespace {

std::optional<uint64_t> number(std::string_view digits) {
  uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

tl::unexpected<Error> corrupt(const Answer& answer, const std::string& text) {
  return failure(Code::corrupt, str(printable_url(answer.url), ": ", text));
}

// Whether it is the same representation as before: tags of an encoded one are tags of its encoding.
Result<void> check_same(const Answer& answer, const Told& told, std::optional<uint64_t> size) {
  const std::string tag = strong_tag_of(answer);
  if (!tag.empty() && !told.tag.empty() && tag != told.tag && !told.encoded && !is_encoded(answer))
    return corrupt(answer, str("changed while it was fetched: its ETag is ", tag, ", and was ", told.tag));
  if (size && told.size && *size != *told.size)
    return corrupt(answer, str("changed while it was fetched: it has ", *size, " bytes, and had ", *told.size));
  return {};
}

}  // namespace

std::optional<ContentRange> content_range_of(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t slash = text.find('/');
  if (text.substr(0, kUnit.size()) != kUnit || slash == std::string_view::npos) return std::nullopt;
  const std::string_view span = text.substr(kUnit.size(), slash - kUnit.size());
  const std::string_view total = text.substr(slash + 1);
  ContentRange range;
  range.total = number(total);
  if (!range.total && total != "*") return std::nullopt;
  if (span == "*") return range.total ? std::optional(range) : std::nullopt;
  const size_t dash = std::min(span.find('-'), span.size());
  range.first = number(span.substr(0, dash));
  range.last = number(span.substr(std::min(dash + 1, span.size())));
  if (!range.first || !range.last || *range.first > *range.last || *range.last == UINT64_MAX) return std::nullopt;
  if (range.total && *range.last >= *range.total) return std::nullopt;
  return range;
}

std::optional<std::chrono::milliseconds> retry_after_of(std::string_view text,
                                                        std::chrono::system_clock::time_point now) {
  constexpr int64_t kDay = 24 * 60 * 60;
  if (const auto seconds = number(text)) return std::chrono::seconds(std::min<uint64_t>(*seconds, kDay));
  std::tm date{};
  const std::string date_text(text);
  const char* const end = ::strptime(date_text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const int64_t left = ::timegm(&date) - std::chrono::system_clock::to_time_t(now);
  return std::chrono::seconds(std::clamp<int64_t>(left, 0, kDay));
}

std::string strong_tag_of(const Answer& answer) {
  const std::string_view tag = answer.header("etag").value_or("");
  const bool quoted = tag.size() >= 2 && tag.front() == '"' && tag.back() == '"';
  const bool plain = std::all_of(tag.begin(), tag.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return quoted && plain && tag.size() <= 500 ? std::string(tag) : "";
}

bool is_encoded(const Answer& answer) {
  const std::string_view encoding = answer.header("content-encoding").value_or("");
  return !encoding.empty() && encoding != "identity";
}

std::optional<uint64_t> length_of(const Answer& answer) {
  // With a Transfer-Encoding a Content-Length means nothing (RFC 9112, section 6.3).
  if (is_encoded(answer) || answer.header("transfer-encoding")) return std::nullopt;
  return number(answer.header("content-length").value_or(""));
}

Result<void> check_whole(const Answer& answer, const Told& told, std::optional<uint64_t> size) {
  const auto length = length_of(answer);
  if (size && length && *length != *size)
    return corrupt(answer, str("has ", *length, " bytes, where ", *size, " are expected"));
  return check_same(answer, told, length);
}

Result<ContentRange> check_part(const Answer& answer, Span asked, const Told& told, std::optional<uint64_t> size) {
  const std::string said(answer.header("content-range").value_or("nothing"));
  const auto range = content_range_of(said);
  const bool fits = range && range->first && *range->first == asked.from && *range->last < asked.to;
  if (!fits)
    return corrupt(answer, str("a part from byte ", asked.from, " was asked for, and ", quoted(said), " came"));
  const uint64_t count = *range->last - *range->first + 1;
  const auto length = length_of(answer);
  if (is_encoded(answer)) return corrupt(answer, "a part of it came encoded");
  if (length && *length != count) return corrupt(answer, str(*length, " bytes came as ", quoted(said)));
  if (size && range->total && *range->total != *size)
    return corrupt(answer, str("has ", *range->total, " bytes, where ", *size, " are expected"));
  TRY_VOID(check_same(answer, told, range->total));
  return *range;
}

std::string printable_status(int status) {
  constexpr std::array<std::pair<int, const char*>, 14> kReasons = {{{400, "Bad Request"},
                                                                     {401, "Unauthorized"},
                                                                     {403, "Forbidden"},
                                                                     {404, "Not Found"},
                                                                     {405, "Method Not Allowed"},
                                                                     {408, "Request Timeout"},
                                                                     {410, "Gone"},
                                                                     {416, "Range Not Satisfiable"},
                                                                     {429, "Too Many Requests"},
                                                                     {451, "Unavailable For Legal Reasons"},
                                                                     {500, "Internal Server Error"},
                                                                     {502, "Bad Gateway"},
                                                                     {503, "Service Unavailable"},
                                                                     {504, "Gateway Timeout"}}};
  for (const auto& [known, reason] : kReasons)
    if (known == status) return str(status, " ", reason);
  return str("status ", status);
}

Outcome outcome_of(const Answer& answer, Credentials* asked) {
  const int status = answer.status;
  Outcome outcome{Outcome::Then::give_up,
                  {Code::network, str(printable_url(answer.url), ": ", printable_status(status))}};
  if (status == 404 || status == 410) outcome.error.code = Code::not_found;
  if (status < 300) outcome.error.code = Code::corrupt;
  if (asked != nullptr && (status == 401 || status == 403)) {
    const std::string tried = asked->tried();
    outcome.error.message += str(" (asked ", tried.empty() ? "without a name" : tried, ")");
  }
  if (status == 408 || status == 425 || status == 429 || status >= 500) {
    outcome.then = Outcome::Then::later;
    outcome.pause = retry_after_of(answer.header("retry-after").value_or(""), std::chrono::system_clock::now());
  }
  return outcome;
}

Outcome outcome_of(const Error& error) {
  const bool may_pass = error.code == Code::network || error.code == Code::resource;
  return {may_pass ? Outcome::Then::later : Outcome::Then::give_up, error};
}

}  // namespace weightfs
