// A lazily computed value, the only kind of laziness in weightfs: a shard is opened, a directory parsed, metadata
// rendered or a blob fetched on first use.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/cancel.h"
#include "base/result.h"

namespace weightfs {

/// Copies share one value. Callable from any thread. `make` runs in the first thread that calls get(); the others wait
/// for it.
template <class T>
class Later {
 public:
  /// `make` is called by the first get(), and again after a failure. It is destroyed after it succeeded, unless
  /// keep_make() was called before.
  template <class Make>
  requires std::is_invocable_r_v<Result<T>, Make&> explicit Later(Make make)
      : value_(std::make_shared<State>(std::make_unique<MakerOf<Make>>(std::move(make)))) {}

  /// An already computed value.
  static Later of(T value) { return Later(Ready{std::move(value)}); }

  /// The value, computed if necessary. A failure is returned to all threads that waited for that attempt, and is not
  /// stored. A result that was computed by a cancelled thread is not stored either; one of the waiting threads computes
  /// it again.
  Result<T> get() const {
    if (const auto* const ready = std::get_if<Ready>(&value_)) return ready->value;
    State& s = *state();
    MakerPtr used;  // destroyed without the lock
    std::unique_lock lock(mutex_);
    if (const T* const value = s.value()) return *value;
    if (tries_.contains(&s)) return wait_for_running_make(lock);
    const auto trying = tries_[&s] = std::make_shared<Try>();
    Maker& maker = *s.maker();
    lock.unlock();
    Result<T> made = exceptions_to_errors([&] { return maker.make(); }, Code::io);
    const bool cancelled = is_cancelled();
    if (made && cancelled) made = failure(Code::resource, "cancelled");
    lock.lock();
    trying->cancelled = cancelled;
    if (made) used = s.set(*made);
    trying->result = made;
    tries_.erase(&s);
    trying->ended.notify_all();
    return made;
  }

  /// Keeps `make`, so that forget() works. Call it before the first get().
  void keep_make() const {
    if (state() == nullptr) return;
    const std::scoped_lock lock(mutex_);
    if (auto* const maker = std::get_if<MakerPtr>(&state()->now))
      state()->now = std::make_unique<Repeatable>(Repeatable{std::move(*maker), std::nullopt});
  }

  /// Drops the value; the next get() computes it again. Callers of get() keep their copies. No effect on a value that
  /// cannot be computed again: one from of(), or without keep_make().
  void forget() const {
    if (state() == nullptr) return;
    std::optional<T> forgotten;  // destroyed without the lock
    const std::scoped_lock lock(mutex_);
    if (auto* const repeatable = std::get_if<RepeatablePtr>(&state()->now)) std::swap(forgotten, (*repeatable)->value);
  }

  /// The value if it has been computed; never computes it and never waits.
  std::optional<T> peek() const {
    if (const auto* const ready = std::get_if<Ready>(&value_)) return ready->value;
    const std::scoped_lock lock(mutex_);
    const T* const value = state()->value();
    return value == nullptr ? std::nullopt : std::optional(*value);
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
  // A `make` of any type.
  struct Maker {
    Maker() = default;
    Maker(const Maker&) = delete;
    Maker& operator=(const Maker&) = delete;
    virtual ~Maker() = default;
    virtual Result<T> make() = 0;
  };
  template <class Make>
  struct MakerOf final : Maker {
    explicit MakerOf(Make its_function) : function(std::move(its_function)) {}
    Result<T> make() override { return function(); }
    Make function;
  };
  using MakerPtr = std::unique_ptr<Maker>;
  // After keep_make().
  struct Repeatable {
    MakerPtr maker;
    std::optional<T> value;
  };
  using RepeatablePtr = std::unique_ptr<Repeatable>;
  // Small: a directory of models has many.
  struct State {
    explicit State(MakerPtr first) : now(std::move(first)) {}

    const T* value() const {
      if (const auto* const repeatable = std::get_if<RepeatablePtr>(&now))
        return (*repeatable)->value ? &*(*repeatable)->value : nullptr;
      const auto* const made = std::get_if<Ready>(&now);
      return made == nullptr ? nullptr : &made->value;
    }
    // Null once it is not needed any more.
    Maker* maker() const {
      if (const auto* const repeatable = std::get_if<RepeatablePtr>(&now)) return (*repeatable)->maker.get();
      const auto* const first = std::get_if<MakerPtr>(&now);
      return first == nullptr ? nullptr : first->get();
    }
    // Returns the Maker if it is not needed any more.
    MakerPtr set(T value) {
      if (auto* const repeatable = std::get_if<RepeatablePtr>(&now)) {
        (*repeatable)->value = std::move(value);
        return nullptr;
      }
      MakerPtr used = std::move(std::get<MakerPtr>(now));
      now = Ready{std::move(value)};
      return used;
    }

    std::variant<MakerPtr, Ready, RepeatablePtr> now;
  };

  State* state() const {
    const auto* const shared = std::get_if<std::shared_ptr<State>>(&value_);
    return shared == nullptr ? nullptr : shared->get();
  }

  // A waiting thread that is cancelled ends, while the one that computes may wait for a network.
  Result<T> wait_for_running_make(std::unique_lock<std::mutex>& lock) const {
    const auto trying = tries_.at(state());
    while (!trying->ended.wait_for(lock, kCancelCheck, [&] { return trying->result.has_value(); }))
      if (is_cancelled()) return failure(Code::resource, "cancelled");
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
