// A loopback HTTP/1.1 server for tests: its handlers may send anything, and it records the requests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weightfs {

/// A received request.
struct SeenRequest {
  std::string method;
  std::string target;                          ///< "/v2/…?query"
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;                            ///< of a POST
  uint64_t connection = 0;                     ///< counts connections from 0

  std::string header(const std::string& name) const;
  /// The requested range
  std::optional<std::pair<uint64_t, uint64_t>> range() const;
};

/// The connection of a handler: raw, so that a response may be malformed.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  /// False when the client has gone.
  bool send(std::string_view bytes);
  /// Sends RST instead of the rest.
  void reset();
  /// Closes after what was sent.
  void close();
  /// Sends nothing for this time, or until the client has gone or the server ends: false then.
  bool pause(std::chrono::milliseconds time);
  /// Sends nothing until the client has gone or the server ends.
  void stall();
  bool closed() const { return closed_; }

 private:
  int fd_;
  bool closed_ = false;
};

class HttpServer {
 public:
  using Handler = std::function<void(const SeenRequest& request, Wire& wire)>;

  /// Listens on 127.0.0.1, a port that the kernel picks; a thread per connection. Ends with the object.
  explicit HttpServer(Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const { return port_; }
  std::string url(const std::string& target) const;  ///< "http://127.0.0.1:PORT" + target
  std::vector<SeenRequest> requests() const;
  size_t count(const std::string& method, const std::string& target_prefix = "/") const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  uint16_t port_ = 0;
};

/// "HTTP/1.1 STATUS\r\n" + headers + "Content-Length: …" (unless the headers have one) + body.
std::string answer(const std::string& status, std::string_view body, const std::vector<std::string>& headers = {});

/// Sends the same bytes for every request.
HttpServer::Handler always(std::string bytes);

/// Serves `body` like a correct server: HEAD, Range (206 with Content-Range, 416), ETag, If-Range, If-Match (412),
/// If-None-Match (304).
void serve_file(const SeenRequest& request, Wire& wire, std::string_view body, const std::string& etag = "\"e1\"");

}  // namespace weightfs
