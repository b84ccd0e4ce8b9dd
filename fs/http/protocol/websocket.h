// WebSockets (RFC 6455) as a server: the handshake and messages in frames, without extensions. The server sends
// requests to a page over one: plain HTTP requests would occupy the six connections of a browser to a server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fs/http/protocol/message.h"

namespace weightfs::httpd {

/// The response to a request for a WebSocket (sections 4.2.1, 4.2.2), for Response::take_over. Refuses with 426 a
/// request for none and for another version than 13, with 400 one without a valid key, and with 403 one without the
/// Origin that a browser sends: whether that is the server's is for check_access().
Accepted<Response> accept_websocket(const Request& request);

/// The numbers of section 11.8.
enum class Opcode : uint8_t { continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };

struct WebSocketMessage {
  Opcode opcode;  ///< never continuation
  std::string bytes;
};

/// A whole message as one frame of a server, which is not masked (section 5.1).
std::string websocket_frame(Opcode opcode, std::string_view bytes);

/// Assembles the frames of a client into messages.
class WebSocketReader {
 public:
  /// `most`: bytes of a message.
  explicit WebSocketReader(size_t most) : most_(most) {}

  void add(std::string_view received);

  /// The next message, or a control frame, which may arrive between the frames of a message; nothing until more has
  /// been received. Fails with corrupt for what section 5 forbids, and with unsupported for a message that is too long.
  Result<std::optional<WebSocketMessage>> next();

 private:
  struct Header {
    bool is_last;
    Opcode opcode;
    size_t size;     // of the header
    uint64_t bytes;  // of the payload
  };

  std::string_view rest() const { return std::string_view(received_).substr(taken_); }
  Result<std::optional<Header>> header() const;
  Result<void> check(const Header& header) const;
  std::string take(const Header& header);

  const size_t most_;
  std::string received_;
  size_t taken_ = 0;                       // bytes of frames that were returned
  std::optional<WebSocketMessage> begun_;  // of which not all frames have arrived
};

}  // namespace weightfs::httpd
