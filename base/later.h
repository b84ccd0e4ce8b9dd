// A value that is made when it is first asked for. The only laziness in weightfs: a shard opened, a directory parsed
// when it is entered, metadata rendered, a blob fetched.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "base/result.h"

namespace weightfs {

/// Copies share one value. Callable from any thread; `make` runs in the thread that asks first while the others wait.
template <class T>
class Later {
 public:
  using Make = std::function<Result<T>()>;

  /// `make` is called on the first get(), and again by the next get() after one that failed; it is let go once it
  /// succeeds, unless keep_make() was called before.
  explicit Later(Make make) : state_(std::make_shared<State>()) { state_->make = std::move(make); }

  /// A value that is there already.
  static Later of(T value) {
    Later later;
    later.ready_ = std::move(value);
    return later;
  }

  /// The value, made if need be. A failure goes to everybody who waited for that try, and is not kept. What was made by
  /// a thread whose work was cancelled meanwhile is not kept either; then one of those who waited makes it.
  Result<T> get() const {
    if (ready_) return *ready_;
    State& s = *state_;
    std::unique_lock lock(s.mutex);
    if (s.value) return *s.value;
    if (s.trying) return wait_for_the_other(lock);
    const auto trying = s.trying = std::make_shared<Try>();
    const Make make = s.make;
    lock.unlock();
    Result<T> made = caught(make);
    const bool cancelled = is_cancelled();
    if (made && cancelled) made = failure(Code::unavailable, "cancelled");
    lock.lock();
    trying->cancelled = cancelled;
    if (made) {
      s.value = *made;
      if (!s.keeps_make) s.make = nullptr;
    }
    trying->result = made;
    s.trying = nullptr;
    s.ended.notify_all();
    return made;
  }

  /// Keeps `make` for forget(). Called before the first get().
  void keep_make() const {
    if (ready_) return;
    const std::scoped_lock lock(state_->mutex);
    state_->keeps_make = true;
  }

  /// Forgets the value, which the next get() makes again; callers of get() keep theirs. Without effect on a value that
  /// cannot be made again: of(), or one without keep_make().
  void forget() const {
    if (ready_) return;
    std::optional<T> forgotten;  // destroyed without the lock
    const std::scoped_lock lock(state_->mutex);
    if (state_->make) forgotten.swap(state_->value);
  }

  /// The value if it has been made; never makes it, never waits for it.
  std::optional<T> peek() const {
    if (ready_) return ready_;
    const std::scoped_lock lock(state_->mutex);
    return state_->value;
  }

 private:
  struct Try {
    bool cancelled = false;
    std::optional<Result<T>> result;  // set when it has ended
  };
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    std::shared_ptr<Try> trying;
    std::optional<T> value;
    Make make;
    bool keeps_make = false;
  };

  // An exception must not get past those who wait: it would leave them waiting for ever.
  static Result<T> caught(const Make& make) {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      return failure(Code::unavailable, "out of memory");
    } catch (const std::exception& error) {
      return failure(Code::io, error.what());
    }
  }

  Result<T> wait_for_the_other(std::unique_lock<std::mutex>& lock) const {
    const auto trying = state_->trying;
    state_->ended.wait(lock, [&] { return trying->result.has_value(); });
    if (!trying->cancelled) return *trying->result;
    lock.unlock();
    return get();
  }

  Later() = default;

  std::optional<T> ready_;  // of(): such a value takes no more than itself
  std::shared_ptr<State> state_;
};

}  // namespace weightfs
