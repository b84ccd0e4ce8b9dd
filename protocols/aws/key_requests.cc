#include "protocols/aws/key_requests.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <ctime>
#include <mutex>

#include "base/files/file_source.h"
#include "base/source.h"
#include "base/text.h"
#include "cache/address_policy.h"
#include "protocols/aws/key_sources.h"
#include "protocols/aws/profile.h"

namespace weightfs::aws {
namespace {

using TimePoint = std::chrono::system_clock::time_point;

constexpr uint64_t kMaxSmallFile = 64 * 1024;
constexpr int64_t kEndOfTimes = 7'289'654'400;  // the end of the year 2200, in seconds

std::optional<TimePoint> time_of(int64_t seconds) {
  if (seconds < 0 || seconds >= kEndOfTimes) return std::nullopt;
  return TimePoint(std::chrono::seconds(seconds));
}

// The seconds east of UTC: "Z", "UTC", "+02:00", "+0200".
std::optional<int64_t> offset_of(std::string_view zone) {
  if (zone == "Z" || zone == "UTC") return 0;
  if (zone.empty() || (zone[0] != '+' && zone[0] != '-')) return std::nullopt;
  std::string digits(zone.substr(1));
  std::erase(digits, ':');
  const auto number = digits.size() == 4 ? parse_number<unsigned>(digits) : std::nullopt;
  if (!number) return std::nullopt;
  const int64_t seconds = int64_t{*number / 100} * 3600 + int64_t{*number % 100} * 60;
  return zone[0] == '+' ? seconds : -seconds;
}

Result<std::optional<TimePoint>> expiry_in(const Map& object, const char* name) {
  const Value* const value = object.find(name);
  if (value == nullptr || std::holds_alternative<std::nullptr_t>(*value)) return std::nullopt;
  std::optional<TimePoint> found;
  if (const auto* const text = std::get_if<std::string>(value)) found = parse_expiry(*text);
  if (const auto* const number = std::get_if<int64_t>(value)) found = time_of(*number / 1000);
  if (const auto* const number = std::get_if<uint64_t>(value))
    found = time_of(static_cast<int64_t>(std::min<uint64_t>(*number, INT64_MAX) / 1000));
  if (!found) return failure(Code::forbidden, fmt::format("{} is not a valid time", name));
  return found;
}

}  // namespace

bool pause_for(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

Error named(const std::string& name, const Error& error) {
  Error found = with_message(error, fmt::format("{}: {}", name, error.message));
  if (!is_about_the_network(error)) found.code = Code::forbidden;
  return found;
}

Result<download::Response> ask(http::Client& client, const http::Request& request, const std::stop_token& stop) {
  return download::request_keys_with_retry(client, request, kMaxAnswer, stop);
}

Result<download::Response> ask_soon(http::Client& client, http::Request request, const Attempts& attempts,
                                    const std::stop_token& stop) {
  constexpr std::chrono::seconds kPause{1};
  for (int attempt = 1;; ++attempt) {
    request.deadline = std::chrono::steady_clock::now() + attempts.timeout;
    auto page = download::send_request(client, request, kMaxAnswer, stop);
    const bool is_answered = page && !http::is_temporary(page->head.status);
    if (is_answered || (!page && !is_about_the_network(page.error()))) return page;
    if (attempt < attempts.count && pause_for(kPause, stop)) continue;
    if (!page) return page;
    return failure(Code::network, http::printable_url(request.url) + download::error_detail(*page));
  }
}

tl::unexpected<Error> refused(const std::string& name, const std::string& url, const download::Response& page,
                              const std::string& reason) {
  const std::string detail =
      reason.empty() ? download::error_detail(page) : fmt::format(": status {}, {}", page.head.status, reason);
  return failure(Code::forbidden, fmt::format("{}: {}{}", name, http::printable_url(url), detail));
}

std::optional<TimePoint> parse_expiry(std::string_view text) {
  constexpr size_t kMaxText = 64;
  if (text.size() > kMaxText) return std::nullopt;
  std::tm date{};
  const std::string copy(text);
  const char* const end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &date);
  if (end == nullptr) return std::nullopt;
  std::string_view rest = end;
  if (rest.starts_with('.')) rest.remove_prefix(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
  const auto offset = offset_of(rest);
  if (!offset || date.tm_year < 70 || date.tm_year > 300) return std::nullopt;
  return time_of(int64_t{::timegm(&date)} - *offset);
}

Result<s3::TimedKeys> keys_in(const Map& object, const KeyNames& names) {
  const auto text = [&](const char* name) { return std::string(text_in(object, name)); };
  s3::TimedKeys found;
  found.keys = s3::Keys{text(names.id), text(names.secret), text(names.token)};
  TRY_VOID(check_keys(*found.keys).map_error([](const Error& error) { return Error{Code::forbidden, error.message}; }));
  found.expiry = TRY(expiry_in(object, names.expiry));
  return found;
}

Result<Map> object_in(std::string body) {
  auto value = download::parse_body({{}, std::move(body)});
  if (!value) return failure(Code::forbidden, value.error().message);
  auto* const object = std::get_if<Map>(&*value);
  if (object == nullptr) return failure(Code::forbidden, "not a JSON object");
  return std::move(*object);
}

Result<std::string> read_small_file(const std::string& path) {
  const auto refuse = [](const Error& error) { return Error{Code::forbidden, error.message}; };
  const SourcePtr file = TRY(open_file(path).map_error(refuse));
  if (file->size() > kMaxSmallFile)
    return failure(Code::forbidden, fmt::format("{}: larger than {}", printable(path), human_size(kMaxSmallFile)));
  std::string text = TRY(read_text(*file, 0, file->size()).map_error(refuse));
  text.resize(std::min(text.find_last_not_of(" \t\r\n") + 1, text.size()));
  return text;
}

bool may_give_keys(const std::string& url) {
  constexpr std::string_view kHttp = "http://";
  const std::string origin = http::origin_of(url);
  if (origin.empty() || url.find('@') != url.npos) return false;
  if (is_confidential(origin)) return true;
  if (!origin.starts_with(kHttp)) return false;
  const std::string_view host = std::string_view(origin).substr(kHttp.size());
  const auto address = literal_address(std::string(host.substr(0, host.rfind(':'))));
  return address && is_metadata_address(*address);
}

}  // namespace weightfs::aws
