// What a server needs to know of the program that it is part of, and its limits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "fs/http/connection.h"
#include "fs/http/protocol/message.h"

namespace weightfs::httpd {

/// A client, as far as its socket shows it.
struct Client {
  std::string address;      ///< "192.0.2.1", "2001:db8::1", or "unix"
  bool is_loopback = true;  ///< of this machine; a local socket, too
  /// Whether it has closed its end of the connection, or the server ends, for a long computation; null: not known. Once
  /// true, it stays true. Callable from any thread and often.
  std::function<bool()> has_left = {};
  uint16_t port = 0;  ///< of IPv4 and IPv6
};

/// A request that was answered.
struct Answered {
  const Client& client;
  const Request* request;  ///< null if it was not valid
  int status;
  uint64_t bytes;  ///< of the body
  std::chrono::nanoseconds took;
  const Error& error;         ///< why the response was cut short; an empty message otherwise
  std::optional<Ino> failed;  ///< the file whose read was the reason
};

struct ServerOptions {
  std::function<Response(const Request&, const Client&)> answer = {};
  std::function<Response(const Refusal&, const Request*)> refuse = {};  ///< the response for an invalid request
  std::function<void()> on_request = {};                                ///< called when a request has arrived
  /// How many bytes of the body of a request are read before it is answered. A longer body, one of unknown length, and
  /// all bodies without this function are not read: the connection is closed behind the response.
  std::function<size_t(const Request&)> max_body = {};
  std::function<void(const Answered&)> on_answered = {};  ///< called in any thread
  std::optional<Tls> tls = {};
  // Timeouts.
  std::chrono::seconds header{20};   ///< from the first byte of a request to the end of its header
  std::chrono::seconds idle{75};     ///< between requests
  std::chrono::seconds stalled{60};  ///< without the client taking bytes of a response
  size_t max_connections = 16'000;
  size_t max_per_address = 4'000;  ///< of clients on other machines
};

}  // namespace weightfs::httpd
