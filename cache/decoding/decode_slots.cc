#include "cache/decoding/decode_slots.h"

#include <algorithm>
#include <exception>
#include <tuple>

#include "base/cancel.h"

namespace weightfs::blobs {
namespace {

using store::BlobName;

constexpr size_t kMaxFailures = 10'000;

// Decodings that wait are not counted, because a slow server must not delay reads of local data. With them, so many
// times the limit may be started.
constexpr size_t kMaxStarted = 8;

// A thread that waits for a slot checks at this interval for idle and waiting jobs.
constexpr std::chrono::milliseconds kSlotCheckInterval{20};

}  // namespace

DecodeSlots::InFlightBlobPtr DecodeSlots::find_in_flight(const BlobName& name) {
  const std::scoped_lock lock(mutex_);
  return find(name);
}

// A blob that has ended is not in flight, even if its thread has not.
DecodeSlots::InFlightBlobPtr DecodeSlots::find(const BlobName& name) {
  const auto job = std::ranges::find_if(
      jobs_, [&](const Job& r) { return r.in_flight->name().text == name.text && !r.in_flight->has_ended(); });
  if (job == jobs_.end()) return nullptr;
  jobs_.splice(jobs_.end(), jobs_, job);
  return job->in_flight;
}

std::shared_ptr<const void> DecodeSlots::hold(const BlobName& name) {
  change_holders(name.text, 1);
  return {static_cast<const void*>(this),
          [self = shared_from_this(), text = name.text](const void*) { self->change_holders(text, -1); }};
}

void DecodeSlots::change_holders(const std::string& name, int by) {
  const std::scoped_lock lock(mutex_);
  const auto held = holders_.try_emplace(name, 0).first;
  const size_t holders = by > 0 ? ++held->second : --held->second;
  if (holders == 0) holders_.erase(held);
  for (const Job& job : jobs_)
    if (job.in_flight->name().text == name) job.in_flight->set_holders(holders);
}

void DecodeSlots::remember(const std::string& name, const InFlightBlob::State& ended) {
  const std::scoped_lock lock(mutex_);
  if (ended.phase == InFlightBlob::Phase::finished) failures_.erase(name);
  if (ended.phase != InFlightBlob::Phase::failed || !is_about_the_bytes(ended.error)) return;
  if (failures_.size() == kMaxFailures) failures_.clear();
  failures_.emplace(name, ended.error);
}

Result<DecodeSlots::InFlightBlobPtr> DecodeSlots::find_or_start(const BlobProducer& producer, const BlobName& name) {
  return exceptions_to_errors([&] { return start_or_wait(producer, name); });
}

InFlightBlob::State DecodeSlots::produce(const BlobProducer& producer, const BlobName& name) {
  for (;;) {
    const auto in_flight = find_or_start(producer, name);
    if (!in_flight) return {InFlightBlob::Phase::uncacheable, in_flight.error()};
    auto state = (*in_flight)->wait();
    if (state.phase != InFlightBlob::Phase::cancelled) return state;
  }
}

// Waiting for a slot cannot deadlock, although the waiting thread may hold a slot, or a lock that the holders of slots
// wait for (of a zip, or of a Later): decoding a blob depends only on slots of lower depths, and at the lowest depth on
// none. BlobProducer::depth states that order; check_depth() enforces it.
Result<DecodeSlots::InFlightBlobPtr> DecodeSlots::start_or_wait(const BlobProducer& producer, const BlobName& name) {
  std::unique_lock lock(mutex_);
  const auto position = queue_.emplace(producer.depth, next_ticket_++).first;
  const auto leave_queue = [&](void*) {
    queue_.erase(position);
    changed_.notify_all();
  };
  const std::unique_ptr<void, decltype(leave_queue)> queued(this, leave_queue);
  for (;;) {
    if (stopped_) return failure(Code::resource, "the store is closed");
    if (auto in_flight = find(name)) return in_flight;
    if (is_cancelled()) return failure(Code::resource, "cancelled before it was complete");
    const bool is_first = position == queue_.lower_bound({producer.depth, 0});
    if (is_first && free_slot(producer.depth)) return start(producer, name);
    changed_.wait_for(lock, kSlotCheckInterval);
  }
}

template <class Counts>
size_t DecodeSlots::count_jobs(const Counts& counts) const {
  return static_cast<size_t>(std::count_if(jobs_.begin(), jobs_.end(), counts));
}

// A decoding that waits for another blob or a server needs no slot until it continues.
bool DecodeSlots::free_slot(int depth) {
  reap();
  const auto counts = [&](const Job& r) { return r.depth == depth && !r.in_flight->has_ended(); };
  const auto is_decoding = [&](const Job& r) { return counts(r) && !r.in_flight->is_waiting(); };
  if (count_jobs(is_decoding) < limits_.decodings && count_jobs(counts) < kMaxStarted * limits_.decodings) return true;
  return std::ranges::any_of(jobs_,
                             [&](const Job& r) { return counts(r) && r.in_flight->cancel_if_unused(limits_.idle); });
}

DecodeSlots::InFlightBlobPtr DecodeSlots::start(const BlobProducer& producer, const BlobName& name) {
  const bool shared_by_digest = name.digest && name.key.empty();
  const auto serve = shared_by_digest || failures_.contains(name.text) ? InFlightBlob::Serve::after_verification
                                                                       : InFlightBlob::Serve::before_verification;
  auto in_flight = std::make_shared<InFlightBlob>(producer, name, backend_, serve, limits_.unused);
  if (const auto held = holders_.find(name.text); held != holders_.end()) in_flight->set_holders(held->second);
  Job& slot = jobs_.emplace_back(Job{in_flight, producer.depth, {}});
  try {
    slot.thread = std::thread([self = shared_from_this(), in_flight] { self->run(in_flight); });
  } catch (const std::exception&) {
    jobs_.pop_back();
    throw;
  }
  return in_flight;
}

// A reader that sees a failure finds it recorded when it tries again.
void DecodeSlots::run(const InFlightBlobPtr& in_flight) noexcept {
  InFlightBlob::State ended = in_flight->run();
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    remember(in_flight->name().text, ended);
    return {};
  });
  in_flight->end(ended);
  if (ended.phase == InFlightBlob::Phase::finished)
    std::ignore = exceptions_to_errors(
        [&]() -> Result<void> { return on_cached_(ended.handle.digest, in_flight->member()), Result<void>(); });
  ended.handle = {};  // closes its file
  const std::scoped_lock lock(mutex_);
  const auto job = std::ranges::find(jobs_, in_flight, &Job::in_flight);
  if (job == jobs_.end()) return;  // stop() was called in this thread
  job->in_flight = nullptr;
  ended_jobs_.splice(ended_jobs_.end(), jobs_, job);
  changed_.notify_all();
}

void DecodeSlots::reap() {
  for (Job& job : ended_jobs_) job.thread.join();
  ended_jobs_.clear();
}

// The slots may be stopped by one of their own threads, which must not wait for itself.
void DecodeSlots::stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  for (const Job& job : jobs_) job.in_flight->cancel();
  const auto own =
      std::ranges::find_if(jobs_, [](const Job& job) { return job.thread.get_id() == std::this_thread::get_id(); });
  if (own != jobs_.end()) {
    own->thread.detach();
    jobs_.erase(own);
  }
  changed_.notify_all();
  changed_.wait(lock, [&] { return jobs_.empty(); });
  reap();
}

std::optional<Error> DecodeSlots::known_failure(const BlobName& name) {
  const std::scoped_lock lock(mutex_);
  const auto known = failures_.find(name.text);
  return known == failures_.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace weightfs::blobs
