#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/os/unix_socket.h"
#include "cache/fetcher.h"
#include "cache/fetcher/wire.h"
#include "cache/url.h"

namespace weightfs::fetcher {
namespace {

// Counts of requests that were not told yet.
class Counts {
 public:
  explicit Counts(http::ClientPtr client) : client_(std::move(client)) {}

  std::map<std::string, uint64_t> take() {
    const std::scoped_lock lock(mutex_);
    std::map<std::string, uint64_t> all = client_->requests();
    std::map<std::string, uint64_t> more;
    for (const auto& [origin, count] : all)
      if (const uint64_t before = told_[origin]; count > before) more[origin] = count - before;
    told_ = std::move(all);
    return more;
  }

 private:
  const http::ClientPtr client_;
  std::mutex mutex_;  // guards the rest
  std::map<std::string, uint64_t> told_;
};

constexpr std::chrono::milliseconds kSendCheck{100};

// The stream of one answer. What the other process passes may be anything, so nothing waits for it without an end.
class Stream {
 public:
  explicit Stream(Descriptor socket) : socket_(std::move(socket)) {}

  int number() const { return socket_.number(); }

  // The sandbox permits no sendmsg(2).
  Result<void> send(Frame kind, std::string_view bytes, const std::stop_token& stop) {
    if (bytes.size() > kMaxFrame) return failure(Code::corrupt, "a response with too long headers");
    frame_ = pack(FrameHeader{kind, static_cast<uint32_t>(bytes.size())});
    frame_ += bytes;
    for (std::string_view rest = frame_; !rest.empty();) {
      const ssize_t sent = ::send(socket_.number(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) {
        rest.remove_prefix(static_cast<size_t>(sent));
        continue;
      }
      if ((errno != EAGAIN && errno != EINTR) || stop.stop_requested())
        return failure(Code::network, "the request was given up");
      pollfd ready{socket_.number(), POLLOUT, 0};
      ::poll(&ready, 1, static_cast<int>(kSendCheck.count()));
    }
    return {};
  }

  Result<void> send_body(std::span<const std::byte> bytes, const std::stop_token& stop) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (size_t at = 0; at < text.size(); at += kMaxFrame)
      TRY_VOID(send(Frame::body, text.substr(at, kMaxFrame), stop));
    return {};
  }

 private:
  const Descriptor socket_;
  std::string frame_;
};

class Serving {
 public:
  Serving(int socket, const http::ClientPtr& client, Gate& gate, int parent)
      : socket_(socket),
        parent_(parent),
        client_(client),
        gate_(gate),
        counts_(client),
        ended_(::eventfd(0, EFD_CLOEXEC)) {}

  void run() {
    while (accepts_) {
      // For want of memory or descriptors: it may pass.
      if (!exceptions_to_errors([this]() -> Result<void> { return poll_once(); }))
        std::this_thread::sleep_for(kSendCheck);
      remove_ended();
    }
    for (Running& each : running_) each.thread.request_stop();
    running_.clear();  // joins
  }

 private:
  struct Running {
    explicit Running(Descriptor socket) : stream(std::move(socket)) {}
    Stream stream;
    std::atomic<bool> has_ended = false;
    std::jthread thread = {};
  };

  // Waits for a request, for one that is given up, and for one that has ended.
  Result<void> poll_once() {
    const short wanted = running_.size() < kMaxRequests ? POLLIN : 0;
    std::vector<pollfd> all = {{socket_, wanted, 0}, {ended_.number(), POLLIN, 0}, {parent_, POLLIN, 0}};
    const size_t first = all.size();
    std::vector<Running*> given;
    for (Running& each : running_)
      if (!each.thread.get_stop_token().stop_requested()) {
        all.push_back({each.stream.number(), POLLRDHUP, 0});
        given.push_back(&each);
      }
    if (::poll(all.data(), all.size(), -1) < 0) return failure(Code::resource, "poll");
    if (all[2].revents != 0) std::_Exit(0);
    for (size_t i = 0; i < given.size(); ++i)
      if (all[first + i].revents != 0) given[i]->thread.request_stop();
    if (all[1].revents != 0) {
      uint64_t count = 0;
      (void)!::read(ended_.number(), &count, sizeof count);
    }
    if ((all[0].revents & POLLIN) != 0) return accept((all[0].revents & POLLHUP) != 0);
    if (all[0].revents != 0) accepts_ = false;
    return {};
  }

  void remove_ended() {
    running_.remove_if([](const Running& each) { return each.has_ended.load(); });
  }

  Result<void> accept(bool is_last) {
    SocketMessage message = receive_message(socket_, kMaxRequest + 1);
    if (message.bytes.empty() && !is_last) return failure(Code::resource, "recvmsg");
    if (message.bytes.empty()) accepts_ = false;
    if (!message.descriptor) return {};
    running_.emplace_back(std::move(message.descriptor));
    Running& run = running_.back();
    try {
      run.thread = std::jthread([this, &run, bytes = std::move(message.bytes)](const std::stop_token& stop) {
        answer(run.stream, bytes, stop);
        run.has_ended = true;
        const uint64_t one = 1;
        (void)!::write(ended_.number(), &one, sizeof one);
      });
    } catch (const std::exception&) {  // the stream is closed
      running_.pop_back();
      return failure(Code::resource, "a thread");
    }
    return {};
  }

  void answer(Stream& stream, const std::string& bytes, const std::stop_token& stop) noexcept {
    Admitted admitted;
    const auto done = exceptions_to_errors([&]() -> Result<void> {
      const Asked asked = TRY(unpack_request(bytes));
      if (asked.patience != client_->patience()) client_->wait_for_network(asked.patience);
      admitted = TRY(gate_.admit(asked));
      return perform(asked, admitted, stream, stop);
    });
    std::ignore = exceptions_to_errors([&]() -> Result<void> {
      Ended ended{.told = told(admitted)};
      if (!done) ended.error = done.error();
      return stream.send(Frame::end, pack(ended), stop);
    });
  }

  Told told(const Admitted& admitted) {
    Told news{.requests = counts_.take()};
    if (admitted.credentials == nullptr) return news;
    news.credentials = admitted.credentials->description();
    news.keys = admitted.credentials->key_origin();
    return news;
  }

  Result<void> perform(const Asked& asked, const Admitted& admitted, Stream& stream, const std::stop_token& stop) {
    http::Request request = asked.request;
    request.credentials = admitted.credentials;
    request.public_only |= admitted.public_only;
    const http::ResponseHandler handler{
        .on_response =
            [&](const http::Response& response) {
              if (response.url != http::normalized_url(request.url)) gate_.note_redirect(asked, response);
              return stream.send(Frame::response, pack(Answered{response, told(admitted)}), stop);
            },
        .on_body = [&](std::span<const std::byte> some) { return stream.send_body(some, stop); },
        .on_wait = [&] { return stream.send(Frame::wait, "", stop); }};
    return client_->perform(request, handler, stop);
  }

  const int socket_;
  const int parent_;
  const http::ClientPtr client_;
  Gate& gate_;
  Counts counts_;
  const Descriptor ended_;
  bool accepts_ = true;
  std::list<Running> running_;
};

}  // namespace

void serve_requests(int socket, const http::ClientPtr& client, Gate& gate, int parent) {
  Serving(socket, client, gate, parent).run();
}

}  // namespace weightfs::fetcher
