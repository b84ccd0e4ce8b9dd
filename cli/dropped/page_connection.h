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

  /// `received`: what has arrived behind the request for the WebSocket.
  PageConnection(Descriptor socket, std::string received);

  /// Receives and sends until the page closes the connection, breaks the rules of messages, or stop() is called.
  /// `on_list` is called with the first message, a list of files; its result is sent as an answer.
  void run(const std::function<std::string(std::string_view list)>& on_list);

  /// Ends run(), from any thread.
  void stop();

  bool has_ended() const;

  /// Bytes of a file of the list: as many as fit `out`, at most kMaxRead, and none at its end. Fails with io if the
  /// page is closed or cannot read the file, and with resource if it is cancelled.
  Result<size_t> read(size_t file, uint64_t offset, std::span<std::byte> out);

 private:
  struct Request {
    std::string bytes;
    std::string error;
    bool is_answered = false;
  };

  void wait_for_bytes();
  bool receive();
  bool send();
  bool take(const httpd::WebSocketMessage& message, const std::function<std::string(std::string_view list)>& on_list);
  bool take_answer(std::string_view bytes);
  bool take_failure(const std::string& text);
  Request* find(uint64_t number);
  void queue(const std::string& frame);
  void wake() const;
  void end();

  const Descriptor socket_;
  const Descriptor wake_;
  httpd::WebSocketReader reader_{kMaxRead + 64};
  bool has_list_ = false;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::string outgoing_;
  std::map<uint64_t, Request> requests_;  // that wait
  uint64_t last_ = 0;                     // number of a request
  bool is_stopping_ = false;
  bool has_ended_ = false;
};

}  // namespace weightfs
