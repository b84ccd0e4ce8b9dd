// A response on its way to the client: sent as far as the socket takes it, and continued later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fs/http/connection.h"
#include "fs/http/protocol/message.h"

namespace weightfs::httpd {

/// Reads the first bytes of the body: so that a failure can still be answered with its status. Fails as the read.
Result<void> read_first(Response& response);

/// A response that is being sent. Bytes of plain local files are sent by sendfile(2), and the file is examined for
/// changes after each piece; the last piece is copied and examined before it is sent, so a response of a changed file
/// is never complete.
class Transfer {
 public:
  /// The bytes that one call of advance() sends at most, so that other connections have their turn.
  static constexpr uint64_t kTurn = 4 << 20;

  enum class Progress {
    sent,      ///< the whole response
    blocked,   ///< the socket takes no more bytes
    paused,    ///< kTurn bytes were sent
    receives,  ///< a TLS connection has to receive before it sends
    failed     ///< a read failed, or the client has closed: the connection must be closed
  };

  /// Without a body for HEAD. `request` may be null.
  Transfer(Response response, const Request* request, bool closes);

  /// Without `may_wait`, parts that would wait for a server or a container fail.
  Progress advance(Transport& to, bool may_wait);

  int status() const { return response_.status; }
  uint64_t bytes_sent() const { return body_sent_; }     ///< of the body
  const Error& error() const { return error_; }          ///< why a read failed; an empty message otherwise
  std::optional<Ino> failed() const { return failed_; }  ///< the file whose read failed

 private:
  Progress send_text(Transport& to);
  void add_text(std::string_view text);
  Result<void> next_text();
  Progress send_file(Transport& to, FilePart& part);
  Progress send_extent(Transport& to, FilePart& part, const Extent& extent, uint64_t size);
  Progress send_copy(Transport& to, FilePart& part);
  Progress moved(const Moved& moved);
  Progress fail(const Error& error, std::optional<Ino> file = {});

  Response response_;
  size_t part_ = 0;  // of the body, the next one
  bool is_chunked_;
  bool has_ended_ = false;  // the last chunk was made
  std::string text_;        // the header, and texts and chunks of the body
  size_t text_sent_ = 0;
  size_t header_;  // bytes of text_ that are no body
  uint64_t body_sent_ = 0;
  uint64_t turn_ = 0;  // bytes of this call
  bool may_wait_ = true;
  Error error_;
  std::optional<Ino> failed_;
};

}  // namespace weightfs::httpd
