#include "fs/http/protocol/conditions.h"

#include <algorithm>

#include "base/text.h"
#include "base/values/http.h"

namespace weightfs::httpd {
namespace {

enum class Comparison { strong, weak };

// Whether a list of entity tags has `etag`, or is "*".
bool matches(std::string_view list, const std::string& etag, Comparison comparison) {
  if (trimmed(list) == "*") return true;
  while (!list.empty()) {
    const size_t begin = std::min(list.find('"'), list.size());
    const size_t end = std::min(list.find('"', std::min(begin + 1, list.size())), list.size());
    const bool is_weak = begin >= 2 && list.substr(begin - 2, 2) == "W/";
    const bool is_same = end < list.size() && list.substr(begin, end + 1 - begin) == etag;
    if (is_same && (comparison == Comparison::weak || !is_weak)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

std::optional<std::time_t> date_of(const std::string* field) {
  return field == nullptr ? std::nullopt : parse_http_date(*field);
}

// If-Range: a strong entity tag, or exactly the date, if that is strong: a minute old (RFC 9110, section 8.8.2.2).
bool allows_range(const Request& request, const Validators& validators, std::time_t now) {
  const std::string* const condition = request.field("if-range");
  if (condition == nullptr) return true;
  if (condition->starts_with('"')) return !validators.etag.empty() && *condition == validators.etag;
  const auto date = parse_http_date(*condition);
  return date && validators.modified && *date == *validators.modified && *date <= now - 60;
}

bool precondition_holds(const Request& request, const Validators& validators) {
  if (const auto match = request.list("if-match")) return matches(*match, validators.etag, Comparison::strong);
  const auto unmodified_since = date_of(request.field("if-unmodified-since"));
  return !unmodified_since || !validators.modified || *validators.modified <= *unmodified_since;
}

bool is_not_modified(const Request& request, const Validators& validators, std::time_t now) {
  if (const auto none_match = request.list("if-none-match"))
    return matches(*none_match, validators.etag, Comparison::weak);
  const auto modified_since = date_of(request.field("if-modified-since"));
  return modified_since && *modified_since <= now && validators.modified && *validators.modified <= *modified_since;
}

// A number of a range. One that is too large is beyond the end of every file. Nothing for other texts.
std::optional<uint64_t> position(std::string_view digits) {
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) return std::nullopt;
  return parse_number<uint64_t>(digits).value_or(UINT64_MAX);
}

// The range of one range-spec: empty if it is not satisfiable, nothing if it is invalid.
std::optional<ByteRange> one_range(std::string_view spec, uint64_t size) {
  const size_t dash = spec.find('-');
  if (dash == spec.npos) return std::nullopt;
  const std::string_view first = trimmed(spec.substr(0, dash)), last = trimmed(spec.substr(dash + 1));
  if (first.empty()) {
    const auto suffix = position(last);
    if (!suffix) return std::nullopt;
    return ByteRange{size - std::min(*suffix, size), size};
  }
  const auto from = position(first);
  const auto to = last.empty() ? UINT64_MAX : position(last);
  if (!from || !to || *to < *from) return std::nullopt;
  return *from >= size ? ByteRange{size, size} : ByteRange{*from, std::min(*to, size - 1) + 1};
}

// Joins the new range with those that it overlaps or touches, which are apart from each other.
void join(std::vector<ByteRange>& parts, ByteRange range) {
  std::vector<ByteRange> joined;
  std::optional<size_t> place;
  for (const ByteRange& part : parts) {
    if (part.from > range.to || range.from > part.to) {
      joined.push_back(part);
      continue;
    }
    range = {std::min(range.from, part.from), std::max(range.to, part.to)};
    if (!place) {
      place = joined.size();
      joined.emplace_back();
    }
  }
  if (place)
    joined[*place] = range;
  else
    joined.push_back(range);
  parts = std::move(joined);
}

}  // namespace

Verdict evaluate(const Request& request, const Validators& validators, std::time_t now) {
  if (!precondition_holds(request, validators)) return Verdict::failed;
  if (is_not_modified(request, validators, now)) return Verdict::not_modified;
  const bool has_range = !request.is_head() && request.field("range") != nullptr;
  return has_range && allows_range(request, validators, now) ? Verdict::ranges : Verdict::whole;
}

Ranges ranges_of(std::string_view field, uint64_t size) {
  constexpr size_t kMaxSpecs = 1000;
  const size_t equals = std::min(field.find('='), field.size());
  if (lower_case(trimmed(field.substr(0, equals))) != "bytes" || equals == field.size()) return {};
  std::string_view list = field.substr(equals + 1);
  std::vector<ByteRange> parts;
  size_t specs = 0;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view spec = trimmed(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (spec.empty()) continue;
    const auto range = one_range(spec, size);
    if (!range || ++specs > kMaxSpecs) return {};
    if (range->from < range->to) join(parts, *range);
    if (parts.size() > kMaxParts) return {};
  }
  if (specs == 0) return {};
  return {!parts.empty() || size == 0, std::move(parts)};
}

}  // namespace weightfs::httpd
