#include "fs/http/session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace weightfs::httpd {
namespace {

constexpr std::chrono::seconds kDrain{5};
constexpr std::chrono::milliseconds kLastDrain{500};  // when the server ends
constexpr int kMaxAnswered = 32;                      // requests, before other connections have a turn
constexpr int kMaxDrained = 64;                       // reads, the same

// Asks no more often than every few milliseconds, because each costs a system call. Once true, it stays true.
std::function<bool()> at_times(std::function<bool()> has_left) {
  static constexpr std::chrono::milliseconds kInterval{20};
  struct State {
    std::mutex mutex;  // guards the rest
    std::chrono::steady_clock::time_point next;
    bool has_left = false;
  };
  return [state = std::make_shared<State>(), has_left = std::move(has_left)] {
    const std::scoped_lock lock(state->mutex);
    if (state->has_left || std::chrono::steady_clock::now() < state->next) return state->has_left;
    state->next = std::chrono::steady_clock::now() + kInterval;
    return state->has_left = has_left();
  };
}

}  // namespace

Session::Session(Descriptor socket, Client client, const ServerOptions& options, const std::atomic<bool>& is_stopping,
                 const Workers& workers)
    : transport_(std::move(socket), options.tls ? &*options.tls : nullptr),
      client_(std::move(client)),
      options_(options),
      is_stopping_(is_stopping),
      workers_(workers),
      until_(Clock::now() + options.header),
      deadline_(until_) {
  client_.has_left = at_times([this] {
    pollfd poll{transport_.socket(), POLLRDHUP, 0};
    return is_stopping_ || ::poll(&poll, 1, 0) > 0;
  });
}

void Session::enter(State state, std::chrono::milliseconds within) {
  until_ = Clock::now() + within;
  state_.store(state, std::memory_order_relaxed);
}

Wait Session::proceed() {
  deadline_ = Clock::time_point::max();
  answered_ = 0;
  std::optional<Wait> wait;
  while (!wait) wait = proceed_once();
  deadline_ = until_;
  return *wait;
}

void Session::abort() {
  transport_.reset_on_close();
  if (transfer_ != nullptr) finish();
}

std::optional<Wait> Session::proceed_once() {
  switch (state_.load(std::memory_order_relaxed)) {
    case State::between:
    case State::header:
      if (answered_ == kMaxAnswered) return Wait::writable;  // at once
      return parse() ? std::nullopt : receive();
    case State::body:
      return parse_body() ? std::nullopt : receive();
    case State::response:
      return send();
    case State::draining:
      return drain();
  }
  return Wait::closed;
}

// Nothing: bytes were received.
std::optional<Wait> Session::receive() {
  std::array<std::byte, 4096> buffer;
  const Moved got = transport_.read(buffer);
  if (got.bytes > 0) {
    if (state_ == State::between) {
      begun_ = Clock::now();
      enter(State::header, options_.header);
    }
    received_.append(reinterpret_cast<const char*>(buffer.data()), got.bytes);
    return std::nullopt;
  }
  if (got.wait == Wait::closed && has_expired_ && state_ != State::between) {
    refuse({408, fmt::format("the {} did not arrive in time", state_ == State::header ? "header" : "body")});
    return std::nullopt;
  }
  if (got.wait != Wait::nothing && received_.empty()) std::string().swap(received_);
  return got.wait == Wait::nothing ? std::nullopt : std::optional(got.wait);
}

// Whether a request, valid or not, was found in what has been received.
bool Session::parse() {
  // An empty line before a request is ignored (RFC 9112, section 2.2).
  if (parser_ == nullptr && received_.starts_with("\r\n")) received_.erase(0, 2);
  if (received_.empty() || (parser_ == nullptr && received_ == "\r")) return false;
  if (parser_ == nullptr) parser_ = std::make_unique<RequestParser>();
  const auto length = parser_->parse(received_);
  if (!length) {
    refuse(length.error());
    return true;
  }
  if (*length == 0) return false;
  received_.erase(0, *length);
  Request request = parser_->take();
  parser_.reset();
  body_ = body_to_read(request);
  if (body_ > 0 && received_.empty() && !invite_body(request)) body_ = 0;
  if (body_ == 0) {
    answer(std::move(request));
  } else {
    request_ = std::move(request);
    enter(State::body, options_.header);
  }
  return true;
}

// 0 if the body is not read.
size_t Session::body_to_read(const Request& request) const {
  if (!request.has_body || !options_.max_body) return 0;
  const std::string* const length = request.field("content-length");
  const auto bytes = length == nullptr ? std::nullopt : parse_number<size_t>(*length);
  return bytes && *bytes <= options_.max_body(request) ? *bytes : 0;
}

// A client may wait for that with its body (RFC 9110, section 10.1.1). False if it cannot be sent at once.
bool Session::invite_body(const Request& request) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  const std::string* const expected = request.field("expect");
  if (expected == nullptr || lower_case(*expected) != "100-continue" || request.minor == 0) return true;
  return transport_.write(std::as_bytes(std::span(kContinue)), false).bytes == kContinue.size();
}

// Whether the body is complete.
bool Session::parse_body() {
  if (received_.size() < body_) return false;
  Request request = std::move(*request_);
  request_.reset();
  request.body = received_.substr(0, body_);
  request.has_body = false;
  received_.erase(0, body_);
  answer(std::move(request));
  return true;
}

void Session::refuse(const Refusal& refusal) {
  if (options_.on_request) options_.on_request();
  parser_.reset();
  // Also the response to a HEAD that is not valid has no body.
  if (state_ == State::header && received_.starts_with("HEAD ")) request_.emplace().method = "HEAD";
  std::string().swap(received_);
  begin(options_.refuse(refusal, nullptr), request_ ? &*request_ : nullptr, true);
}

void Session::answer(Request request) {
  if (options_.on_request) options_.on_request();
  Response response;
  try {
    if (workers_.is_overloaded())
      response = options_.refuse({503, "too many requests wait for servers or containers; retry later"}, &request);
    else
      response = options_.answer(request, client_);
  } catch (const std::exception&) {
    response = options_.refuse({503, "out of memory"}, &request);
  }
  request_ = std::move(request);
  const bool closes =
      !request_->keep_alive || request_->has_body || is_stopping_ || (request_->minor == 0 && !response.length());
  begin(std::move(response), &*request_, closes);
}

void Session::begin(Response response, const Request* request, bool closes) {
  closes_ = closes;
  take_over_ = std::move(response.take_over);
  transfer_ = std::make_unique<Transfer>(std::move(response), request, closes);
  enter(State::response, options_.stalled);
}

std::optional<Wait> Session::send() {
  const uint64_t before = transfer_->bytes_sent();
  const Transfer::Progress progress = transfer_->advance(transport_, !workers_.is_overloaded());
  if (transfer_->bytes_sent() > before) until_ = Clock::now() + options_.stalled;
  switch (progress) {
    case Transfer::Progress::sent:
      finish();
      if (take_over_ != nullptr) {
        hand_over();
        return Wait::closed;
      }
      go_on();
      return std::nullopt;
    case Transfer::Progress::blocked:
    case Transfer::Progress::paused:
      return Wait::writable;
    case Transfer::Progress::receives:
      return Wait::readable;
    case Transfer::Progress::failed:
      transport_.reset_on_close();
      finish();
      return Wait::closed;
  }
  return Wait::closed;
}

void Session::finish() {
  options_.on_answered({client_, request_ ? &*request_ : nullptr, transfer_->status(), transfer_->bytes_sent(),
                        Clock::now() - begun_, transfer_->error(), transfer_->failed()});
  ++answered_;
  transfer_.reset();
  request_.reset();
}

void Session::go_on() {
  if (!closes_) {
    begun_ = Clock::now();
    if (received_.empty())
      enter(State::between, options_.idle);
    else
      enter(State::header, options_.header);
    return;
  }
  // Closed at once, the connection would be reset by bytes of the client that were not read, and with it the response.
  transport_.end_writing();
  enter(State::draining, is_stopping_ ? kLastDrain : kDrain);
}

// A copy of the socket is handed over: the server closes its own. The epoll instance keeps the open file description
// with a pointer to this session until the copy is closed, too; as it reports once (EPOLLONESHOT), that is not used.
void Session::hand_over() {
  if (transport_.is_encrypted() || closes_) return;
  Descriptor copy(::fcntl(transport_.socket(), F_DUPFD_CLOEXEC, 0));
  if (copy) take_over_(std::move(copy), std::move(received_));
}

std::optional<Wait> Session::drain() {
  std::array<std::byte, 16384> buffer;
  for (int i = 0; i < kMaxDrained; ++i)
    if (const Moved got = transport_.read(buffer); got.wait != Wait::nothing) return got.wait;
  return Wait::readable;
}

void Session::expire(Clock::time_point now, bool is_stopping) {
  const Clock::time_point deadline = deadline_;
  if (deadline == Clock::time_point::max()) return;
  const State state = state_.load(std::memory_order_relaxed);
  const bool ends = is_stopping && (state == State::between || state == State::header || state == State::body);
  if (!ends && now < deadline) return;
  // A worker finds the end of the request, and answers 408. TLS cannot be answered after that.
  const bool is_answered = (state == State::header || state == State::body) && !ends && !transport_.is_encrypted();
  has_expired_ = is_answered;
  ::shutdown(transport_.socket(), is_answered ? SHUT_RD : SHUT_RDWR);
}

}  // namespace weightfs::httpd
