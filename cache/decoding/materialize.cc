// The producer side of an InFlightBlob: decodes, verifies, writes and publishes the bytes; or follows another process
// that does.
#include <algorithm>
#include <thread>

#include "base/cancel.h"
#include "cache/count_scope.h"
#include "cache/decoding/in_flight_blob.h"

namespace weightfs::blobs {
namespace {

// With four buffers 2 MiB per blob: decouples the two threads at low memory cost.
constexpr uint64_t kBufferSize = 512 * 1024;
// Smaller pieces of a stream are gathered, because each buffer wakes another thread.
constexpr size_t kEnough = 16 * 1024;

constexpr std::chrono::milliseconds kMinPause{1};
constexpr std::chrono::milliseconds kUnusedCheck{500};

// A producer in another process without progress for this long may be stopped (SIGSTOP). Flushing to disk after the
// last byte takes longer.
constexpr std::chrono::seconds kMaxStall{2};
constexpr std::chrono::seconds kMaxFlush{60};

// After an error while bytes were verified and written.
InFlightBlob::Phase phase_after(const Error& error) {
  return is_about_the_bytes(error) ? InFlightBlob::Phase::failed : InFlightBlob::Phase::uncacheable;
}

}  // namespace

// One thread decodes, another one verifies and writes. Nothing if the file was removed before it could be held.
std::optional<InFlightBlob::State> InFlightBlob::produce(BlobWriter& writer) {
  if (const auto reserved = reserve(writer); !reserved) {
    if (reserved.error().code == Code::not_found) return std::nullopt;
    return State{Phase::uncacheable, reserved.error()};
  }
  serve(writer.file(), 0);
  BoundedQueue queue;
  Result<void> written;
  std::thread writing([&] {
    written = exceptions_to_errors([&] { return write(queue, writer); });
    queue.close();
  });
  const auto all_decoded = exceptions_to_errors([&] { return decode(queue); });
  queue.close();
  writing.join();
  if (!written) return State{phase_after(written.error()), written.error()};
  if (all_decoded) return publish(writer);
  return State{stop_.stop_requested() ? Phase::cancelled : Phase::failed, all_decoded.error()};
}

// Verified blobs that are being published can be evicted only afterwards, so wait for them.
Result<void> InFlightBlob::reserve(BlobWriter& writer) {
  for (auto waited = store::kOtherProcessCheck * 0; !stop_.stop_requested() && waited < kMaxFlush;
       waited += store::kOtherProcessCheck) {
    const int publishing = publishing_;
    auto reserved = writer.reserve();
    if (reserved || publishing == 0 || reserved.error().code == Code::not_found) return reserved;
    std::this_thread::sleep_for(store::kOtherProcessCheck);
  }
  return writer.reserve();
}

Result<size_t> gather(Stream& stream, std::span<std::byte> out, size_t enough) {
  size_t filled = 0;
  while (filled < enough) {
    if (is_cancelled()) return tl::unexpected(cancelled_error());
    const size_t got = TRY(stream.next(out.subspan(filled)));
    if (got == 0) break;
    filled += got;
  }
  return filled;
}

Result<void> InFlightBlob::decode(BoundedQueue& queue) {
  const StreamPtr stream = TRY(producer_.start());
  const auto size = static_cast<size_t>(std::clamp<uint64_t>(producer_.size.value_or(kBufferSize), 1, kBufferSize));
  const size_t enough = std::min(size, kEnough);
  BoundedQueue::Buffer buffer;
  for (bool has_more = true; has_more;) {
    buffer.bytes.resize(size);
    buffer.filled = TRY(gather(*stream, buffer.bytes, enough));
    has_more = buffer.filled >= enough;
    if (buffer.filled > 0 && !queue.push(buffer)) break;
  }
  return {};
}

Result<void> InFlightBlob::write(BoundedQueue& queue, BlobWriter& writer) {
  for (BoundedQueue::Buffer buffer; queue.pop(buffer);) {
    TRY_VOID(writer.add(std::span(buffer.bytes).first(buffer.filled)));
    serve(writer.file(), writer.written());
  }
  return {};
}

InFlightBlob::State InFlightBlob::publish(BlobWriter& writer) {
  const auto digest = writer.finish();
  if (!digest) return {phase_after(digest.error()), digest.error()};
  const CountScope publishing(&publishing_);
  {
    const std::scoped_lock lock(mutex_);
    if (is_final(state_.phase)) return {Phase::cancelled, cancelled_error()};
    state_.phase = Phase::verified;
    changed_.notify_all();
  }
  auto handle = writer.publish(*digest);
  if (!handle) return {Phase::uncacheable, handle.error()};
  return {Phase::finished, {}, std::move(*handle)};
}

// Serves the blocks that another process has written so far, and waits a little. Ends when the other process makes no
// progress.
std::optional<InFlightBlob::State> InFlightBlob::follow(const store::BlockFilePtr& file) {
  const uint64_t blocks = producer_.size ? file->complete_until().value_or(0) : 0;
  const uint64_t present = std::min(file->size(), blocks * store::kBlock);
  const uint64_t last_written = file->last_written();
  const bool grew = file != file_ || last_written != last_written_;
  last_written_ = last_written;
  stalled_for_ = grew ? stalled_for_.zero() : stalled_for_ + poll_interval_;
  poll_interval_ = grew ? kMinPause : std::min(2 * poll_interval_, store::kOtherProcessCheck);
  if (stalled_for_ > (present == producer_.size ? kMaxFlush : kMaxStall))
    return State{Phase::uncacheable, {Code::resource, "stalled: the process that writes this blob makes no progress"}};
  serve(file, present);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, poll_interval_, [&] { return stop_.stop_requested(); });
  while (!stop_.stop_requested() && waiting_ == 0) {
    if (is_unused(unused_after_)) return State{Phase::cancelled, cancelled_error()};
    changed_.wait_for(lock, kUnusedCheck);
  }
  return std::nullopt;
}

}  // namespace weightfs::blobs
