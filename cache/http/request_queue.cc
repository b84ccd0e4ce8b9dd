#include "cache/http/request_queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace weightfs::http {

RequestQueue::RequestQueue(size_t connections, std::function<Clock::time_point()> now)
    : connections_(connections == 0 ? SIZE_MAX : connections), now_(std::move(now)) {}

RequestQueue::~RequestQueue() = default;

// With the lock.
RequestQueue::Turn::Turn(RequestQueue& queue, Origin& origin) : queue_(queue), origin_(origin), era_(origin.era) {
  ++origin_.running;
  ++origin_.running_in_era;
}

RequestQueue::Turn::~Turn() {
  const std::scoped_lock lock(queue_.mutex_);
  --origin_.running;
  if (era_ == origin_.era) --origin_.running_in_era;
  queue_.forget_idle();
  queue_.changed_.notify_all();
}

void RequestQueue::Turn::record(int status, std::optional<std::chrono::milliseconds> requested_delay) {
  const bool is_busy = status == 429 || status == 503;
  const std::scoped_lock lock(queue_.mutex_);
  const bool is_current = era_ == origin_.era;
  if (is_busy && requested_delay) {
    const auto delay = std::min<std::chrono::milliseconds>(*requested_delay, kMaxClosed);
    origin_.opens = std::max(origin_.opens, queue_.now_() + delay);
    origin_.status = status;
  }
  if (is_busy && is_current) {  // requests of earlier eras were sent before the server could be spared
    ++origin_.era;
    origin_.running_in_era = 0;
    origin_.limit = 1;
  } else if (!is_busy && is_current && origin_.limit != SIZE_MAX && status < 500) {
    const bool has_grown = ++origin_.limit >= std::min(queue_.connections_, kMaxConnections);
    if (has_grown) origin_.limit = SIZE_MAX;
  }
  queue_.changed_.notify_all();
}

// Before the requests that are ahead of their readers, unless they were passed too often: a reader may wait for them by
// now.
std::list<RequestQueue::Waiter>::iterator RequestQueue::join(Origin& origin, Urgency urgency) {
  auto place = origin.waiting.end();
  if (urgency == Urgency::waited_for)
    for (; place != origin.waiting.begin(); --place) {
      Waiter& before = *std::prev(place);
      if (before.urgency == Urgency::waited_for || before.passed == kMaxPassed) break;
      ++before.passed;
    }
  return origin.waiting.insert(place, Waiter{urgency});
}

std::chrono::milliseconds RequestQueue::left(const Origin& origin) const {
  const auto now = now_();
  return now < origin.opens ? std::chrono::ceil<std::chrono::milliseconds>(origin.opens - now)
                            : std::chrono::milliseconds(0);
}

bool RequestQueue::has_room(const Origin& origin) const {
  return origin.running < connections_ && origin.running_in_era < origin.limit;
}

// Until it is the turn of `place`; false: the origin is closed.
Result<bool> RequestQueue::wait(std::unique_lock<std::mutex>& lock, const Origin& origin,
                                std::list<Waiter>::const_iterator place, const Entrant& entrant) {
  for (;;) {
    const auto is_closed = [&] { return left(origin).count() > 0; };
    const auto is_due = [&] { return place == origin.waiting.begin() && has_room(origin); };
    if (is_closed()) return false;
    if (is_due()) return true;
    if (entrant.stop.stop_requested()) return failure(Code::network, entrant.origin + ": cancelled");
    const auto now = Clock::now();
    if (now >= entrant.deadline)
      return failure(timeout(entrant.origin + ": timed out before its turn: too many requests to this server"));
    const auto until = std::min(entrant.deadline, now + kWaitNews);
    const bool has_news = changed_.wait_until(lock, entrant.stop, until, [&] { return is_closed() || is_due(); });
    if (has_news || !entrant.on_wait || entrant.stop.stop_requested()) continue;
    lock.unlock();
    const auto told = exceptions_to_errors([&] { return entrant.on_wait(); });
    lock.lock();
    TRY_VOID(told);
  }
}

Result<RequestQueue::Admission> RequestQueue::enter(const Entrant& entrant) {
  std::unique_lock lock(mutex_);
  Origin& origin = origins_[entrant.origin];  // stays while a request waits or runs
  const auto place = join(origin, entrant.urgency);
  const Result<bool> is_due = wait(lock, origin, place, entrant);
  origin.waiting.erase(place);
  changed_.notify_all();  // the next one may be due
  if (is_due && *is_due) return Admission{.turn = std::make_unique<Turn>(*this, origin)};
  const int status = origin.status;
  const auto time = left(origin);
  forget_idle();
  if (!is_due) return tl::unexpected(is_due.error());
  return Admission{.turn = nullptr, .status = status, .left = time};
}

// An origin without requests is kept while it is closed or busy; beyond kMaxOrigins, those that open first are not.
void RequestQueue::forget_idle() {
  const auto now = now_();
  const auto is_idle = [](const Origin& origin) { return origin.running == 0 && origin.waiting.empty(); };
  std::erase_if(origins_, [&](const auto& each) {
    return is_idle(each.second) && each.second.opens <= now && each.second.limit == SIZE_MAX;
  });
  while (origins_.size() > kMaxOrigins) {
    auto first = origins_.end();
    for (auto at = origins_.begin(); at != origins_.end(); ++at)
      if (is_idle(at->second) && (first == origins_.end() || at->second.opens < first->second.opens)) first = at;
    if (first == origins_.end()) return;
    origins_.erase(first);
  }
}

size_t RequestQueue::waiting() const {
  const std::scoped_lock lock(mutex_);
  size_t count = 0;
  for (const auto& [name, origin] : origins_) count += origin.waiting.size();
  return count;
}

}  // namespace weightfs::http
