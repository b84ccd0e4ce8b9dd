// The producer side of an InFlightBlob: decodes or downloads, verifies, writes and publishes the bytes; or follows
// another process that does.
#include <fmt/core.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/text.h"
#include "cache/blobs/exceptions_to_errors.h"
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

// Another producer without progress for this long may be stopped. Flushing to disk after the last byte takes longer.
constexpr std::chrono::seconds kMaxStall{2};
constexpr std::chrono::seconds kMaxFlush{60};

// A downloading process may wait for its server repeatedly, and re-reads many gigabytes when it resumes.
constexpr std::chrono::minutes kMaxFetchStall{15};

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

// The pipeline from the thread that decodes or downloads to the one that verifies and writes.
struct InFlightBlob::Pipeline {
  Pipeline(const BlobProducer& producer, uint64_t left)
      : queue(kBufferCount,
              static_cast<size_t>(std::clamp<uint64_t>(producer.size.value_or(kBufferSize), 1, kBufferSize))),
        verifier(producer),
        received(left) {}

  // The start of a download and its resume note; set before the first buffer is pushed, or at the end of an empty
  // download. Not set if the download failed before.
  struct Start {
    uint64_t at;
    std::string validator;
  };

  BoundedQueue queue;
  std::optional<Start> start;
  DigestVerifier verifier;  // used by the writing thread
  store::BlockSums sums;    // of the same bytes
  uint64_t received = 0;    // valid bytes in the partial file, including resumed ones
  bool wrong = false;       // received bytes failed verification
};

// Nothing when the bytes failed verification and another attempt makes sense. If wrong bytes were served, the readers
// must learn of it, so the attempt is final.
std::optional<InFlightBlob::FinalState> InFlightBlob::attempt(store::PartialBlob& partial) {
  Pipeline pipeline(producer_, partial.resumed_size());
  FinalState ended = run_pipeline(partial, pipeline);
  if (fetch_ == nullptr || ended.phase == Phase::finished) return ended;
  if (!pipeline.wrong) {
    // A download of unknown size may be endless: resuming would fail as late.
    const bool too_large = !producer_.size && (ended.phase == Phase::uncacheable || is_too_large_);
    if (!too_large || partial.resumed_size() > 0) partial.keep_for_resume(pipeline.received);
    return ended;
  }
  if (stop_.stop_requested() || !fetch_->reject()) return ended;
  const std::scoped_lock lock(mutex_);
  if (served_unverified_) return ended;
  range_ = nullptr;
  written_ = 0;
  progress_.received = 0;
  attempts_ += 1;
  return std::nullopt;
}

InFlightBlob::FinalState InFlightBlob::run_pipeline(store::PartialBlob& partial, Pipeline& pipeline) {
  if (producer_.size)
    if (auto reserved = reserve(partial); !reserved) return FinalState{Phase::uncacheable, reserved.error()};
  set_range(partial.range());
  std::optional<FinalState> write_failure;
  std::thread writer([&] {
    const auto done = exceptions_to_errors([&]() -> Result<void> {
      write_failure = write(partial, pipeline);
      return {};
    });
    if (!done) write_failure = FinalState{Phase::uncacheable, done.error()};
    pipeline.queue.cancel();
  });
  const auto produced =
      exceptions_to_errors([&] { return fetch_ == nullptr ? decode(pipeline) : fetch(pipeline, partial); });
  pipeline.queue.close();
  writer.join();
  if (write_failure) return *write_failure;
  if (produced) return publish(partial, pipeline);
  // An error before the first byte is about the server, not the bytes.
  pipeline.wrong = pipeline.start && is_about_the_bytes(produced.error());
  return FinalState{stop_.stop_requested() ? Phase::cancelled : Phase::failed, produced.error()};
}

// Reserves space for all bytes. Verified blobs that are being published can be evicted only afterwards, so wait for
// them.
Result<void> InFlightBlob::reserve(store::PartialBlob& partial) {
  for (auto waited = kMaxPause * 0; !stop_.stop_requested() && waited < kMaxFlush; waited += kMaxPause) {
    const int publishing = semaphore_.publishing;
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

Result<void> InFlightBlob::fetch(Pipeline& pipeline, const store::PartialBlob& partial) {
  const auto stream = TRY(fetch_->begin({partial.resumed_size(), partial.resume_note()}, stop_.get_token()));
  while (auto buffer = pipeline.queue.acquire_buffer()) {
    if (stop_.stop_requested() || cancel_if_unused()) return tl::unexpected(cancelled_error());
    buffer->filled = TRY(stream->next(buffer->bytes));
    if (!pipeline.start) pipeline.start = Pipeline::Start{stream->begins_at(), stream->validator()};
    {
      const std::scoped_lock lock(mutex_);
      progress_.fetched += buffer->filled;
      last_data_ = std::chrono::steady_clock::now();
      progress_.from = stream->source();
    }
    if (buffer->filled == 0) break;
    pipeline.queue.push(std::move(*buffer));
  }
  return {};
}

// Nothing when all bytes were written.
std::optional<InFlightBlob::FinalState> InFlightBlob::write(store::PartialBlob& partial, Pipeline& pipeline) {
  DigestVerifier& verifier = pipeline.verifier;
  uint64_t reserved = producer_.size.value_or(0);
  auto buffer = pipeline.queue.pop();
  if (pipeline.start)
    if (auto ended = resume(partial, pipeline)) return ended;
  for (; buffer; buffer = pipeline.queue.pop()) {
    const auto bytes = std::span<const std::byte>(buffer->bytes).first(buffer->filled);
    const uint64_t offset = verifier.bytes_added();
    if (auto right = verifier.add(bytes); !right) return wrong(pipeline, right.error());
    pipeline.sums.add(bytes);
    if (fetch_ != nullptr && !producer_.size && verifier.bytes_added() > max_bytes_) {
      is_too_large_ = true;
      return FinalState{Phase::failed, too_large_for_size(producer_.name)};
    }
    if (verifier.bytes_added() > reserved) {
      // A download of unknown size may be endless, so it never evicts other blobs.
      const store::Eviction eviction = fetch_ == nullptr ? store::Eviction::allowed : store::Eviction::forbidden;
      reserved = verifier.bytes_added() + std::max(kMinStep, offset / 16);
      if (!partial.reserve(reserved, eviction)) reserved = verifier.bytes_added();  // the remaining space may be enough
      if (auto done = partial.reserve(reserved, eviction); !done) return FinalState{Phase::uncacheable, done.error()};
    }
    if (auto put = partial.write(offset, bytes); !put) return FinalState{Phase::uncacheable, put.error()};
    pipeline.received = std::max(pipeline.received, verifier.bytes_added());
    advance(verifier.bytes_added());
    pipeline.queue.recycle(std::move(*buffer));
  }
  return std::nullopt;
}

// Called before the first write to a resumed partial file: verifies the earlier bytes, or discards them if the download
// starts at 0.
std::optional<InFlightBlob::FinalState> InFlightBlob::resume(store::PartialBlob& partial, Pipeline& pipeline) {
  const uint64_t begins_at = pipeline.start->at;
  DigestVerifier& verifier = pipeline.verifier;
  if (begins_at == 0 && partial.resumed_size() > 0) {
    if (auto empty = partial.restart(); !empty) return FinalState{Phase::uncacheable, empty.error()};
    pipeline.received = 0;
    if (producer_.size)
      if (auto reserved = reserve(partial); !reserved) return FinalState{Phase::uncacheable, reserved.error()};
    set_range(partial.range());
  }
  partial.save_resume_note(pipeline.start->validator);
  const store::FileRangePtr range = partial.range();
  std::vector<std::byte> bytes(begins_at > 0 ? kBufferSize : 0);
  while (verifier.bytes_added() < begins_at) {
    if (stop_.stop_requested()) return FinalState{Phase::cancelled, cancelled_error()};
    const auto part = std::span(bytes).first(
        static_cast<size_t>(std::min<uint64_t>(bytes.size(), begins_at - verifier.bytes_added())));
    if (auto done = range->read(verifier.bytes_added(), part); !done)
      return FinalState{Phase::uncacheable, done.error()};
    if (auto right = verifier.add(part); !right) return wrong(pipeline, right.error());
    pipeline.sums.add(part);
  }
  advance(verifier.bytes_added());
  return std::nullopt;
}

InFlightBlob::FinalState InFlightBlob::wrong(Pipeline& pipeline, const Error& error) {
  pipeline.wrong = true;
  return FinalState{Phase::failed, error};
}

InFlightBlob::FinalState InFlightBlob::publish(store::PartialBlob& partial, Pipeline& pipeline) {
  release_permit();  // decoding is over
  const auto digest = pipeline.verifier.finish();
  if (!digest) return wrong(pipeline, digest.error());
  const Publishing publishing(semaphore_.publishing);
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
  const auto max_stall = fetch_ != nullptr ? kMaxFetchStall : size == producer_.size ? kMaxFlush : kMaxStall;
  if (stalled_for_ > max_stall) {
    if (fetch_ == nullptr)
      return FinalState{Phase::uncacheable,
                        {Code::resource, "stalled: the process that writes this blob makes no progress"}};
    return FinalState{
        Phase::failed,
        {Code::network, fmt::format("{}: stalled: the process that downloads it makes no progress", producer_.name)}};
  }
  range_ = std::move(others);
  written_ = size;
  followed_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, poll_interval_, [&] { return stop_.stop_requested(); });
  while (!stop_.stop_requested() && waiting_ == 0) {
    if (is_unused()) return FinalState{Phase::cancelled, cancelled_error()};
    changed_.wait_for(lock, kUnusedCheck);
  }
  return std::nullopt;
}

}  // namespace weightfs::blobs
