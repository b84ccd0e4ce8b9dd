// Parses the header of a request: Boost.Beast's parser (RFC 9112), and the rules that it leaves to the server.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "fs/http/protocol/message.h"

namespace weightfs::httpd {

/// Limits of a header. A longer request line is refused with 414, a longer header or more fields with 431.
inline constexpr size_t kMaxRequestLine = 8 * 1024;
inline constexpr size_t kMaxHeader = 32 * 1024;
inline constexpr size_t kMaxFields = 100;

/// Parses one header.
class RequestParser {
 public:
  RequestParser();
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  /// Parses the bytes received so far, always from the first byte of the request on. Returns the length of the header
  /// when it is complete, else 0. Refuses what is not a valid request, and what proxies and servers read differently:
  /// both lengths, two different ones, codings other than chunked, folded lines, several or no hosts.
  Accepted<size_t> parse(std::string_view received);

  /// The request. To be called once, after parse() has returned its length.
  Request take();

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace weightfs::httpd
