// A request of HTTP/1.1 and the response to it (RFC 9110, RFC 9112), as values.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "fs/reading/open_file.h"

namespace weightfs::httpd {

/// A header field.
struct Field {
  std::string name;  ///< of a request in lower case
  std::string value;
};

/// A request whose header has been parsed and checked (RequestParser).
struct Request {
  std::string method;
  std::string target;  ///< as sent
  unsigned minor = 1;  ///< HTTP/1.minor: 0 or 1
  std::vector<Field> fields = {};
  bool has_body = false;   ///< it has a body that was not read
  bool keep_alive = true;  ///< whether the client may send another request on the connection
  std::string body = {};   ///< that was read (ServerOptions::max_body)

  /// The value of the first field of that name, in lower case; null if there is none.
  const std::string* field(std::string_view name) const;
  /// The values of all fields of that name as one list (RFC 9110, section 5.3); nothing if there is none.
  std::optional<std::string> list(std::string_view name) const;
  bool is_head() const { return method == "HEAD"; }
};

/// Why a request is refused: the status of the response, and a sentence.
struct Refusal {
  int status;
  std::string message;
};

template <class T>
using Accepted = tl::expected<T, Refusal>;

inline tl::unexpected<Refusal> refused(int status, std::string message) {
  return tl::unexpected<Refusal>({status, std::move(message)});
}

/// A range of a file.
struct FilePart {
  std::shared_ptr<OpenFile> file;
  ByteRange range;
};

/// Makes the next piece of a body of unknown length; an empty one is the end.
using Generator = std::function<Result<std::string>()>;

/// A text that other responses and a cache share: a slow client has no copy of it.
struct SharedText {
  std::shared_ptr<const std::string> text;
  size_t sent = 0;  ///< bytes, from the beginning
};

using BodyPart = std::variant<std::string, SharedText, FilePart, Generator>;

/// A response. Its length is that of its body, unless a Generator is part of it: then it is sent in chunks.
struct Response {
  int status = 200;
  std::vector<Field> fields = {};
  std::vector<BodyPart> body = {};
  /// Called when the header, of status 101, has been sent, with the socket and the bytes that followed the request. Not
  /// supported with TLS: the connection is closed.
  std::function<void(Descriptor socket, std::string received)> take_over = {};

  Response& add(std::string name, std::string value) {
    fields.push_back({std::move(name), std::move(value)});
    return *this;
  }
  /// The number of bytes of the body; nothing if it is generated.
  std::optional<uint64_t> length() const;
};

/// The header of a response as it is sent, with Date, Content-Length or Transfer-Encoding, and Connection.
std::string header_of(const Response& response, const Request* request, bool closes);

}  // namespace weightfs::httpd
