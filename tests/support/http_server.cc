#include "tests/support/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

namespace weightfs {
namespace {

// No test sends a larger head: a client that does must fail instead of filling the memory.
constexpr size_t kMaxHead = 1 << 20;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::optional<uint64_t> number(std::string_view digits) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// The head of the next request, without the empty line; nothing when the client has gone. `kept` holds what came after.
std::optional<std::string> next_head(int fd, std::string& kept) {
  for (;;) {
    if (const size_t end = kept.find("\r\n\r\n"); end != std::string::npos) {
      std::string head = kept.substr(0, end + 2);
      kept.erase(0, end + 4);
      return head;
    }
    char buffer[4096];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0 || kept.size() > kMaxHead) return std::nullopt;
    kept.append(buffer, static_cast<size_t>(got));
  }
}

// The body of that length; nothing when the client has gone.
std::optional<std::string> next_body(int fd, std::string& kept, uint64_t size) {
  if (size > kMaxHead) return std::nullopt;
  while (kept.size() < size) {
    char buffer[4096];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return std::nullopt;
    kept.append(buffer, static_cast<size_t>(got));
  }
  std::string body = kept.substr(0, size);
  kept.erase(0, size);
  return body;
}

SeenRequest parsed(const std::string& head) {
  SeenRequest seen;
  const size_t line = head.find("\r\n");
  const size_t space = head.find(' ');
  seen.method = head.substr(0, space);
  seen.target = head.substr(space + 1, head.rfind(' ', line) - space - 1);
  for (size_t at = line + 2; at < head.size();) {
    const size_t end = head.find("\r\n", at);
    const std::string header = head.substr(at, end - at);
    const size_t colon = header.find(':');
    if (colon != std::string::npos) seen.headers[lower(header.substr(0, colon))] = trimmed(header.substr(colon + 1));
    at = end + 2;
  }
  return seen;
}

}  // namespace

std::string SeenRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::optional<std::pair<uint64_t, uint64_t>> SeenRequest::range() const {
  const std::string value = header("range");
  const size_t dash = value.find('-');
  if (value.rfind("bytes=", 0) != 0 || dash == std::string::npos) return std::nullopt;
  const auto first = number(std::string_view(value).substr(6, dash - 6));
  const auto last = number(std::string_view(value).substr(dash + 1));
  if (!first || (!last && dash + 1 < value.size())) return std::nullopt;
  return std::pair(*first, last ? *last + 1 : UINT64_MAX);
}

bool Wire::send(std::string_view bytes) {
  while (!closed_ && !bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) closed_ = true;
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return !closed_;
}

// The connection's thread closes it, which with this setting sends RST and drops what was not sent.
void Wire::reset() {
  const linger drop{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
  closed_ = true;
}

void Wire::close() {
  ::shutdown(fd_, SHUT_WR);
  closed_ = true;
}

bool Wire::pause(std::chrono::milliseconds time) {
  pollfd gone{fd_, POLLRDHUP, 0};
  if (!closed_ && ::poll(&gone, 1, static_cast<int>(time.count())) > 0) closed_ = true;
  return !closed_;
}

void Wire::stall() {
  while (pause(std::chrono::seconds(60))) {
  }
}

struct HttpServer::State {
  Handler handler;
  int listening = -1;
  std::thread accepting;
  std::mutex mutex;  // guards the rest
  std::vector<SeenRequest> seen;
  std::vector<std::thread> connections;
  std::set<int> open;
  bool ended = false;

  void accept_all() {
    for (uint64_t count = 0;; ++count) {
      const int fd = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
      const std::scoped_lock lock(mutex);
      if (ended || fd < 0) {
        if (fd >= 0) ::close(fd);
        return;
      }
      const int at_once = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
      open.insert(fd);
      connections.emplace_back([this, fd, count] { serve(fd, count); });
    }
  }

  void serve(int fd, uint64_t connection) {
    Wire wire(fd);
    std::string kept;
    while (!wire.closed()) {
      const auto head = next_head(fd, kept);
      if (!head) break;
      SeenRequest request = parsed(*head);
      auto body = next_body(fd, kept, number(request.header("content-length")).value_or(0));
      if (!body) break;
      request.body = std::move(*body);
      request.connection = connection;
      {
        const std::scoped_lock lock(mutex);
        if (ended) break;
        seen.push_back(request);
      }
      handler(request, wire);
    }
    const std::scoped_lock lock(mutex);  // so that a reused descriptor is not shut down
    open.erase(fd);
    ::close(fd);
  }
};

HttpServer::HttpServer(Handler handler) : state_(std::make_shared<State>()) {
  state_->handler = std::move(handler);
  state_->listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(state_->listening, any, size) != 0 || ::listen(state_->listening, 128) != 0 ||
      ::getsockname(state_->listening, any, &size) != 0)
    give_up("a server on loopback");
  port_ = ntohs(address.sin_port);
  state_->accepting = std::thread([state = state_.get()] { state->accept_all(); });
}

HttpServer::~HttpServer() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ended = true;
    ::shutdown(state_->listening, SHUT_RDWR);
    for (const int fd : state_->open) ::shutdown(fd, SHUT_RDWR);
  }
  state_->accepting.join();
  for (std::thread& connection : state_->connections) connection.join();
  ::close(state_->listening);
}

std::string HttpServer::url(const std::string& target) const {
  return "http://127.0.0.1:" + std::to_string(port_) + target;
}

std::vector<SeenRequest> HttpServer::requests() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->seen;
}

size_t HttpServer::count(const std::string& method, const std::string& target_prefix) const {
  const auto seen = requests();
  return static_cast<size_t>(std::count_if(seen.begin(), seen.end(), [&](const SeenRequest& request) {
    return request.method == method && request.target.rfind(target_prefix, 0) == 0;
  }));
}

std::string answer(const std::string& status, std::string_view body, const std::vector<std::string>& headers) {
  std::string text = "HTTP/1.1 " + status + "\r\n";
  bool has_length = false;
  for (const std::string& header : headers) {
    has_length = has_length || lower(header).rfind("content-length:", 0) == 0;
    text += header + "\r\n";
  }
  if (!has_length) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  text += "\r\n";
  return text.append(body);
}

HttpServer::Handler always(std::string bytes) {
  return [bytes = std::move(bytes)](const SeenRequest&, Wire& wire) { wire.send(bytes); };
}

void serve_file(const SeenRequest& request, Wire& wire, std::string_view body, const std::string& etag) {
  const uint64_t size = body.size();
  const std::string if_range = request.header("if-range");
  auto range = request.range();
  if (!if_range.empty() && if_range != etag) range = std::nullopt;
  const std::string tag = "ETag: " + etag;
  const std::string total = "/" + std::to_string(size);
  if (const std::string if_match = request.header("if-match"); !if_match.empty() && if_match != etag) {
    wire.send(answer("412 Precondition Failed", "", {tag}));
    return;
  }
  if (request.header("if-none-match") == etag) {
    wire.send(answer("304 Not Modified", "", {tag}));
    return;
  }
  if (range && range->first >= size) {
    wire.send(answer("416 Range Not Satisfiable", "", {tag, "Content-Range: bytes *" + total}));
    return;
  }
  const auto [begin, end] =
      range ? std::pair(range->first, std::min(range->second, size)) : std::pair(uint64_t{0}, size);
  std::vector<std::string> headers = {tag, "Accept-Ranges: bytes", "Content-Length: " + std::to_string(end - begin)};
  if (range) headers.push_back("Content-Range: bytes " + std::to_string(begin) + "-" + std::to_string(end - 1) + total);
  wire.send(answer(range ? "206 Partial Content" : "200 OK", "", headers));
  if (request.method != "HEAD") wire.send(body.substr(begin, end - begin));
}

}  // namespace weightfs
