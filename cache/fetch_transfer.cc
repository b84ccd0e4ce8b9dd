#include "cache/fetch_transfer.h"

#include <algorithm>
#include <new>
#include <random>
#include <system_error>

#include "base/text.h"
#include "cache/fetch_asking.h"

namespace weightfs {
namespace {

using Then = Outcome::Then;

constexpr int kMostAgain = 4;  // without a byte in between
constexpr int kRegrow = 25;    // looks, after a helper failed
constexpr std::chrono::milliseconds kMoment{20};

// "https://example.com/model.gguf "etag"", or nothing.
std::string validator_of(const std::string& url, const std::string& tag) {
  std::string text = tag.empty() ? "" : str(url, " ", tag);
  return text.size() > 1000 ? "" : text;
}

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

Result<void> Backoff::wait(const Outcome& outcome, const std::atomic<bool>& stop) {
  if (tries_ >= options_.retries) return tl::unexpected(outcome.error);
  if (outcome.pause && *outcome.pause > options_.longest_pause)
    return failure(outcome.error.code,
                   str(outcome.error.message, ", to be asked again in ", outcome.pause->count() / 1000, " s"));
  const auto most = std::min(options_.first_pause * (int64_t{1} << std::min(tries_, 20)), options_.longest_pause);
  std::uniform_int_distribution<int64_t> jitter(0, most.count());
  std::random_device random;
  ++tries_;
  if (!rest(outcome.pause.value_or(std::chrono::milliseconds(jitter(random))), stop))
    return failure(Code::unreachable, "cancelled");
  return {};
}

Error all_of(const std::string& name, const std::vector<Error>& errors) {
  constexpr size_t kMostShown = 8;
  const auto all = [&](Code code) {
    return std::all_of(errors.begin(), errors.end(), [&](const Error& error) { return error.code == code; });
  };
  const auto any = [&](Code code) {
    return std::any_of(errors.begin(), errors.end(), [&](const Error& error) { return error.code == code; });
  };
  if (errors.empty()) return {Code::unreachable, str(name, ": there is nowhere to fetch it from")};
  std::string text = name;
  for (size_t i = 0; i < std::min(errors.size(), kMostShown); ++i) text += str(i == 0 ? ": " : "; ", errors[i].message);
  if (errors.size() > kMostShown) text += str("; and ", errors.size() - kMostShown, " more");
  if (all(Code::not_found) || all(Code::unsupported)) return {errors[0].code, text};
  const bool wrong = any(Code::corrupt) && !any(Code::unreachable) && !any(Code::unavailable);
  return {wrong ? Code::corrupt : Code::unreachable, text};
}

// ---- the leader

Fetch::Transfer::Transfer(std::shared_ptr<Fetch> fetch, Left left, const std::atomic<bool>& stop)
    : fetch_(std::move(fetch)), left_(std::move(left)), stop_(stop), window_(left_.bytes, fetch_->size_) {}

Fetch::Transfer::~Transfer() {
  {
    const std::scoped_lock lock(mutex_);  // from now on no helper begins
    ended_ = true;
  }
  window_.stop();
  if (leader_.joinable()) leader_.join();
  for (const auto& helper : helpers_) helper->thread.join();
}

Result<size_t> Fetch::Transfer::next(std::span<std::byte> out) {
  if (!leader_.joinable()) {
    try {
      leader_ = std::thread([this] { lead(); });
    } catch (const std::system_error&) {
      return failure(Code::unavailable, str(fetch_->name_, ": no thread to fetch it"));
    }
  }
  while (!stop_)
    if (auto got = window_.next(out)) return std::move(*got);
  ended_ = true;
  window_.stop();
  return failure(Code::unreachable, str(fetch_->name_, ": cancelled"));
}

void Fetch::Transfer::lead() noexcept {
  Result<void> how;
  try {
    how = lead_through_origins();
  } catch (const std::bad_alloc&) {
    how = failure(Code::unavailable, "out of memory");
  } catch (const std::exception&) {
    how = failure(Code::io, "a thread or a lock failed");
  }
  window_.finish(std::move(how));
}

Result<void> Fetch::Transfer::lead_through_origins() {
  std::vector<Error> errors;
  for (size_t i = 0; i < fetch_->origins_.size() && !ended_; ++i) {
    if (fetch_->is_rejected(i)) continue;
    auto drained = drain(i);
    if (drained) return {};
    errors.push_back(std::move(drained).error());
    be_alone(i);
  }
  return tl::unexpected(all_of(fetch_->name_, errors));
}

// Until all is there.
Result<void> Fetch::Transfer::drain(size_t index) {
  begin_origin(index);
  Backoff backoff(fetch_->options_);
  int again = 0;
  while (const Window::PiecePtr piece = window_.take_first()) {
    const Outcome outcome = bring(piece, Window::Owner::leader);
    if (outcome.gave > 0) {
      backoff.reset();
      again = 0;
    }
    if (outcome.then == Then::later) TRY_VOID(backoff.wait(outcome, ended_));
    if (outcome.then == Then::give_up || (outcome.then == Then::again && ++again > kMostAgain))
      return tl::unexpected(outcome.error);
  }
  return {};
}

void Fetch::Transfer::begin_origin(size_t index) {
  const std::scoped_lock lock(mutex_);
  origin_ = index;
  told_ = Told{fetch_->origins_[index].url};
  alone_ = false;
  looked_ = Clock::now();
  next_look_ = looked_ + fetch_->options_.look;
}

// ---- what all connections share

// The piece is given back whatever happens: somebody may wait for it.
Outcome Fetch::Transfer::bring(const Window::PiecePtr& piece, Window::Owner who) {
  struct Held {
    Window& window;
    const Window::PiecePtr& piece;
    ~Held() { window.give_back(piece); }
  };
  const Held held{window_, piece};
  return Asking(*this, *piece, who).ask();
}

std::pair<size_t, Told> Fetch::Transfer::told() const {
  const std::scoped_lock lock(mutex_);
  return {origin_, told_};
}

void Fetch::Transfer::tell(size_t origin, const Told& told) {
  const uint64_t arrived = window_.progress().arrived;
  const std::scoped_lock lock(mutex_);
  if (origin != origin_) return;
  told_ = told;
  from_ = printable_url(fetch_->origins_[origin_].url);
  tag_ = told.encoded ? "" : told.tag;
  if (running_ > 1) return;
  looked_ = Clock::now();
  next_look_ = looked_ + fetch_->options_.look;
  arrived_ = arrived;
}

void Fetch::Transfer::forget_redirect(size_t origin) {
  const std::scoped_lock lock(mutex_);
  if (origin == origin_) told_.url = fetch_->origins_[origin_].url;
}

void Fetch::Transfer::be_alone(size_t origin) {
  {
    const std::scoped_lock lock(mutex_);
    if (origin != origin_) return;
    alone_ = true;
  }
  window_.join_up();
}

std::string Fetch::Transfer::validator() const {
  const std::scoped_lock lock(mutex_);
  return validator_of(from_, tag_);
}

std::string Fetch::Transfer::source() const {
  const std::scoped_lock lock(mutex_);
  return from_;
}

// ---- helpers

// Whether, at the rate since the last look, the rest takes more than a second, and not for want of a taker.
bool Fetch::Transfer::is_slow(Clock::time_point now) {
  const Window::Progress progress = window_.progress();
  const auto seconds = std::chrono::duration<double>(now - looked_).count();
  const auto arrived = static_cast<double>(progress.arrived - arrived_);
  looked_ = now;
  next_look_ = now + fetch_->options_.look;
  arrived_ = progress.arrived;
  if (progress.left == Window::kUnknown || progress.ready > Window::kAhead / 2) return false;
  return static_cast<double>(progress.left) * seconds > arrived;
}

void Fetch::Transfer::look() {
  const auto now = Clock::now();
  const std::scoped_lock lock(mutex_);
  if (ended_ || alone_ || !told_.ranges || now < next_look_ || running_ >= fetch_->options_.most_connections) return;
  if (is_slow(now) && window_.split()) open_helpers();
}

void Fetch::Transfer::open_helpers() {
  const int count = std::min(running_, fetch_->options_.most_connections - running_);
  try {
    for (int i = 0; i < count; ++i) open_helper();
  } catch (const std::system_error&) {  // no more threads: then with those that there are
    alone_ = true;
  }
}

void Fetch::Transfer::open_helper() {
  const auto ended =
      std::find_if(helpers_.begin(), helpers_.end(), [](const auto& lane) { return lane->ended.load(); });
  if (ended != helpers_.end()) {
    (*ended)->thread.join();
    helpers_.erase(ended);
  }
  auto lane = std::make_unique<Lane>();
  lane->thread = std::thread([this, lane = lane.get()] {
    help();
    lane->ended = true;
  });
  helpers_.push_back(std::move(lane));
  ++running_;
}

void Fetch::Transfer::help() noexcept {
  try {
    help_along();
  } catch (const std::exception&) {  // the leader brings what is missing
  }
  const std::scoped_lock lock(mutex_);
  --running_;
}

void Fetch::Transfer::help_along() {
  int again = 0;
  while (const Window::PiecePtr piece = window_.take_chunk()) {
    const Outcome outcome = bring(piece, Window::Owner::helper);
    if (outcome.gave > 0) again = 0;
    if (outcome.then == Then::go_on) continue;
    if (outcome.then == Then::again && ++again < kMostAgain) continue;
    // The server may have enough of us: a while with fewer connections.
    const std::scoped_lock lock(mutex_);
    next_look_ = Clock::now() + kRegrow * fetch_->options_.look;
    return;
  }
}

}  // namespace weightfs
