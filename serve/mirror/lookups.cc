#include "serve/mirror/lookups.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace weightfs::mirror {

std::string line_about(const std::string& key, const Error& error) {
  return fmt::format("{}: {}", printable(key), error.message);
}

void Lookups::log(const std::string& line) const {
  if (rules_.log && !line.empty()) rules_.log(line);
}

Found<std::string> Lookups::find(const Question& question) {
  const std::string& key = question.key;
  std::optional<Later<Answer>> asked;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = known_.find(key);
    const auto running = asking_.find(key);
    if (known != known_.end()) {
      known->second.used = ++uses_;
      const bool is_current = question.is_final || rules_.now() < known->second.checked + rules_.ttl;
      if (is_current || running != asking_.end()) return known->second.value;
    } else if (auto refusal = remembered(key)) {
      return tl::unexpected(std::move(*refusal));
    }
    if (running != asking_.end()) {
      asked = running->second;
    } else {
      if (known == known_.end() && refused_.size() + asking_.size() >= kMaxUnknown)
        return tl::unexpected(Refusal{503, "", "too many unknown names were asked for; try again later"});
      asked.emplace([this, question]() -> Result<Answer> { return ask(question); });
      asking_.emplace(key, *asked);
    }
  }
  const auto answer = asked->get();
  if (!answer) {
    log(line_about(key, answer.error()));
    return tl::unexpected(question.refuse(answer.error()));
  }
  if (answer->refusal) return tl::unexpected(*answer->refusal);
  return answer->value;
}

Lookups::Answer Lookups::ask(const Question& question) {
  auto state = exceptions_to_errors([&] { return question.ask(); });
  std::string line;
  Answer answer;
  {
    const std::scoped_lock lock(mutex_);
    answer = take(question, std::move(state), line);
  }
  log(line);
  return answer;
}

Lookups::Answer Lookups::take(const Question& question, Result<State> state, std::string& line) {
  const std::string& key = question.key;
  asking_.erase(key);
  const auto before = known_.find(key);
  const bool is_answer = state || question.is_answer(state.error());
  if (!is_answer && before != known_.end()) state = State{before->second.value, state.error().message};
  if (!state) {
    if (!is_answer) line = line_about(key, state.error());
    Answer refused{.refusal = question.refuse(state.error())};
    known_.erase(key);
    keep(key, *refused.refusal);
    return refused;
  }
  if (!state->outage.empty()) {
    const auto since = before == known_.end() ? std::nullopt : before->second.answered;
    const std::string age =
        since ? fmt::format("{} s ago", std::chrono::duration_cast<std::chrono::seconds>(rules_.now() - *since).count())
              : "to an earlier process";
    line =
        fmt::format("{}: serving {}, which the origin sent {}: {}", printable(key), state->value, age, state->outage);
  }
  keep(key, *state);
  return {.value = state->value};
}

void Lookups::remember(const std::string& key, const State& state) {
  const std::scoped_lock lock(mutex_);
  keep(key, state);
}

void Lookups::remember_refusal(const std::string& key, const Refusal& refusal) {
  const std::scoped_lock lock(mutex_);
  keep(key, refusal);
}

std::optional<Refusal> Lookups::refusal_of(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  return remembered(key);
}

std::optional<Refusal> Lookups::remembered(const std::string& key) {
  std::erase_if(refused_, [now = rules_.now()](const auto& each) { return each.second.until <= now; });
  const auto found = refused_.find(key);
  return found == refused_.end() ? std::nullopt : std::optional(found->second.refusal);
}

// What may pass is asked for again when clients are told to repeat their requests.
void Lookups::keep(const std::string& key, const Refusal& refusal) {
  constexpr std::chrono::seconds kRetry{10};
  const auto time = std::min(rules_.ttl, refusal.status >= 500 ? kRetry : kMaxRefusal);
  refused_.insert_or_assign(key, Refused{refusal, rules_.now() + time});
}

void Lookups::keep(const std::string& key, const State& state) {
  const auto now = rules_.now();
  Known& known = known_[key];
  known.value = state.value;
  known.checked = now;
  known.used = ++uses_;
  if (state.outage.empty()) {
    known.answered = now;
    refused_.erase(key);  // it may have been found by another name
  }
  if (known_.size() <= kMaxKnown) return;
  known_.erase(std::ranges::min_element(known_, {}, [](const auto& each) { return each.second.used; }));
}

}  // namespace weightfs::mirror
