#include "fs/http/protocol/request_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <utility>

#include "base/text.h"

namespace weightfs::httpd {
namespace {

namespace beast = boost::beast;
using beast::error_code;
using BeastText = beast::string_view;
using MaybeLength = boost::optional<std::uint64_t>;
namespace errc = boost::system::errc;

std::string_view view(BeastText text) { return {text.data(), text.size()}; }

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// HOST[:PORT], without user information or a path (RFC 9110, section 4.2.4; RFC 9112, section 3.2).
bool is_host(std::string_view text) {
  if (text.empty() || text.find_first_of("/@?#\\ \t,") != text.npos) return false;
  const size_t colon = text.front() == '[' ? text.find(':', std::min(text.find(']'), text.size())) : text.find(':');
  if (text.front() == '[' && text.find(']') == text.npos) return false;
  const std::string_view name = text.substr(0, colon);
  const std::string_view port = colon == text.npos ? "" : text.substr(colon + 1);
  return !name.empty() && (port.empty() || (is_digits(port) && port.size() <= 5));
}

size_t count_of(const Request& request, std::string_view name) {
  return static_cast<size_t>(std::ranges::count(request.fields, name, &Field::name));
}

bool has_token(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (lower_case(trimmed(list.substr(0, comma))) == token) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

bool has_connection_token(const Request& request, std::string_view token) {
  return std::ranges::any_of(
      request.fields, [&](const Field& field) { return field.name == "connection" && has_token(field.value, token); });
}

// METHOD SP TARGET SP VERSION CR (RFC 9112, section 3).
Accepted<void> check_request_line(std::string_view line) {
  if (!line.ends_with('\r')) return refused(400, "a line that does not end in CR LF");
  line.remove_suffix(1);
  const size_t first = std::min(line.find(' '), line.size());
  const size_t last = line.rfind(' ');
  if (first == 0 || first >= last || last == line.npos) return refused(400, "not a valid request line");
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  constexpr std::string_view kName = "HTTP/";
  const bool is_version = version.size() == kName.size() + 3 && version.starts_with(kName) &&
                          is_digits(version.substr(5, 1)) && version[6] == '.' && is_digits(version.substr(7));
  if (!is_visible_ascii(target) || !is_version) return refused(400, "not a valid request line");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return refused(505, "not HTTP/1.0 or HTTP/1.1");
  return {};
}

Accepted<void> check_host(const Request& request) {
  const size_t hosts = count_of(request, "host");
  if (hosts > 1) return refused(400, "more than one Host field");
  if (hosts == 0 && request.minor == 1) return refused(400, "no Host field");
  if (hosts == 1 && !is_host(*request.field("host"))) return refused(400, "not a valid Host field");
  return {};
}

// RFC 9112, section 6.1 to 6.3: what a proxy in front could frame differently is refused.
Accepted<void> check_framing(Request& request) {
  const size_t codings = count_of(request, "transfer-encoding");
  const size_t lengths = count_of(request, "content-length");
  if (codings > 0 && lengths > 0) return refused(400, "Content-Length and Transfer-Encoding");
  if (codings > 0 && request.minor == 0) return refused(400, "Transfer-Encoding in HTTP/1.0");
  const std::string coding = codings == 0 ? "" : lower_case(*request.field("transfer-encoding"));
  if (codings > 1 || has_token(coding, "chunked") != (coding == "chunked"))
    return refused(400, "not a valid Transfer-Encoding field");
  if (codings == 1 && coding != "chunked") return refused(501, "a transfer coding other than chunked");
  const std::string* const length = request.field("content-length");
  for (const Field& field : request.fields)
    if (field.name == "content-length" && (field.value != *length || !is_digits(field.value)))
      return refused(400, "not a valid Content-Length field");
  const bool is_empty = length != nullptr && length->find_first_not_of('0') == length->npos;
  request.has_body = codings > 0 || (length != nullptr && !is_empty);
  return {};
}

Accepted<void> check(Request& request, std::string_view header) {
  if (header.find("\r\n ") != header.npos || header.find("\r\n\t") != header.npos) return refused(400, "a folded line");
  if (auto checked = check_host(request); !checked) return checked;
  if (auto checked = check_framing(request); !checked) return checked;
  const std::string* const expect = request.field("expect");
  if (expect != nullptr && lower_case(*expect) != "100-continue") return refused(417, "an unknown expectation");
  request.keep_alive =
      request.minor == 1 ? !has_connection_token(request, "close") : has_connection_token(request, "keep-alive");
  return {};
}

}  // namespace

// Receives what Beast's parser finds. The body is not parsed: the session reads it, or ends the connection behind it.
class RequestParser::Parser final : public beast::http::basic_parser<true> {
 public:
  Parser() {
    header_limit(kMaxHeader + 1);
    body_limit(UINT64_MAX);
  }

  Request request;
  size_t parsed = 0;
  bool has_too_many_fields = false;

 private:
  void on_request_impl(beast::http::verb, BeastText method, BeastText target, int version, error_code&) override {
    request.method = view(method);
    request.target = view(target);
    request.minor = version == 10 ? 0 : 1;
  }
  void on_response_impl(int, BeastText, int, error_code&) override {}
  void on_field_impl(beast::http::field, BeastText name, BeastText value, error_code& error) override {
    has_too_many_fields = request.fields.size() == kMaxFields;
    if (has_too_many_fields)
      error = errc::make_error_code(errc::value_too_large);
    else
      request.fields.push_back({lower_case(view(name)), std::string(view(value))});
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(MaybeLength const&, error_code&) override {}
  std::size_t on_body_impl(BeastText body, error_code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, BeastText, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastText body, error_code&) override { return body.size(); }
  // Pure in the newest versions of Boost, and absent in others.
  void on_trailer_field_impl(beast::http::field, BeastText, BeastText, error_code&) {}
  void on_finish_impl(error_code&) override {}
};

RequestParser::RequestParser() : parser_(std::make_unique<Parser>()) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

Accepted<size_t> RequestParser::parse(std::string_view received) {
  Parser& parser = *parser_;
  if (parser.parsed == 0) {
    const size_t end = std::min(received.find('\n'), received.size());
    if (end > kMaxRequestLine) return refused(414, "the request line is too long");
    if (end == received.size()) return size_t{0};
    if (auto checked = check_request_line(received.substr(0, end)); !checked)
      return tl::unexpected(std::move(checked).error());
  }
  while (!parser.is_header_done() && parser.parsed < received.size()) {
    const std::string_view rest = received.substr(parser.parsed);
    error_code error;
    const size_t taken = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    parser.parsed += taken;
    if (error == beast::http::error::need_more) break;
    if (error == beast::http::error::header_limit || parser.has_too_many_fields)
      return refused(431, "the header is too large");
    if (error) return refused(400, fmt::format("not a valid request: {}", error.message()));
    if (taken == 0) break;
  }
  if (!parser.is_header_done()) {
    if (received.size() > kMaxHeader) return refused(431, "the header is too large");
    return size_t{0};
  }
  if (auto checked = check(parser.request, received.substr(0, parser.parsed)); !checked)
    return tl::unexpected(std::move(checked).error());
  return parser.parsed;
}

Request RequestParser::take() { return std::move(parser_->request); }

}  // namespace weightfs::httpd
