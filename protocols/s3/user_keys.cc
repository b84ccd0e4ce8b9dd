#include "protocols/s3/user_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/cancel.h"

namespace weightfs::s3 {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using TimePoint = UserKeys::Clock::time_point;

constexpr minutes kBeforeEnd{15};
constexpr minutes kEnough{1};  // of validity: nothing waits for a renewal
constexpr seconds kBetweenRefusals{10};
constexpr std::chrono::milliseconds kStopCheck{100};

// A clock that is set back does not stop renewals.
bool is_within(const std::optional<TimePoint>& begin, TimePoint now, std::chrono::nanoseconds time) {
  return begin && now >= *begin && now - *begin < time;
}

// A service may return the same keys until shortly before their end, so the time that is left counts, not their age.
TimePoint renewal_of(TimePoint expiry, TimePoint now) {
  constexpr minutes kOverdue{1};
  if (expiry <= now) return now + kOverdue;
  return expiry - std::min<TimePoint::duration>(kBeforeEnd, (expiry - now) / 3);
}

}  // namespace

UserKeys::UserKeys(Settings settings, std::function<Result<Settings>()> read)
    : flags_(settings.flags),
      read_(read != nullptr ? std::move(read) : [flags = flags_] { return Settings::of_user(flags); }),
      settings_(std::move(settings)) {}

// The thread has a client, which may be the last owner of these keys.
UserKeys::~UserKeys() {
  if (thread_.get_id() == std::this_thread::get_id()) thread_.detach();
}

UserKeys::Current UserKeys::current_locked() const {
  Current current{settings_.keys, error_ ? error_->message : settings_.note, generation_, expiry_};
  const KeySource* const source = settings_.key_source.get();
  if (current.keys) current.origin = {source == nullptr ? settings_.keys_from : source->origin(), read_last_};
  if (current.keys && expiry_) current.origin.expires = std::chrono::floor<seconds>(*expiry_);
  current.certificates = settings_.certificates;
  return current;
}

UserKeys::Current UserKeys::current() const {
  const std::scoped_lock lock(mutex_);
  return current_locked();
}

bool UserKeys::is_valid(TimePoint at) const {
  if (settings_.key_source == nullptr) return true;
  if (!has_asked_) return false;
  if (!settings_.keys) return settings_.key_source->is_optional();
  return !expiry_ || at < *expiry_ || settings_.key_source->is_optional();
}

bool UserKeys::is_due(TimePoint now) const {
  if (settings_.key_source == nullptr) return false;
  return !has_asked_ || error_ || (renew_at_ && now >= *renew_at_);
}

// Reads that fail ask again soon. An instance without a role has none for long.
bool UserKeys::may_try(TimePoint now) const {
  constexpr seconds kWithoutKeys{2};
  constexpr seconds kWithKeys{30};
  constexpr minutes kAnonymous{5};
  if (is_busy_) return false;
  if (!is_valid(now)) return !is_within(failed_at_, now, kWithoutKeys);
  return settings_.keys ? !is_within(failed_at_, now, kWithKeys) : !is_within(failed_at_, now, kAnonymous);
}

Result<UserKeys::Current> UserKeys::get(const http::ClientPtr& client, TimePoint now, const std::stop_token& stop) {
  Lock lock(mutex_);
  if (!is_due(now)) return current_locked();
  if (is_valid(now + kEnough)) {
    if (may_try(now)) renew_in_thread(client, now);
    return current_locked();
  }
  const TimePoint started = Clock::now();
  const uint64_t failures = failures_;
  wait_for_renewal(lock, stop);
  if (stop.stop_requested() || is_cancelled()) return failure(Code::network, "cancelled");
  if (failures == failures_ && is_due(now) && may_try(now)) renew_now(lock, client, now, stop);
  if (is_valid(now + (Clock::now() - started))) return current_locked();
  if (stop.stop_requested()) return failure(Code::network, "cancelled");
  return failure(error_ ? *error_ : Error(Code::network, "no keys"));
}

bool UserKeys::renew(uint64_t refused, TimePoint now, const http::ClientPtr& client, const std::stop_token& stop) {
  Lock lock(mutex_);
  wait_for_renewal(lock, stop);
  if (generation_ != refused) return true;
  if (is_busy_ || is_within(refused_at_, now, kBetweenRefusals)) return false;
  refused_at_ = now;
  renew_now(lock, client, now, stop);
  return generation_ != refused;
}

void UserKeys::wait_for_renewal(Lock& lock, const std::stop_token& stop) {
  while (is_busy_ && !stop.stop_requested() && !is_cancelled()) changed_.wait_for(lock, kStopCheck);
}

// A previous thread has nothing left to do, because is_busy_ is not set.
void UserKeys::renew_in_thread(const http::ClientPtr& client, TimePoint now) {
  is_busy_ = true;
  const auto started = exceptions_to_errors([&]() -> Result<void> {
    thread_ = std::jthread([this, client, now, old = settings_](const std::stop_token& stop) {
      std::ignore = exceptions_to_errors([&]() -> Result<void> {
        Obtained obtained = obtain(old, client, stop);
        const std::scoped_lock lock(mutex_);
        take(std::move(obtained), now);
        return {};
      });
      const std::scoped_lock lock(mutex_);
      if (is_busy_) end_renewal();  // without memory
    });
    return {};
  });
  if (!started) is_busy_ = false;
}

void UserKeys::renew_now(Lock& lock, const http::ClientPtr& client, TimePoint now, const std::stop_token& stop) {
  Settings old = settings_;
  is_busy_ = true;
  lock.unlock();
  Obtained obtained = obtain(std::move(old), client, stop);
  lock.lock();
  const bool has_keys = obtained.keys && obtained.keys->keys;  // a read that was cancelled is like a missing file
  if (!has_keys && (stop.stop_requested() || is_cancelled())) return end_renewal();  // others try again
  take(std::move(obtained), now);
}

// A file that is being written changes nothing.
UserKeys::Obtained UserKeys::obtain(Settings old, const http::ClientPtr& client, const std::stop_token& stop) const {
  Obtained obtained{std::move(old), TimedKeys{}};
  auto done = exceptions_to_errors([&]() -> Result<TimedKeys> {
    auto again = read_();
    obtained.is_read = again.has_value();
    if (again) obtained.settings = std::move(*again);
    const Settings& settings = obtained.settings;
    if (settings.key_source == nullptr) return TimedKeys{settings.keys};
    obtained.is_read = true;
    if (client == nullptr) return failure(Code::forbidden, settings.key_source->name() + ": no network");
    return settings.key_source->obtain(*client, stop);
  });
  obtained.keys = std::move(done);
  return obtained;
}

void UserKeys::end_renewal() {
  is_busy_ = false;
  changed_.notify_all();
}

void UserKeys::take(Obtained obtained, TimePoint now) {
  end_renewal();
  const KeySourcePtr source = obtained.settings.key_source;
  if (obtained.keys && obtained.keys->expiry && *obtained.keys->expiry <= now && !source->is_optional())
    obtained.keys = failure(Code::forbidden, fmt::format("{}: its keys have expired", source->name()));
  has_asked_ |= source == nullptr || obtained.keys || source->is_optional();
  if (!obtained.keys) {
    error_ = std::move(obtained.keys).error();
    failed_at_ = now;
    ++failures_;
    return;
  }
  error_.reset();
  failed_at_.reset();
  if (obtained.is_read) read_last_ = http::current_second();
  if (obtained.keys->keys != settings_.keys) ++generation_;
  settings_ = std::move(obtained.settings);
  settings_.keys = std::move(obtained.keys->keys);
  expiry_ = obtained.keys->expiry;
  renew_at_.reset();
  if (expiry_) renew_at_ = renewal_of(*expiry_, now);
}

}  // namespace weightfs::s3
