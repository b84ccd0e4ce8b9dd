#include "cache/download/mirror_scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "base/text.h"

namespace weightfs::download {

bool interruptible_sleep(std::chrono::milliseconds time, const std::stop_token& stop) {
  const auto until = MirrorScheduler::Clock::now() + time;
  for (;;) {
    if (stop.stop_requested() || is_cancelled()) return false;
    const auto left = until - MirrorScheduler::Clock::now();
    if (left.count() <= 0) return true;
    std::this_thread::sleep_for(std::min<MirrorScheduler::Clock::duration>(left, kCancelCheck));
  }
}

Result<std::chrono::milliseconds> Backoff::pause(const Error& error, std::optional<std::chrono::milliseconds> requested,
                                                 Attempt attempt) {
  constexpr std::chrono::milliseconds kMaxPause{5000};  // the network is noticed when it is back
  const auto now = Clock::now();
  if (attempts_ == 0) since_ = now;
  const auto left = http_.patience() - std::chrono::duration_cast<std::chrono::milliseconds>(now - since_);
  const bool is_waited_for = policy_.waits_for_network && is_about_the_network(error) && left.count() > 0;
  const bool is_counted = attempt == Attempt::sent || std::exchange(was_deferred_, true);
  is_outage_ = is_counted && attempts_ >= policy_.retries;
  if (is_outage_ && !is_waited_for) return tl::unexpected(error);
  if (requested && *requested > std::max(policy_.max_delay, is_waited_for ? left : policy_.max_delay)) {
    if (attempt == Attempt::sent)
      return failure(error.code, fmt::format("{}, retry after {} s", error.message, requested->count() / 1000));
    // Without the seconds that are left: a log has each line once.
    return failure(error.code, error.message + "; no request is sent before the server's Retry-After");
  }
  const auto most = std::min(policy_.first_delay * (int64_t{1} << std::min(attempts_, 20)),
                             is_waited_for ? std::min(policy_.max_delay, kMaxPause) : policy_.max_delay);
  std::uniform_int_distribution<int64_t> jitter(0, most.count());
  std::random_device random;
  if (is_counted) ++attempts_;
  // A server that requests no delay gets the usual one.
  const std::chrono::milliseconds usual(jitter(random));
  return requested ? std::max(*requested, usual) : usual;
}

bool Backoff::wait(const Error& error, std::chrono::milliseconds time, const std::stop_token& stop) const {
  const http::Client::Wait waiting(http_, error, time, is_outage_);
  return interruptible_sleep(time, stop);
}

MirrorScheduler::MirrorScheduler(size_t count, const RetryPolicy& policy, http::Client& http, size_t first)
    : mirrors_(count, Mirror{Backoff(policy, http)}) {
  for (size_t i = 0; i < count; ++i)
    if (i != first) mirrors_[i].at += std::chrono::nanoseconds(1);
}

std::optional<size_t> MirrorScheduler::next(const std::stop_token& stop, Clock::time_point until) {
  const auto first = std::ranges::min_element(mirrors_, {}, &Mirror::at);
  const auto now = Clock::now();
  if (first == mirrors_.end() || stop.stop_requested() || now >= until || first->at >= until) return std::nullopt;
  const auto remaining = std::chrono::ceil<std::chrono::milliseconds>(std::max(first->at, now) - now);
  const bool is_retry = first->error.has_value();
  if (is_retry ? !first->backoff.wait(*first->error, remaining, stop) : stop.stop_requested() || is_cancelled())
    return std::nullopt;
  return static_cast<size_t>(first - mirrors_.begin());
}

std::optional<Error> MirrorScheduler::failed(size_t origin, const Outcome& outcome) {
  Mirror& mirror = mirrors_[origin];
  mirror.at = kNever;
  mirror.error = outcome.error;
  if (outcome.next != Outcome::Next::retry_later) return std::nullopt;
  const auto attempt = outcome.is_deferred ? Backoff::Attempt::deferred : Backoff::Attempt::sent;
  const auto pause = mirror.backoff.pause(outcome.error, outcome.retry_after, attempt);
  if (!pause) return mirror.error = pause.error();
  mirror.at = Clock::now() + *pause;
  return std::nullopt;
}

std::vector<Error> MirrorScheduler::errors() const {
  std::vector<Error> errors;
  for (const Mirror& mirror : mirrors_)
    if (mirror.error) errors.push_back(*mirror.error);
  return errors;
}

Error combined_error(const std::string& name, const std::vector<Error>& errors) {
  constexpr size_t kMaxShown = 8;
  // A mirror may lack the file: the others decide.
  const auto every = [&](Code code) {
    return std::all_of(errors.begin(), errors.end(),
                       [&](const Error& error) { return error.code == code || error.code == Code::not_found; });
  };
  const auto any = [&](Code code) {
    return std::any_of(errors.begin(), errors.end(), [&](const Error& error) { return error.code == code; });
  };
  if (errors.empty()) return {Code::network, fmt::format("{}: no URL to download it from", name)};
  std::string text = name;
  for (size_t i = 0; i < std::min(errors.size(), kMaxShown); ++i)
    text += fmt::format("{}{}", i > 0 ? "; " : name.empty() ? "" : ": ", errors[i].message);
  if (errors.size() > kMaxShown) text += fmt::format("; and {} more", errors.size() - kMaxShown);
  if (std::ranges::all_of(errors, is_timeout))
    return timeout(text, every(Code::unreachable) ? Code::unreachable : Code::network);
  for (const Code code : {Code::not_found, Code::forbidden, Code::unsupported, Code::unreachable})
    if (every(code)) return {code, text};
  const bool wrong = any(Code::corrupt) && !any(Code::network) && !any(Code::unreachable) && !any(Code::resource);
  return {wrong ? Code::corrupt : Code::network, text};
}

}  // namespace weightfs::download
