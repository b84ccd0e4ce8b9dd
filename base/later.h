// A lazily computed value, the only kind of laziness in weightfs: a shard is opened, a directory parsed, metadata
// rendered or a blob fetched on first use.
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

/// Copies share one value. Callable from any thread. `make` runs in the first thread that calls get(); the others wait
/// for it.
template <class T>
class Later {
 public:
  using Make = std::function<Result<T>()>;

  /// `make` is called by the first get(), and again after a failure. It is destroyed after it succeeded, unless
  /// keep_make() was called before.
  explicit Later(Make make) : state_(std::make_shared<State>()) { state_->make = std::move(make); }

  /// An already computed value.
  static Later of(T value) {
    Later later;
    later.ready_ = std::move(value);
    return later;
  }

  /// The value, computed if necessary. A failure is returned to all threads that waited for that attempt, and is not
  /// stored. A result that was computed by a cancelled thread is not stored either; one of the waiting threads computes
  /// it again.
  Result<T> get() const {
    if (ready_) return *ready_;
    State& s = *state_;
    Make used;  // destroyed without the lock
    std::unique_lock lock(mutex_);
    if (s.value) return *s.value;
    if (s.trying) return wait_for_running_make(lock);
    const auto trying = s.trying = std::make_shared<Try>();
    const Make make = s.make;
    lock.unlock();
    Result<T> made = exceptions_to_errors(make);
    const bool cancelled = is_cancelled();
    if (made && cancelled) made = failure(Code::resource, "cancelled");
    lock.lock();
    trying->cancelled = cancelled;
    if (made) {
      s.value = *made;
      if (!s.keeps_make) used.swap(s.make);
    }
    trying->result = made;
    s.trying = nullptr;
    trying->ended.notify_all();
    return made;
  }

  /// Keeps `make`, so that forget() works. Call it before the first get().
  void keep_make() const {
    if (ready_) return;
    const std::scoped_lock lock(mutex_);
    state_->keeps_make = true;
  }

  /// Drops the value; the next get() computes it again. Callers of get() keep their copies. No effect on a value that
  /// cannot be computed again: one from of(), or without keep_make().
  void forget() const {
    if (ready_) return;
    std::optional<T> forgotten;  // destroyed without the lock
    const std::scoped_lock lock(mutex_);
    if (state_->make) forgotten.swap(state_->value);
  }

  /// The value if it has been computed; never computes it and never waits.
  std::optional<T> peek() const {
    if (ready_) return ready_;
    const std::scoped_lock lock(mutex_);
    return state_->value;
  }

 private:
  struct Try {
    std::condition_variable ended;
    bool cancelled = false;
    std::optional<Result<T>> result;  // set when it has ended
  };
  struct State {
    std::shared_ptr<Try> trying;
    std::optional<T> value;
    Make make;
    bool keeps_make = false;
  };

  // An uncaught exception would leave the other threads waiting forever.
  static Result<T> exceptions_to_errors(const Make& make) {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      return failure(Code::resource, "out of memory");
    } catch (const std::exception& error) {
      return failure(Code::io, error.what());
    }
  }

  Result<T> wait_for_running_make(std::unique_lock<std::mutex>& lock) const {
    const auto trying = state_->trying;
    trying->ended.wait(lock, [&] { return trying->result.has_value(); });
    if (!trying->cancelled) return *trying->result;
    lock.unlock();
    return get();
  }

  Later() = default;

  // Guards all States: there are many, and it is never held while a value is computed or destroyed.
  static inline std::mutex mutex_;

  std::optional<T> ready_;  // set by of(), which needs no State
  std::shared_ptr<State> state_;
};

}  // namespace weightfs
