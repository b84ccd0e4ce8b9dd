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
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/cancel.h"
#include "base/result.h"

namespace weightfs {

/// Copies share one value, whose type has a default constructor. Callable from any thread. `make` runs in the first
/// thread that calls get(); the others wait for it.
template <class T>
class Later {
 public:
  using Make = std::function<Result<T>()>;

  /// `make` is called by the first get(), and again after a failure. It is destroyed after it succeeded, unless
  /// keep_make() was called before.
  explicit Later(Make make) : value_(std::make_shared<State>(std::move(make))) {}

  /// An already computed value.
  static Later of(T value) { return Later(Ready{std::move(value)}); }

  /// The value, computed if necessary. A failure is returned to all threads that waited for that attempt, and is not
  /// stored. A result that was computed by a cancelled thread is not stored either; one of the waiting threads computes
  /// it again.
  Result<T> get() const {
    if (const auto* const ready = std::get_if<Ready>(&value_)) return ready->value;
    State& s = *state();
    Make used;  // destroyed without the lock
    std::unique_lock lock(mutex_);
    if (s.has_value) return s.value;
    if (s.is_trying) return wait_for_running_make(lock);
    const auto trying = tries_[&s] = std::make_shared<Try>();
    s.is_trying = true;
    const Make make = s.make;
    lock.unlock();
    Result<T> made = exceptions_to_errors(make);
    const bool cancelled = is_cancelled();
    if (made && cancelled) made = failure(Code::resource, "cancelled");
    lock.lock();
    trying->cancelled = cancelled;
    if (made) {
      s.value = *made;
      s.has_value = true;
      if (!s.keeps_make) used.swap(s.make);
    }
    trying->result = made;
    tries_.erase(&s);
    s.is_trying = false;
    trying->ended.notify_all();
    return made;
  }

  /// Keeps `make`, so that forget() works. Call it before the first get().
  void keep_make() const {
    if (state() == nullptr) return;
    const std::scoped_lock lock(mutex_);
    state()->keeps_make = true;
  }

  /// Drops the value; the next get() computes it again. Callers of get() keep their copies. No effect on a value that
  /// cannot be computed again: one from of(), or without keep_make().
  void forget() const {
    if (state() == nullptr) return;
    T forgotten{};  // destroyed without the lock
    const std::scoped_lock lock(mutex_);
    if (!state()->make) return;
    std::swap(forgotten, state()->value);
    state()->has_value = false;
  }

  /// The value if it has been computed; never computes it and never waits.
  std::optional<T> peek() const {
    if (const auto* const ready = std::get_if<Ready>(&value_)) return ready->value;
    const std::scoped_lock lock(mutex_);
    return state()->has_value ? std::optional(state()->value) : std::nullopt;
  }

 private:
  struct Try {
    std::condition_variable ended;
    bool cancelled = false;
    std::optional<Result<T>> result;  // set when it has ended
  };
  struct Ready {
    T value;
  };
  // Small: a directory of models has many.
  struct State {
    explicit State(Make first) : make(std::move(first)) {}
    Make make;
    T value{};
    bool has_value = false;
    bool is_trying = false;
    bool keeps_make = false;
  };

  State* state() const {
    const auto* const shared = std::get_if<std::shared_ptr<State>>(&value_);
    return shared == nullptr ? nullptr : shared->get();
  }

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
    const auto trying = tries_.at(state());
    trying->ended.wait(lock, [&] { return trying->result.has_value(); });
    if (!trying->cancelled) return *trying->result;
    lock.unlock();
    return get();
  }

  explicit Later(Ready ready) : value_(std::move(ready)) {}

  // Guards all States: there are many, and it is never held while a value is computed or destroyed.
  static inline std::mutex mutex_;
  // The values that are being computed: few. Guarded by mutex_. Never destroyed: a thread may compute at exit.
  static inline auto& tries_ = *new std::unordered_map<const State*, std::shared_ptr<Try>>;

  std::variant<std::shared_ptr<State>, Ready> value_;
};

}  // namespace weightfs
