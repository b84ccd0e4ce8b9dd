// What a mirror remembers of its origin: a value for each name that clients asked for, such as the commit of a branch.
// It is bounded, and so are the requests for names that do not exist. (docs/serve.md)
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/later.h"
#include "base/result.h"

namespace weightfs::mirror {

/// Why a client gets nothing: a status, a code of the protocol or nothing, and a sentence.
struct Refusal {
  int status;
  std::string code;
  std::string message;
};

template <class T>
using Found = tl::expected<T, Refusal>;

struct Rules {
  std::chrono::seconds ttl{60};  ///< of a value that may change, and of a refusal up to Lookups::kMaxRefusal
  /// Receives a line about each failure of the origin. From any thread.
  std::function<void(const std::string&)> log = {};
  /// Tests have a clock of their own.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

struct State {
  std::string value;
  std::string outage = {};  ///< why the origin did not say so now: it is the value that it said last
};

/// What is asked for a name. The functions may be called from other threads, and without a lock.
struct Question {
  std::string key;        ///< for the log, too
  bool is_final = false;  ///< the value never changes
  std::function<Result<State>()> ask = {};
  /// Whether the origin has answered with this error. Others leave open whether the value is as before.
  std::function<bool(const Error&)> is_answer = {};
  std::function<Refusal(const Error&)> refuse = {};
};

/// Callable from any thread.
class Lookups {
 public:
  static constexpr size_t kMaxKnown = 1'000;  ///< names with a value
  static constexpr size_t kMaxUnknown = 64;   ///< refusals that are remembered, and names that are being asked for
  /// Longer, refusals would keep new names from being asked for.
  static constexpr std::chrono::seconds kMaxRefusal{300};

  explicit Lookups(Rules rules) : rules_(std::move(rules)) {}

  /// The value of a name. One that may change is requested again after the TTL; while one client asks for it, and while
  /// the origin is down, the others get the one before. Refuses with 503 a name that is new while kMaxUnknown others
  /// are remembered or being asked for.
  Found<std::string> find(const Question& question);

  /// What is known besides, and a refusal that is remembered.
  void remember(const std::string& key, const State& state);
  void remember_refusal(const std::string& key, const Refusal& refusal);
  std::optional<Refusal> refusal_of(const std::string& key);

  /// Writes a line to the log, if there is one.
  void log(const std::string& line) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Known {
    std::string value;
    Clock::time_point checked;
    std::optional<Clock::time_point> answered = {};  // when the origin said so; none: to an earlier process
    uint64_t used = 0;                               // uses_ at the last use
  };
  struct Refused {
    Refusal refusal;
    Clock::time_point until;
  };
  struct Answer {
    std::string value = {};
    std::optional<Refusal> refusal = {};
  };

  Answer ask(const Question& question);

  // These need the lock. `line` is for the log, which is written without it.
  Answer take(const Question& question, Result<State> state, std::string& line);
  std::optional<Refusal> remembered(const std::string& key);
  void keep(const std::string& key, const State& state);
  void keep(const std::string& key, const Refusal& refusal);

  const Rules rules_;
  std::mutex mutex_;  // guards the rest; never held while the origin is asked, or the log is written
  uint64_t uses_ = 0;
  std::map<std::string, Known> known_;
  std::map<std::string, Refused> refused_;
  std::map<std::string, Later<Answer>> asking_;
};

/// The line of the log about an error that is no answer of the origin.
std::string line_about(const std::string& key, const Error& error);

}  // namespace weightfs::mirror
