#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/os/system_error.h"
#include "base/os/unix_socket.h"
#include "base/values/shared_text.h"
#include "cache/fetcher.h"
#include "cache/fetcher/wire.h"
#include "cache/url.h"

namespace weightfs::fetcher {

namespace {

class NamedCredentials final : public http::Credentials {
 public:
  explicit NamedCredentials(http::CredentialsName name) : name_(std::move(name)) {}

  const http::CredentialsName& name() const { return name_; }
  std::string description() override { return description_.get(); }
  void set_description(std::string description) { description_.set(std::move(description)); }

 private:
  const http::CredentialsName name_;
  SharedText description_{""};
};

constexpr std::chrono::milliseconds kStopCheck{100};

// The fetcher ends a request at its deadline, and says more of it, but not while it waits for keys or tokens.
Result<void> check_deadline(const http::Request& request) {
  constexpr std::chrono::seconds kLonger{1};
  if (std::chrono::steady_clock::now() - kLonger < request.deadline) return {};
  return failure(timeout(http::printable_url(request.url) + ": timed out"));
}

// Reads the frames of one answer.
class Answer {
 public:
  // `on_lost`: why the stream has ended early.
  Answer(Descriptor stream, const http::Request& request, const http::ResponseHandler& handler,
         const std::stop_token& stop, std::function<Error()> on_lost)
      : stream_(std::move(stream)),
        request_(request),
        handler_(handler),
        stop_(stop),
        on_lost_(std::move(on_lost)),
        buffer_(kFrameHeader + kMaxFrame) {}

  // Until the last frame, whose content is returned. `on_response` is called before the handler.
  Result<Ended> read(const std::function<void(const Answered&)>& on_response) {
    for (;;) {
      if (stop_.stop_requested()) return failure(Code::network, "stopped");
      TRY_VOID(fill(kFrameHeader));
      const FrameHeader header = TRY(unpack_header({buffer_.data() + begin_, kFrameHeader}));
      TRY_VOID(fill(kFrameHeader + header.size));
      const std::string_view content(buffer_.data() + begin_ + kFrameHeader, header.size);
      begin_ += kFrameHeader + header.size;
      if (header.kind == Frame::end) return unpack_end(content);
      TRY_VOID(take(header.kind, content, on_response));
    }
  }

 private:
  Result<void> take(Frame kind, std::string_view content, const std::function<void(const Answered&)>& on_response) {
    if (kind == Frame::wait) return handler_.on_wait ? handler_.on_wait() : Result<void>();
    if ((kind == Frame::response) == has_response_) return failure(Code::corrupt, "frames in a wrong order");
    if (kind == Frame::body) return handler_.on_body(std::as_bytes(std::span(content)));
    has_response_ = true;
    const Answered answered = TRY(unpack_response(content));
    on_response(answered);
    return handler_.on_response(answered.response);
  }

  // Receives until the buffer has `size` bytes, which fit.
  Result<void> fill(size_t size) {
    if (begin_ + size > buffer_.size()) {
      std::copy(buffer_.begin() + static_cast<ptrdiff_t>(begin_), buffer_.begin() + static_cast<ptrdiff_t>(end_),
                buffer_.begin());
      end_ -= begin_;
      begin_ = 0;
    }
    while (end_ - begin_ < size) {
      const ssize_t got = ::recv(stream_.number(), buffer_.data() + end_, buffer_.size() - end_, MSG_DONTWAIT);
      if (got > 0) {
        end_ += static_cast<size_t>(got);
      } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (stop_.stop_requested()) return failure(Code::network, "stopped");
        TRY_VOID(check_deadline(request_));
        pollfd ready{stream_.number(), POLLIN, 0};
        ::poll(&ready, 1, static_cast<int>(kStopCheck.count()));
      } else {
        return tl::unexpected(on_lost_());
      }
    }
    return {};
  }

  const Descriptor stream_;
  const http::Request& request_;
  const http::ResponseHandler& handler_;
  const std::stop_token& stop_;
  const std::function<Error()> on_lost_;
  bool has_response_ = false;
  std::vector<char> buffer_;  // [begin_, end_) was received and not taken
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace

Result<http::CredentialsPtr> FetchedClient::credentials(const http::CredentialsName& name) {
  return std::make_shared<NamedCredentials>(name);
}

// Why a request was not taken or not answered: the fetcher has ended, or has too little of something for a time.
Error FetchedClient::lost() {
  pollfd end{socket_.number(), 0, 0};
  if (::poll(&end, 1, 0) <= 0 || (end.revents & (POLLHUP | POLLERR)) == 0)
    return {Code::resource, "the process that downloads lacks memory, threads or descriptors"};
  record_end_of_fetcher();
  return {Code::io, "the process that downloads has ended; run the command again, or mount again"};
}

// Sends the request; the result is the stream of its answer.
Result<Descriptor> FetchedClient::ask(const http::Request& request, const std::stop_token& stop) {
  Asked asked{request};
  asked.request.credentials = nullptr;
  asked.patience = patience();
  if (const auto* const named = dynamic_cast<const NamedCredentials*>(request.credentials.get()))
    asked.credentials = named->name();
  const std::string bytes = pack(asked);
  if (bytes.size() > kMaxRequest) return failure(Code::unsupported, "a URL that is too long");
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    Error error = io_error("a request");
    error.code = Code::resource;
    return failure(std::move(error));
  }
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  // The fetcher takes no request while it has too many.
  for (pollfd ready{socket_.number(), POLLOUT, 0}; ::poll(&ready, 1, static_cast<int>(kStopCheck.count())) <= 0;) {
    if (stop.stop_requested()) return failure(Code::network, "stopped");
    TRY_VOID(check_deadline(request));
  }
  if (send_message(socket_.number(), bytes, theirs.number())) return ours;
  return tl::unexpected(lost());
}

Result<void> FetchedClient::perform(const http::Request& request, const http::ResponseHandler& handler,
                                    const std::stop_token& stop) try {
  TRY_VOID(http::parse_url(request.url));  // as the fetcher does; a refused URL costs no message
  const auto take = [&](const Told& told) {
    for (const auto& [origin, count] : told.requests) count_request(origin, count);
    auto* const named = dynamic_cast<NamedCredentials*>(request.credentials.get());
    if (named == nullptr) return;
    if (!told.credentials.empty()) named->set_description(told.credentials);
    record_keys(request.url, told.keys);
  };
  Answer answer(TRY(ask(request, stop)), request, handler, stop, [this] { return lost(); });
  const Ended ended = TRY(answer.read([&](const Answered& answered) {
    take(answered.told);
    record_answer(http::origin_of(answered.response.url), answered.response);
  }));
  take(ended.told);
  if (ended.error) return failure(*ended.error);
  return {};
} catch (const std::bad_alloc&) {
  return failure(Code::resource, "out of memory");
}

}  // namespace weightfs::fetcher
