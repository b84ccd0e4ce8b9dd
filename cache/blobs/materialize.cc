// The producer side of an InFlightBlob: decodes, verifies, writes and publishes the bytes; or follows another process
// that does.
#include <fmt/core.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/text.h"
#include "cache/blobs/in_flight_blob.h"

namespace weightfs::blobs {
namespace {

// 2 MiB per blob: decouples the two threads at low memory cost.
constexpr size_t kBufferSize = 512 * 1024;
constexpr size_t kBufferCount = 4;

// Space for a blob of unknown size is reserved in growing steps: at most a sixteenth too much.
constexpr uint64_t kMinStep = 1 << 20;

constexpr std::chrono::milliseconds kMinPause{1};
constexpr std::chrono::milliseconds kMaxPause{20};
constexpr std::chrono::milliseconds kUnusedCheck{500};

// A producer in another process without progress for this long may be stopped (SIGSTOP). Flushing to disk after the
// last byte takes longer.
constexpr std::chrono::seconds kMaxStall{2};
constexpr std::chrono::seconds kMaxFlush{60};

// Counts a verified blob that is being published.
class Publishing {
 public:
  explicit Publishing(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Publishing() { --count_; }
  Publishing(const Publishing&) = delete;
  Publishing& operator=(const Publishing&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

// The pipeline from the thread that decodes to the one that verifies and writes.
struct InFlightBlob::Pipeline {
  explicit Pipeline(const BlobProducer& producer)
      : queue(kBufferCount,
              static_cast<size_t>(std::clamp<uint64_t>(producer.size.value_or(kBufferSize), 1, kBufferSize))),
        verifier(producer) {}

  BoundedQueue queue;
  DigestVerifier verifier;  // used by the writing thread
  store::BlockSums sums;    // of the same bytes
};

InFlightBlob::FinalState InFlightBlob::produce(store::PartialBlob& partial) {
  Pipeline pipeline(producer_);
  if (producer_.size)
    if (auto reserved = reserve(partial); !reserved) return FinalState{Phase::uncacheable, reserved.error()};
  set_range(partial.range());
  Result<void> written;
  std::thread writer([&] {
    written = exceptions_to_errors([&] { return write(partial, pipeline); });
    pipeline.queue.cancel();
  });
  const auto produced = exceptions_to_errors([&] { return decode(pipeline); });
  pipeline.queue.close();
  writer.join();
  if (!written) return {is_about_the_bytes(written.error()) ? Phase::failed : Phase::uncacheable, written.error()};
  if (produced) return publish(partial, pipeline);
  return FinalState{stop_.stop_requested() ? Phase::cancelled : Phase::failed, produced.error()};
}

// Reserves space for all bytes. Verified blobs that are being published can be evicted only afterwards, so wait for
// them.
Result<void> InFlightBlob::reserve(store::PartialBlob& partial) {
  for (auto waited = kMaxPause * 0; !stop_.stop_requested() && waited < kMaxFlush; waited += kMaxPause) {
    const int publishing = publishing_;
    auto reserved = partial.reserve(*producer_.size, store::Eviction::allowed);
    if (reserved || publishing == 0) return reserved;
    std::this_thread::sleep_for(kMaxPause);
  }
  return partial.reserve(*producer_.size, store::Eviction::allowed);
}

Result<void> InFlightBlob::decode(Pipeline& pipeline) {
  const StreamPtr stream = TRY(producer_.start());
  while (auto buffer = pipeline.queue.acquire_buffer()) {
    if (stop_.stop_requested() || cancel_if_unused()) return tl::unexpected(cancelled_error());
    buffer->filled = TRY(stream->next(buffer->bytes));
    if (buffer->filled == 0) break;
    pipeline.queue.push(std::move(*buffer));
  }
  return {};
}

Result<void> InFlightBlob::write(store::PartialBlob& partial, Pipeline& pipeline) {
  DigestVerifier& verifier = pipeline.verifier;
  uint64_t reserved = producer_.size.value_or(0);
  while (auto buffer = pipeline.queue.pop()) {
    const auto bytes = std::span<const std::byte>(buffer->bytes).first(buffer->filled);
    const uint64_t offset = verifier.bytes_added();
    TRY_VOID(verifier.add(bytes));
    pipeline.sums.add(bytes);
    if (verifier.bytes_added() > reserved) {
      reserved = verifier.bytes_added() + std::max(kMinStep, offset / 16);
      if (!partial.reserve(reserved, store::Eviction::allowed)) reserved = verifier.bytes_added();  // may be enough
      TRY_VOID(partial.reserve(reserved, store::Eviction::allowed));
    }
    TRY_VOID(partial.write(offset, bytes));
    advance(verifier.bytes_added());
    pipeline.queue.recycle(std::move(*buffer));
  }
  return {};
}

InFlightBlob::FinalState InFlightBlob::publish(store::PartialBlob& partial, Pipeline& pipeline) {
  const auto digest = pipeline.verifier.finish();
  if (!digest) return FinalState{Phase::failed, digest.error()};
  const Publishing publishing(publishing_);
  {
    const std::scoped_lock lock(mutex_);
    if (is_final(phase_)) return FinalState{Phase::cancelled, cancelled_error()};
    phase_ = Phase::verified;
    changed_.notify_all();
  }
  auto handle = partial.publish(*digest, pipeline.verifier.bytes_added(), std::move(pipeline.sums));
  if (!handle) return FinalState{Phase::uncacheable, handle.error()};
  return finish(std::move(*handle));
}

InFlightBlob::FinalState InFlightBlob::finish(store::BlobHandle handle) {
  const std::scoped_lock lock(mutex_);
  range_ = handle.range;
  handle_ = std::move(handle);
  return FinalState{Phase::finished, {}};
}

// Serves the bytes that another process has written so far, and waits a little. Ends when the other process makes no
// progress.
std::optional<InFlightBlob::FinalState> InFlightBlob::follow(store::FileRangePtr others, uint64_t size) {
  std::unique_lock lock(mutex_);
  const bool grew = size != written_ || range_ == nullptr;
  stalled_for_ = grew ? stalled_for_.zero() : stalled_for_ + poll_interval_;
  poll_interval_ = grew ? kMinPause : std::min(2 * poll_interval_, kMaxPause);
  if (stalled_for_ > (size == producer_.size ? kMaxFlush : kMaxStall))
    return FinalState{Phase::uncacheable,
                      {Code::resource, "stalled: the process that writes this blob makes no progress"}};
  range_ = std::move(others);
  written_ = size;
  changed_.notify_all();
  changed_.wait_for(lock, poll_interval_, [&] { return stop_.stop_requested(); });
  while (!stop_.stop_requested() && waiting_ == 0) {
    if (is_unused()) return FinalState{Phase::cancelled, cancelled_error()};
    changed_.wait_for(lock, kUnusedCheck);
  }
  return std::nullopt;
}

}  // namespace weightfs::blobs
