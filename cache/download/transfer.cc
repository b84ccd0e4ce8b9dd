#include "cache/download/transfer.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "base/text.h"
#include "cache/download/range_request.h"

namespace weightfs {
namespace {

using Then = Outcome::Then;

constexpr int kMostAgain = 4;  // without progress in between
constexpr int kRegrow = 25;    // looks, after a helper failed

// "https://example.com/model.gguf "etag"", or nothing.
std::string validator_of(const std::string& url, const std::string& tag) {
  std::string text = tag.empty() ? "" : str(url, " ", tag);
  return text.size() > 1000 ? "" : text;
}

}  // namespace

// ---- the leader

Fetch::Transfer::Transfer(std::shared_ptr<Fetch> fetch, Left left, const std::atomic<bool>& stop)
    : fetch_(std::move(fetch)),
      left_(std::move(left)),
      stop_(stop),
      window_(left_.bytes, fetch_->size_, fetch_->options_.memory, fetch_->options_.idle) {
  for (size_t i = 0; i < fetch_->asked(); ++i) known_.push_back({Told{fetch_->origins_[i].url}});
}

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
      return failure(Code::resource, str(fetch_->name_, ": no thread to fetch it"));
    }
  }
  while (!stop_)
    if (auto got = window_.next(out)) return std::move(*got);
  ended_ = true;
  window_.stop();
  return failure(Code::network, str(fetch_->name_, ": cancelled"));
}

void Fetch::Transfer::lead() noexcept {
  Result<void> how;
  try {
    how = lead_through_origins();
  } catch (const std::bad_alloc&) {
    how = failure(Code::resource, "out of memory");
  } catch (const std::exception&) {
    how = failure(Code::io, "a thread or a lock failed");
  }
  window_.finish(std::move(how));
}

Result<void> Fetch::Transfer::lead_through_origins() {
  Turns turns(known_.size(), fetch_->options_);
  for (size_t i = 0; i < known_.size(); ++i)
    if (fetch_->is_rejected(i)) turns.leave_out(i);
  Mark mark{Clock::now(), window_.progress().arrived};
  while (const auto next = turns.next(ended_)) {
    turn_to(*next);
    const Outcome outcome = drain(*next, turns, mark);
    if (outcome.then == Then::go_on) return {};
    if (outcome.then == Then::later)
      turns.later(*next, outcome);
    else
      turns.give_up(*next, outcome.error);
  }
  window_.join_up();
  return tl::unexpected(all_of(fetch_->name_, turns.errors()));
}

// Until all is there, or it fails, and nothing to speak of came before.
Outcome Fetch::Transfer::drain(size_t index, Turns& turns, Mark& mark) {
  int again = 0;
  while (const Window::PiecePtr piece = window_.take_first()) {
    Outcome outcome = bring(piece, Window::Owner::leader);
    if (outcome.then == Then::go_on) continue;
    const bool progress = goes_on(mark);
    if (progress) again = 0;
    if (outcome.then == Then::again && ++again <= kMostAgain) continue;
    if (outcome.then == Then::again) outcome.then = Then::give_up;
    if (outcome.then == Then::give_up || !progress) return outcome;
    turns.went_on(index);
    if (outcome.pause) return outcome;
    Backoff once(fetch_->options_);
    const auto pause = once.pause(outcome.error, {});
    if (!pause || !rest(*pause, ended_)) return outcome;
  }
  return {};
}

// Whether so much came since the mark, pauses included, that it may well go on like that: with a byte for each try it
// would for ever.
bool Fetch::Transfer::goes_on(Mark& mark) {
  const Mark now{Clock::now(), window_.progress().arrived};
  const double seconds = std::chrono::duration<double>(now.time - mark.time).count();
  const auto arrived = static_cast<double>(now.arrived - mark.arrived);
  mark = now;
  return arrived > 0 && arrived >= seconds * static_cast<double>(fetch_->http_->options().least_speed);
}

// What the helpers of another origin have yet to bring is left to this one.
void Fetch::Transfer::turn_to(size_t index) {
  if (index != origin_) window_.join_up();
  const std::scoped_lock lock(mutex_);
  origin_ = index;
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
  return {origin_, known_[origin_].told};
}

void Fetch::Transfer::tell(size_t origin, const Told& told) {
  const uint64_t arrived = window_.progress().arrived;
  const std::scoped_lock lock(mutex_);
  if (origin != origin_) return;
  known_[origin_].told = told;
  from_ = printable_url(fetch_->origins_[origin_].url);
  tag_ = told.encoded ? "" : told.tag;
  if (running_ > 1) return;
  looked_ = Clock::now();
  next_look_ = looked_ + fetch_->options_.look;
  arrived_ = arrived;
}

void Fetch::Transfer::forget_redirect(size_t origin) {
  const std::scoped_lock lock(mutex_);
  known_[origin].told.url = fetch_->origins_[origin].url;
}

void Fetch::Transfer::be_alone(size_t origin) {
  {
    const std::scoped_lock lock(mutex_);
    known_[origin].alone = true;
    if (origin != origin_) return;
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
  const Known& known = known_[origin_];
  if (ended_ || known.alone || !known.told.ranges || now < next_look_) return;
  if (running_ >= fetch_->options_.most_connections) return;
  if (is_slow(now) && window_.split()) open_helpers();
}

void Fetch::Transfer::open_helpers() {
  const int count = std::min(running_, fetch_->options_.most_connections - running_);
  try {
    for (int i = 0; i < count; ++i) open_helper();
  } catch (const std::exception&) {  // no more threads, or no memory for one: then with those that there are
    known_[origin_].alone = true;
  }
}

void Fetch::Transfer::open_helper() {
  const auto ended =
      std::find_if(helpers_.begin(), helpers_.end(), [](const auto& lane) { return lane->ended.load(); });
  if (ended != helpers_.end()) {
    (*ended)->thread.join();
    helpers_.erase(ended);
  }
  // Before its thread begins: nothing may fail while one runs that nobody joins.
  helpers_.push_back(std::make_unique<Lane>());
  Lane* const lane = helpers_.back().get();
  try {
    lane->thread = std::thread([this, lane] {
      help();
      lane->ended = true;
    });
  } catch (...) {
    helpers_.pop_back();
    throw;
  }
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
    again = outcome.then == Then::go_on ? 0 : again + 1;
    if (outcome.then == Then::go_on || (outcome.then == Then::again && again < kMostAgain)) continue;
    // The server may have enough of us: a while with fewer connections.
    const std::scoped_lock lock(mutex_);
    next_look_ = Clock::now() + kRegrow * fetch_->options_.look;
    return;
  }
}

}  // namespace weightfs
