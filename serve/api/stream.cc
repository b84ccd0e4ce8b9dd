#include "serve/api/stream.h"

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "report/text/map_of.h"

namespace weightfs::api {
namespace {

// So often at least something is sent: else the server would not learn that a client has gone.
constexpr std::chrono::milliseconds kBeat{500};
constexpr std::chrono::milliseconds kInterval{100};  // between events
constexpr std::chrono::milliseconds kPoll{50};

std::string event(const char* name, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data.substr(0, data.find('\n')));
}

const Refusal kCancelled = {503, "the server is ending, or the client has gone"};

}  // namespace

struct Jobs::Stream {
  struct Progress {
    uint64_t done = 0;
    uint64_t total = 0;
    const char* what = "";
  };
  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  std::optional<Progress> progress;  // that has not been sent
  std::optional<Accepted<ContentPtr>> result;
  ContentPtr content;                             // the result, while it is being sent
  size_t content_sent = 0;                        // bytes of it
  std::chrono::steady_clock::time_point sent_at;  // the last event
  std::atomic<bool> is_cancelled = false;
  std::atomic<bool> has_ended = false;

  std::string next();
  std::string next_of_content();
};

// The result is one line. A slow client has a piece of it, not a copy.
std::string Jobs::Stream::next_of_content() {
  constexpr size_t kPiece = 64 << 10;
  const auto line = std::string_view(content->bytes).substr(0, content->bytes.find('\n'));
  const auto piece = line.substr(std::min(content_sent, line.size()), kPiece);
  content_sent += piece.size();
  if (!piece.empty()) return std::string(piece);
  content = nullptr;
  is_cancelled = true;  // nothing follows
  return "\n\n";
}

// The next event; empty after the last one.
std::string Jobs::Stream::next() {
  std::unique_lock lock(mutex);
  if (content != nullptr) return next_of_content();
  if (is_cancelled) return {};
  changed.wait_until(lock, sent_at + kInterval, [this] { return result.has_value(); });
  changed.wait_for(lock, kBeat, [this] { return progress || result; });
  sent_at = std::chrono::steady_clock::now();
  if (result) {
    const Accepted<ContentPtr> last = std::move(*result);
    result.reset();
    if (last) {
      content = *last;
      return "event: result\ndata: ";
    }
    is_cancelled = true;  // nothing follows
    return event("failure", to_json_line(map_of({{"status", last.error().status}, {"error", last.error().message}})));
  }
  if (!progress) return ": \n\n";
  const Progress sent = *std::exchange(progress, std::nullopt);
  return event("progress", to_json_line(map_of({{"done", sent.done}, {"total", sent.total}, {"what", sent.what}})));
}

bool Jobs::wait_for_turn() {
  std::unique_lock lock(mutex_);
  while (running_ >= at_once_) {
    if (is_stopping_ || weightfs::is_cancelled()) return false;
    changed_.wait_for(lock, kPoll);
  }
  if (is_stopping_) return false;
  ++running_;
  return true;
}

void Jobs::end_turn() {
  const std::scoped_lock lock(mutex_);
  --running_;
  changed_.notify_all();
}

Accepted<ContentPtr> Jobs::compute_in_turn(const Compute& compute, const Report& report) {
  if (!wait_for_turn()) return tl::unexpected<Refusal>(kCancelled);
  const std::shared_ptr<void> turn(nullptr, [this](void*) { end_turn(); });
  return compute(report);
}

Accepted<ContentPtr> Jobs::run(const Compute& compute) {
  return compute_in_turn(compute, [](const char*, uint64_t, uint64_t) {});
}

Accepted<httpd::Response> Jobs::stream(Compute compute) {
  const auto stream = std::make_shared<Stream>();
  const auto work = [this, stream, compute = std::move(compute)] {
    const CancelScope scope([&] { return stream->is_cancelled.load(); });
    const Report report = [&](const char* what, uint64_t done, uint64_t total) {
      const std::scoped_lock lock(stream->mutex);
      stream->progress = Stream::Progress{done, total, what};
      stream->changed.notify_all();
    };
    Accepted<ContentPtr> result = httpd::refused(503, "out of memory");
    try {
      result = compute_in_turn(compute, report);
    } catch (const std::exception&) {
      // The result says it.
    }
    const std::scoped_lock lock(stream->mutex);
    stream->result = std::move(result);
    stream->changed.notify_all();
    stream->has_ended = true;
  };
  {
    const std::scoped_lock lock(mutex_);
    remove_ended();
    if (is_stopping_ || threads_.size() >= kMaxStreams)
      return httpd::refused(503, "too many computations; retry later");
    threads_.push_back({stream, std::thread(work)});
  }
  // The last copy of the generator is destroyed with the response.
  const std::shared_ptr<void> client(nullptr, [stream](void*) { stream->is_cancelled = true; });
  httpd::Response response;
  response.add("Content-Type", "text/event-stream").add("Cache-Control", "no-store");
  response.body.emplace_back(httpd::Generator([stream, client]() -> Result<std::string> { return stream->next(); }));
  return response;
}

// Call with the lock.
void Jobs::remove_ended() {
  threads_.remove_if([](Thread& each) {
    if (!each.stream->has_ended) return false;
    each.thread.join();
    return true;
  });
}

void Jobs::stop() {
  std::list<Thread> threads;
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
    threads = std::move(threads_);
    changed_.notify_all();
  }
  for (const Thread& each : threads) each.stream->is_cancelled = true;
  for (Thread& each : threads) each.thread.join();
}

}  // namespace weightfs::api
