// A page that has files: the server asks for their bytes by a WebSocket, and the page answers (docs/api.md, "A file
// that is dropped into the page").
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "fs/http/protocol/websocket.h"

namespace weightfs {

/// Callable from any thread. The page is trusted with the bytes, and not with their lengths or the order of messages.
class PageConnection {
 public:
  static constexpr size_t kMaxRead = 4 << 20;  ///< bytes of one request

  using OnList = std::function<std::string(std::string_view list)>;

  /// `received`: what has arrived behind the request for the WebSocket.
  PageConnection(Descriptor socket, std::string received);

  /// Receives and sends until the page closes the connection, breaks the rules of messages, or stop() is called; then
  /// says why, and closes the socket. `on_list` is called with the first message, a list of files; its result is sent
  /// as an answer.
  void run(const OnList& on_list) noexcept;

  /// Ends run(), from any thread.
  void stop();

  bool has_ended() const;

  /// Bytes of a file of the list: as many as fit `out`, at most kMaxRead, and none at its end. Fails with io if the
  /// page is closed, cannot read the file, sends more bytes than that, or does not answer within a minute; with
  /// resource if it is cancelled, or if the page does not take requests.
  Result<size_t> read(size_t file, uint64_t offset, std::span<std::byte> out);

 private:
  struct Request {
    std::string bytes;
    std::string error;
    bool is_answered = false;
  };

  // Why a connection ends (RFC 6455, section 7.4.1).
  enum class Ending : uint16_t { none = 0, closed = 1000, stopped = 1001, wrong = 1002, too_long = 1009 };

  Ending exchange(const OnList& on_list);
  void wait_for_bytes(httpd::WebSocketReader& reader);
  bool receive(httpd::WebSocketReader& reader);
  bool send();
  Ending take(const httpd::WebSocketMessage& message, const OnList& on_list);
  bool take_answer(std::string_view bytes);
  bool take_failure(const std::string& text);
  Request* find(uint64_t number);
  void queue(const std::string& frame);
  void wake() const;
  void end(Ending ending);

  std::string received_;  // before run()
  bool has_list_ = false;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  Descriptor socket_;  // closed when run() ends, as the next one is
  Descriptor wake_;
  std::string outgoing_;
  std::map<uint64_t, Request> requests_;  // that wait
  uint64_t last_ = 0;                     // number of a request
  bool is_stopping_ = false;
  bool has_ended_ = false;
};

}  // namespace weightfs
