#include "cache/download/mirror_scheduler.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr std::chrono::milliseconds kMoment{20};

}  // namespace

bool rest(std::chrono::milliseconds time, const std::atomic<bool>& stop) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (!stop) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kMoment));
  }
  return false;
}

Result<std::chrono::milliseconds> Backoff::pause(const Error& error, std::optional<std::chrono::milliseconds> wanted) {
  if (tries_ >= patience_.retries) return tl::unexpected(error);
  if (wanted && *wanted > patience_.longest_pause)
    return failure(error.code, str(error.message, ", to be asked again in ", wanted->count() / 1000, " s"));
  const auto most = std::min(patience_.first_pause * (int64_t{1} << std::min(tries_, 20)), patience_.longest_pause);
  std::uniform_int_distribution<int64_t> jitter(0, most.count());
  std::random_device random;
  ++tries_;
  return wanted.value_or(std::chrono::milliseconds(jitter(random)));
}

Turns::Turns(size_t count, const Patience& patience) : turns_(count, Turn{Backoff(patience)}) {}

std::optional<size_t> Turns::next(const std::atomic<bool>& stop, Clock::time_point until) {
  const auto before = [](const Turn& a, const Turn& b) { return a.over == b.over ? a.at < b.at : !a.over; };
  const auto first = std::min_element(turns_.begin(), turns_.end(), before);
  const auto now = Clock::now();
  if (first == turns_.end() || first->over || stop || now >= until || first->at >= until) return std::nullopt;
  const auto left = std::max(first->at, now) - now;
  if (!rest(std::chrono::ceil<std::chrono::milliseconds>(left), stop)) return std::nullopt;
  return static_cast<size_t>(first - turns_.begin());
}

void Turns::later(size_t origin, const Outcome& outcome) {
  Turn& turn = turns_[origin];
  const auto pause = turn.backoff.pause(outcome.error, outcome.pause);
  if (!pause) return give_up(origin, pause.error());
  turn.at = Clock::now() + *pause;
  turn.error = outcome.error;
}

void Turns::give_up(size_t origin, Error error) {
  turns_[origin].over = true;
  turns_[origin].error = std::move(error);
}

std::vector<Error> Turns::errors() const {
  std::vector<Error> errors;
  for (const Turn& turn : turns_)
    if (turn.error) errors.push_back(*turn.error);
  return errors;
}

Error all_of(const std::string& name, const std::vector<Error>& errors) {
  constexpr size_t kMostShown = 8;
  const auto all = [&](Code code) {
    return std::all_of(errors.begin(), errors.end(), [&](const Error& error) { return error.code == code; });
  };
  const auto any = [&](Code code) {
    return std::any_of(errors.begin(), errors.end(), [&](const Error& error) { return error.code == code; });
  };
  if (errors.empty()) return {Code::network, str(name, ": there is nowhere to fetch it from")};
  std::string text = name;
  for (size_t i = 0; i < std::min(errors.size(), kMostShown); ++i) text += str(i == 0 ? ": " : "; ", errors[i].message);
  if (errors.size() > kMostShown) text += str("; and ", errors.size() - kMostShown, " more");
  if (all(Code::not_found) || all(Code::unsupported)) return {errors[0].code, text};
  const bool wrong = any(Code::corrupt) && !any(Code::network) && !any(Code::resource);
  return {wrong ? Code::corrupt : Code::network, text};
}

}  // namespace weightfs
