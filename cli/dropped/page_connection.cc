#include "cli/dropped/page_connection.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/cancel.h"
#include "base/text.h"
#include "base/values/json.h"

namespace weightfs {
namespace {

using httpd::Opcode;

constexpr std::chrono::seconds kPatience{60};  // for an answer
constexpr size_t kNumberSize = 4;              // bytes before those of an answer
constexpr size_t kMaxOutgoing = 64 << 10;      // bytes that a page may leave in the queue

constexpr const char* kClosed = "the page that has this file was closed or loaded again; drop the file again";

}  // namespace

PageConnection::PageConnection(Descriptor socket, std::string received)
    : received_(std::move(received)), socket_(std::move(socket)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw std::system_error(errno, std::generic_category());
}

void PageConnection::run(const OnList& on_list) noexcept {
  Ending ending = Ending::stopped;
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    ending = exchange(on_list);
    return {};
  });
  end(ending);
}

PageConnection::Ending PageConnection::exchange(const OnList& on_list) {
  httpd::WebSocketReader reader(kMaxRead + 64);
  reader.add(std::exchange(received_, {}));
  for (;;) {
    auto message = reader.next();
    for (; message && *message; message = reader.next())
      if (const Ending ending = take(**message, on_list); ending != Ending::none) return ending;
    if (!message) return message.error().code == Code::unsupported ? Ending::too_long : Ending::wrong;
    if (!send()) return Ending::closed;
    wait_for_bytes(reader);
    const std::scoped_lock lock(mutex_);
    if (is_stopping_) return Ending::stopped;
  }
}

// What a page does not take is not followed by more: nothing is received until it does.
void PageConnection::wait_for_bytes(httpd::WebSocketReader& reader) {
  std::unique_lock lock(mutex_);
  const int receives = outgoing_.size() < kMaxOutgoing ? POLLIN : 0;
  const int sends = outgoing_.empty() ? 0 : POLLOUT;
  lock.unlock();
  std::array<pollfd, 2> watched{pollfd{socket_.number(), static_cast<short>(receives | sends), 0},
                                pollfd{wake_.number(), POLLIN, 0}};
  ::poll(watched.data(), watched.size(), -1);
  eventfd_t woken = 0;
  ::eventfd_read(wake_.number(), &woken);
  if ((watched[0].revents & ~POLLOUT) != 0 && !receive(reader)) stop();
}

// False if the connection has ended.
bool PageConnection::receive(httpd::WebSocketReader& reader) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0) reader.add({buffer.data(), static_cast<size_t>(got)});
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

// Sends what the socket takes. False if the connection has ended.
bool PageConnection::send() {
  const std::scoped_lock lock(mutex_);
  while (!outgoing_.empty()) {
    const ssize_t sent = ::send(socket_.number(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN;
    outgoing_.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

// Why a message is the last one; none if it is not.
PageConnection::Ending PageConnection::take(const httpd::WebSocketMessage& message, const OnList& on_list) {
  if (message.opcode == Opcode::pong) return Ending::none;
  if (message.opcode == Opcode::close) return Ending::closed;
  if (message.opcode == Opcode::ping) {
    queue(httpd::websocket_frame(Opcode::pong, message.bytes));
    return Ending::none;
  }
  if (has_list_) {
    const bool is_right = message.opcode == Opcode::binary ? take_answer(message.bytes) : take_failure(message.bytes);
    return is_right ? Ending::none : Ending::wrong;
  }
  if (message.opcode != Opcode::text) return Ending::wrong;
  has_list_ = true;
  queue(httpd::websocket_frame(Opcode::text, on_list(message.bytes)));
  return Ending::none;
}

// The caller holds the lock. Null if no reader waits for this answer.
PageConnection::Request* PageConnection::find(uint64_t number) {
  const auto found = requests_.find(number);
  return found == requests_.end() ? nullptr : &found->second;
}

// The number of the request, little-endian, and the bytes.
bool PageConnection::take_answer(std::string_view bytes) {
  if (bytes.size() < kNumberSize) return false;
  uint32_t number = 0;
  std::memcpy(&number, bytes.data(), kNumberSize);
  const std::scoped_lock lock(mutex_);
  if (number == 0 || number > last_) return false;
  if (Request* const request = find(number)) {
    request->bytes = bytes.substr(kNumberSize);
    request->is_answered = true;
    changed_.notify_all();
  }
  return true;
}

// {"failed": NUMBER, "error": "…"}
bool PageConnection::take_failure(const std::string& text) {
  constexpr size_t kMaxFailure = 4096;
  if (text.size() > kMaxFailure) return false;
  const auto parsed = parse_json(*in_memory(text), 0, text.size());
  const Map* const map = parsed ? std::get_if<Map>(&*parsed) : nullptr;
  const auto* const number = map == nullptr ? nullptr : map->find_as<int64_t>("failed");
  if (number == nullptr || *number <= 0) return false;
  const std::scoped_lock lock(mutex_);
  if (static_cast<uint64_t>(*number) > last_) return false;
  if (Request* const request = find(static_cast<uint64_t>(*number))) {
    request->error = fmt::format("the browser cannot read it: {}", printable(text_in(*map, "error")));
    request->is_answered = true;
    changed_.notify_all();
  }
  return true;
}

void PageConnection::queue(const std::string& frame) {
  const std::scoped_lock lock(mutex_);
  outgoing_ += frame;
}

void PageConnection::wake() const { ::eventfd_write(wake_.number(), 1); }

void PageConnection::stop() {
  const std::scoped_lock lock(mutex_);
  is_stopping_ = true;
  if (!has_ended_) wake();
}

// Files of the page outlive the connection: it keeps no descriptor and no bytes.
void PageConnection::end(Ending ending) {
  const std::scoped_lock lock(mutex_);
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    const auto code = static_cast<uint16_t>(ending);
    const std::string reason = {static_cast<char>(code >> 8), static_cast<char>(code & 0xFF)};
    outgoing_ += httpd::websocket_frame(Opcode::close, reason);
    ::send(socket_.number(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return {};
  });
  ::shutdown(socket_.number(), SHUT_RDWR);
  std::string().swap(outgoing_);
  socket_ = Descriptor();
  wake_ = Descriptor();
  has_ended_ = true;
  changed_.notify_all();
}

bool PageConnection::has_ended() const {
  const std::scoped_lock lock(mutex_);
  return has_ended_;
}

Result<size_t> PageConnection::read(size_t file, uint64_t offset, std::span<std::byte> out) {
  const size_t size = std::min(out.size(), kMaxRead);
  std::unique_lock lock(mutex_);
  if (has_ended_) return failure(Code::io, kClosed);
  if (last_ == UINT32_MAX) return failure(Code::resource, "too many reads; drop the file again");
  if (outgoing_.size() >= kMaxOutgoing) return failure(Code::resource, "the page that has this file takes no requests");
  const uint64_t number = ++last_;
  Request& request = requests_[number];
  outgoing_ += httpd::websocket_frame(
      Opcode::text, fmt::format("{{\"read\":{},\"file\":{},\"offset\":{},\"size\":{}}}", number, file, offset, size));
  wake();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!request.is_answered && !has_ended_ && !is_cancelled() && std::chrono::steady_clock::now() < until)
    changed_.wait_for(lock, kCancelCheck);
  const Request done = std::move(request);
  requests_.erase(number);
  if (!done.error.empty()) return failure(Code::io, done.error);
  if (!done.is_answered && is_cancelled()) return cancelled();
  if (!done.is_answered && has_ended_) return failure(Code::io, kClosed);
  if (!done.is_answered) return failure(Code::io, "the page that has this file is not responding");
  if (done.bytes.size() > size) return failure(Code::io, "the page sent more bytes than were asked for");
  std::memcpy(out.data(), done.bytes.data(), done.bytes.size());
  return done.bytes.size();
}

}  // namespace weightfs
