#include "fs/http/protocol/message.h"

#include <fmt/core.h>

#include <ctime>

#include "base/values/http.h"

namespace weightfs::httpd {
namespace {

// Rendered once a second in each thread.
const std::string& date_now() {
  thread_local std::time_t rendered = 0;
  thread_local std::string text;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != rendered) {
    text = http_date(now.tv_sec);
    rendered = now.tv_sec;
  }
  return text;
}

bool has_no_body(int status) { return status == 204 || status == 304 || status < 200; }

}  // namespace

const std::string* Request::field(std::string_view name) const {
  for (const Field& each : fields)
    if (each.name == name) return &each.value;
  return nullptr;
}

std::optional<std::string> Request::list(std::string_view name) const {
  std::optional<std::string> values;
  for (const Field& each : fields)
    if (each.name == name) values = values ? *values + ", " + each.value : each.value;
  return values;
}

std::optional<uint64_t> Response::length() const {
  uint64_t sum = 0;
  for (const BodyPart& part : body) {
    if (std::holds_alternative<Generator>(part)) return std::nullopt;
    if (const auto* text = std::get_if<std::string>(&part)) sum += text->size();
    if (const auto* shared = std::get_if<SharedText>(&part)) sum += shared->text->size() - shared->sent;
    if (const auto* file = std::get_if<FilePart>(&part)) sum += file->range.to - file->range.from;
  }
  return sum;
}

std::string header_of(const Response& response, const Request* request, bool closes) {
  std::string out =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status, reason_of(response.status), date_now());
  for (const Field& field : response.fields) {
    out += field.name;
    out += ": ";
    out += field.value;
    out += "\r\n";
  }
  const auto length = response.length();
  const bool is_old = request != nullptr && request->minor == 0;
  if (length && !has_no_body(response.status)) out += fmt::format("Content-Length: {}\r\n", *length);
  if (!length && !is_old) out += "Transfer-Encoding: chunked\r\n";
  if (closes)
    out += "Connection: close\r\n";
  else if (is_old)
    out += "Connection: keep-alive\r\n";
  out += "\r\n";
  return out;
}

}  // namespace weightfs::httpd
