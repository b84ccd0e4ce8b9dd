// A connection and the requests on it, one after the other.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fs/http/protocol/request_parser.h"
#include "fs/http/server_options.h"
#include "fs/http/transfer.h"
#include "fs/http/workers.h"

namespace weightfs::httpd {

/// Used by one worker at a time; expire() by another thread meanwhile.
class Session {
 public:
  Session(Descriptor socket, Client client, const ServerOptions& options, const std::atomic<bool>& is_stopping,
          const Workers& workers);

  /// Goes on as far as the socket permits, or until other connections should have a turn. Returns for what it waits
  /// then; Wait::closed if the connection has ended.
  Wait proceed();

  /// To be called before the session is destroyed after an exception: the response is not complete.
  void abort();

  /// Ends the connection if its time is over: a worker finds it ended. With `is_stopping`, also between requests.
  void expire(std::chrono::steady_clock::time_point now, bool is_stopping);

  int socket() const { return transport_.socket(); }
  const Client& client() const { return client_; }

 private:
  using Clock = std::chrono::steady_clock;

  enum class State {
    between,  ///< no byte of a request has arrived
    header,   ///< a part of it
    body,     ///< its header, and a part of its body
    response,
    draining  ///< the last response was sent; what the client still sends is discarded
  };

  std::optional<Wait> receive();
  bool parse();
  bool parse_body();
  size_t body_to_read(const Request& request) const;
  bool invite_body(const Request& request);
  std::optional<Wait> send();
  std::optional<Wait> drain();
  void answer(Request request);
  void refuse(const Refusal& refusal);
  void begin(Response response, const Request* request, bool closes);
  void finish();
  void go_on();
  void hand_over();
  void enter(State state, std::chrono::milliseconds within);
  std::optional<Wait> proceed_once();

  Transport transport_;
  Client client_;
  const ServerOptions& options_;
  const std::atomic<bool>& is_stopping_;
  const Workers& workers_;
  std::string received_;
  std::unique_ptr<RequestParser> parser_;
  std::unique_ptr<Transfer> transfer_;
  std::optional<Request> request_;                          // of the transfer; in State::body, the one that has it
  size_t body_ = 0;                                         // bytes of the body that is read
  bool closes_ = false;                                     // after the transfer
  std::function<void(Descriptor, std::string)> take_over_;  // Response::take_over of the transfer
  Clock::time_point begun_;
  Clock::time_point until_;  // how long the state may last
  int answered_ = 0;         // requests of this call of proceed()
  std::atomic<State> state_ = State::between;
  std::atomic<Clock::time_point> deadline_;  // while the session waits; the maximum while a worker uses it
  std::atomic<bool> has_expired_ = false;
};

}  // namespace weightfs::httpd
