#include "cache/download/request_with_retry.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <stop_token>

#include "base/cancel.h"
#include "base/text.h"
#include "base/values/json.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/response.h"
#include "cache/download/shown_reason.h"
#include "cache/http/used_up.h"
#include "cache/url.h"

namespace weightfs::download {
namespace {

constexpr size_t kMaxErrorPage = 64 * 1024;
constexpr uint64_t kMaxValues = 1000;

// The first error text in the formats that registries use.
std::string reason_in(const Value& value) {
  const auto* object = std::get_if<Map>(&value);
  if (object == nullptr) return {};
  if (const Value* errors = object->find("errors")) {
    const auto* list = std::get_if<List>(errors);
    return list == nullptr || list->empty() ? std::string() : reason_in(list->front());
  }
  for (const char* key : {"message", "details", "error", "code"})
    if (const auto* text = object->find_as<std::string>(key)) return *text;
  return {};
}

// The text of the first element of that name; empty if there is none.
std::string_view element_in(std::string_view xml, std::string_view name) {
  const size_t begin = xml.find(fmt::format("<{}>", name));
  const size_t end = xml.find(fmt::format("</{}>", name), std::min(begin, xml.size()));
  if (begin == xml.npos || end == xml.npos) return {};
  return xml.substr(begin + name.size() + 2, end - begin - name.size() - 2);
}

}  // namespace

Result<Response> send_request(http::Client& http, const http::Request& request, size_t max_size,
                              const std::stop_token& stop) {
  Response page;
  bool truncated = false;
  const http::ResponseHandler handler{
      [&](const http::Response& head) -> Result<void> {
        page.head = head;
        return {};
      },
      [&](std::span<const std::byte> bytes) -> Result<void> {
        const bool is_error = page.head.status != 200 && page.head.status != 206;
        const size_t room = (is_error ? kMaxErrorPage : max_size) - page.body.size();
        page.body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
        if (bytes.size() <= room) return {};
        truncated = is_error || page.head.status == 206;  // a range may be larger than the requested one
        return failure(Code::corrupt, fmt::format("{}: response larger than {}", http::printable_url(request.url),
                                                  human_size(max_size)));
      }};
  const auto done = http.perform(request, handler, stop);
  if (!done && !truncated) return tl::unexpected(done.error());
  return page;
}

namespace {

// Remembers for a command which requests to an API are not repeated: to a server that did not respond, to a URL whose
// responses were errors. A server that is down fails each of its requests, a busy one perhaps not.
class ApiTries {
 public:
  ApiTries(http::UsedUp* used_up, const std::string& url)
      : used_up_(used_up), url_(url), server_(http::origin_of(url)) {}

  std::optional<Error> failed_before() const {
    if (used_up_ == nullptr) return std::nullopt;
    auto failed = used_up_->find(server_);
    return failed ? failed : used_up_->find(url_);
  }
  void give_up(const Error& error, bool has_responded) const {
    if (used_up_ != nullptr) used_up_->add(has_responded ? url_ : server_, error);
  }
  // A request that had begun before.
  void answered() const {
    if (used_up_ == nullptr) return;
    used_up_->remove(server_);
    used_up_->remove(url_);
  }

 private:
  http::UsedUp* const used_up_;  // null: in a mount, and for keys
  const std::string& url_;
  const std::string server_;
};

Result<Response> repeat_request(http::Client& http, const http::Request& request, size_t max_size,
                                const std::stop_token& stop, std::string (*describe)(const Response& page),
                                const ApiTries& tries) {
  if (auto failed = tries.failed_before()) return tl::unexpected(*std::move(failed));
  for (Backoff backoff({.retries = http.options().max_retries}, http);;) {
    auto page = send_request(http, request, max_size, stop);
    const auto outcome = page ? outcome_of(page->head) : outcome_of(page.error());
    const bool is_slow = page && page->head.status >= 400 && is_timeout_of_store(page->body);
    if (!page && outcome.next != Outcome::Next::retry_later) return failure(outcome.error);
    if (outcome.next != Outcome::Next::retry_later && !is_slow) {
      tries.answered();
      return page;
    }
    const Error error = page ? Error{Code::network, http::printable_url(request.url) + describe(*page)} : page.error();
    const auto attempt = outcome.is_deferred ? Backoff::Attempt::deferred : Backoff::Attempt::sent;
    const auto pause = backoff.pause(error, outcome.retry_after, attempt);
    if (!pause && !stop.stop_requested() && !is_cancelled()) tries.give_up(pause.error(), page.has_value());
    if (!backoff.wait(error, TRY(pause), stop)) return tl::unexpected(error);
  }
}

}  // namespace

Result<Response> request_with_retry(http::Client& http, const http::Request& request, size_t max_size,
                                    const std::stop_token& stop, std::string (*describe)(const Response& page)) {
  return repeat_request(http, request, max_size, stop, describe, {http.options().used_up.get(), request.url});
}

Result<Response> request_keys_with_retry(http::Client& http, const http::Request& request, size_t max_size,
                                         const std::stop_token& stop) {
  return repeat_request(http, request, max_size, stop, error_detail, {nullptr, request.url});
}

std::string refusal_reason(const std::string& body) {
  const std::string_view text = trimmed(body);
  if (text.empty() || begins_web_page(text)) return {};
  if (text.front() == '{') {
    const auto value = parse_body({.head = {}, .body = body});
    return value ? shown_reason(reason_in(*value)) : "";
  }
  if (text.front() == '<') return shown_reason(element_in(text, "Message"));
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  const bool is_text =
      std::ranges::none_of(line, [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t'; });
  return is_text ? shown_reason(line) : "";
}

std::optional<Error> web_page_error(const Response& page) {
  if (page.head.status != 200 || !begins_web_page(page.body)) return std::nullopt;
  return Error{Code::unsupported,
               fmt::format("{}: the server sent a web page (text/html), perhaps to log in, not an answer of its API",
                           http::printable_url(page.head.url))};
}

Result<Value> parse_body(const Response& page) {
  ValueBuilder builder(kMaxValues);
  const SourcePtr text = in_memory(page.body);
  TRY_VOID(read_json(*text, 0, text->size(), builder));
  return builder.take();
}

std::string error_detail(const Response& page) {
  std::string out = fmt::format(": status {}", page.head.status);
  const auto body = parse_body(page);
  const std::string reason = body ? reason_in(*body) : "";
  if (reason.empty()) return out;
  return fmt::format("{}, {}", out, shown_reason(reason));
}

}  // namespace weightfs::download
