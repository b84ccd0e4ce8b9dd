#include "serve/s3/xml.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <utility>

#include "base/text.h"

namespace weightfs::objects {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// A character of XML 1.0, section 2.2, from its UTF-8. Other control characters than these are refused by readers.
bool is_xml_character(std::string_view character) {
  if (character == "\t" || character == "\n" || character == "\r") return true;
  return !is_control(character) && character != "\xEF\xBF\xBE" && character != "\xEF\xBF\xBF";
}

void append_character(std::string& out, std::string_view character) {
  switch (character.front()) {
    case '&':
      out += "&amp;";
      return;
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&apos;";
      return;
    case '\t':
    case '\n':
    case '\r':
      // A reader changes line breaks that are not written so (XML 1.0, section 2.11).
      out += fmt::format("&#{};", static_cast<int>(character.front()));
      return;
    default:
      out += character;
  }
}

// Different in a process: it helps to find a request in a client's log.
std::string next_request_id() {
  static const auto kBegin = static_cast<uint64_t>(time_now());
  static std::atomic<uint64_t> number = 0;
  return fmt::format("{:016X}", kBegin + ++number);
}

}  // namespace

bool is_xml_text(std::string_view text) {
  while (!text.empty()) {
    const size_t size = utf8_sequence(text);
    if (size == 0 || !is_xml_character(text.substr(0, size))) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = utf8_sequence(text);
    if (size > 0 && is_xml_character(text.substr(0, size)))
      append_character(out, text.substr(0, size));
    else
      out += kReplacement;
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string element(std::string_view name, std::string_view text) {
  return fmt::format("<{0}>{1}</{0}>", name, xml_text(text));
}

std::string document(std::string_view root, std::string_view content) {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<{0} xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{1}</{0}>",
      root, content);
}

std::string xml_time(std::time_t time) {
  std::tm date{};
  ::gmtime_r(&time, &date);
  std::array<char, 40> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S.000Z", &date)};
}

void add_common_fields(httpd::Response& response) {
  response.add("x-amz-request-id", next_request_id()).add("X-Content-Type-Options", "nosniff");
  response.add("Content-Security-Policy", "sandbox; default-src 'none'");
  response.add("Cross-Origin-Resource-Policy", "same-origin");
}

httpd::Response error_response(int status, std::string_view code, std::string_view message, std::string_view resource) {
  httpd::Response response{status};
  add_common_fields(response);
  response.add("Content-Type", "application/xml").add("Cache-Control", "no-store");
  if (status == 405) response.add("Allow", "GET, HEAD, OPTIONS");
  if (status == 503) response.add("Retry-After", "10");
  response.body.emplace_back("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>" + element("Code", code) +
                             element("Message", message) + element("Resource", resource) +
                             element("RequestId", response.fields.front().value) + "</Error>");
  return response;
}

}  // namespace weightfs::objects
