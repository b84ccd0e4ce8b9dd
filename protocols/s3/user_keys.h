// The user's keys for object stores while a mount lasts: they expire, and a file or a service has the next ones.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "cache/http/client.h"
#include "protocols/s3.h"
#include "protocols/s3/key_source.h"

namespace weightfs::s3 {

/// Thread-safe. Keys with an expiry are renewed 15 minutes before it, or in the last third of a shorter life. A thread
/// renews them while the old ones are valid for a minute or more, so that no request waits; later the requests wait for
/// one of them.
class UserKeys {
 public:
  using Clock = std::chrono::system_clock;

  /// `read` reads the settings again before keys are obtained again; null: Settings::of_user().
  explicit UserKeys(Settings settings, std::function<Result<Settings>()> read = nullptr);
  ~UserKeys();
  UserKeys(const UserKeys&) = delete;
  UserKeys& operator=(const UserKeys&) = delete;

  struct Current {
    std::optional<Keys> keys;  ///< nothing: requests are anonymous
    std::string note;          ///< as Settings::note, or why keys could not be renewed
    uint64_t generation;       ///< from 1 on
    std::optional<Clock::time_point> expiry = {};
    http::KeyOrigin origin = {};     ///< none without keys
    Certificates certificates = {};  ///< as in Settings
  };
  /// Obtains nothing.
  Current current() const;

  /// Obtains keys if there are none yet, or if they expire soon. Fails as KeySource::obtain() does if there are no
  /// valid ones, and with network when `stop` is set. Requests that wait for the same attempt fail with it.
  Result<Current> get(const http::ClientPtr& client, Clock::time_point now, const std::stop_token& stop);

  /// A server refused the keys of this generation: whether there are others now. They are read or obtained at most
  /// every 10 seconds; if that fails, the old ones stay. Without `client` nothing is obtained from a source.
  bool renew(uint64_t refused, Clock::time_point now = Clock::now(), const http::ClientPtr& client = nullptr,
             const std::stop_token& stop = {});

  const BucketFlags& flags() const { return flags_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Obtained {
    Settings settings;
    Result<TimedKeys> keys;
    bool is_read = true;  // else `keys` are the old ones, because a file cannot be read
  };

  Current current_locked() const;
  bool is_valid(Clock::time_point at) const;
  bool is_due(Clock::time_point now) const;
  bool may_try(Clock::time_point now) const;
  void wait_for_renewal(Lock& lock, const std::stop_token& stop);
  void renew_in_thread(const http::ClientPtr& client, Clock::time_point now);
  void renew_now(Lock& lock, const http::ClientPtr& client, Clock::time_point now, const std::stop_token& stop);
  Obtained obtain(Settings old, const http::ClientPtr& client, const std::stop_token& stop) const;
  void end_renewal();
  void take(Obtained obtained, Clock::time_point now);

  const BucketFlags flags_;
  const std::function<Result<Settings>()> read_;
  mutable std::mutex mutex_;  // guards the rest but thread_
  std::condition_variable changed_;
  Settings settings_;  // whose keys are the current ones, also those of a source
  uint64_t generation_ = 1;
  std::optional<Clock::time_point> expiry_;
  std::optional<Clock::time_point> renew_at_;
  std::optional<Clock::time_point> refused_at_;  // of the last renew()
  std::optional<Clock::time_point> failed_at_;   // since the last success
  std::optional<Error> error_;                   // of it
  uint64_t failures_ = 0;
  bool has_asked_ = false;                                       // the source
  bool is_busy_ = false;                                         // a thread renews them
  std::jthread thread_;                                          // used by the thread that set is_busy_
  std::chrono::sys_seconds read_last_ = http::current_second();  // when the keys were
};

}  // namespace weightfs::s3
