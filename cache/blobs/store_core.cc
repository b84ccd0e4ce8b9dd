#include "cache/blobs/store.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/paths.h"

namespace weightfs {
namespace {

// So many decode at once, and so many are begun for readers. Each takes two threads, 2 MiB and its decoder.
constexpr int kMostFillings = 4;

// So many are fetched at once, each from one server with several connections. They wait a lot: one that hangs must not
// keep another waiting.
constexpr int kMostFetches = 16;
constexpr int kMostStalled = 256;  // those that bring nothing counted too: each takes three threads

constexpr size_t kMostFailures = 10'000;

// After so many downloads that ended without telling a size, no other is begun from that server to learn one.
constexpr size_t kMostUnsized = 2;

// Who waits for a place looks so often whether one became idle.
constexpr std::chrono::milliseconds kLook{20};

// Whether nothing was decoded for too long, as one sees who looks often.
class Standstill {
 public:
  explicit Standstill(const Permits& permits) : permits_(permits), steps_(permits.steps()) {}
  bool is_there() {
    const auto now = std::chrono::steady_clock::now();
    const uint64_t steps = permits_.steps();
    if (steps != steps_) since_ = now;
    steps_ = steps;
    return now - since_ > Permits::kStandstill;
  }

 private:
  const Permits& permits_;
  uint64_t steps_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace

Store::Store(ShelfPtr shelf, Log log, Fetching fetching, std::vector<std::string> blob_directories)
    : fetching_(std::move(fetching)),
      elsewhere_(std::move(blob_directories)),
      shelf_(std::move(shelf)),
      log_(std::move(log)),
      own_(random_hex(16)),
      permits_(kMostFillings) {}

// Bytes are served before they are proved, so a making is shared only by those whose recipes make and promise the same:
// what a container says the digest of its bytes is must not put them before readers of another.
Name Store::name_of(const Recipe& recipe) {
  const std::string promised =
      str(recipe.size ? str(*recipe.size) : "", " ", recipe.digest ? recipe.digest->hex() : "");
  if (!recipe.key.empty()) return {"key-" + sha256(str(promised, " ", recipe.key)).hex(), recipe.key, recipe.digest};
  if (recipe.digest) return {"digest-" + sha256(promised).hex(), "", recipe.digest};
  const std::scoped_lock lock(mutex_);
  return {str("own-", own_, "-", names_++), "", {}};
}

Name Store::name_of(const Digest& digest, std::optional<uint64_t> size) {
  const std::string promised = str("fetched ", size ? str(*size) : "", " ", digest.hex());
  return {"digest-" + sha256(promised).hex(), "", digest, true};
}

Store::FillingPtr Store::running(const Name& name) {
  const std::scoped_lock lock(mutex_);
  return find(name);
}

// One that ended is none, whether its thread got to saying so or not.
Store::FillingPtr Store::find(const Name& name) {
  const auto running = std::find_if(running_.begin(), running_.end(),
                                    [&](const Running& r) { return r.filling->name().text == name.text; });
  if (running == running_.end()) return nullptr;
  const FillingPtr filling = running->filling;
  if (!filling->has_ended()) {
    running_.splice(running_.end(), running_, running);
    return filling;
  }
  leave(running);
  return nullptr;
}

std::shared_ptr<const void> Store::hold(const Name& name) {
  change_holders(name.text, 1);
  return {static_cast<const void*>(this),
          [self = shared_from_this(), text = name.text](const void*) { self->change_holders(text, -1); }};
}

void Store::change_holders(const std::string& name, int by) {
  const std::scoped_lock lock(mutex_);
  const auto held = holders_.try_emplace(name, 0).first;
  const size_t holders = by > 0 ? ++held->second : --held->second;
  if (holders == 0) holders_.erase(held);
  for (const Running& running : running_)
    if (running.filling->name().text == name) running.filling->set_holders(holders);
}

// Ends with what there is to learn from it: whether its bytes are to be trusted the next time.
void Store::leave(Runnings::iterator running) noexcept {
  leaving_.splice(leaving_.end(), running_, running);
  const Filling& filling = *running->filling;
  const auto phase = filling.phase();
  if (phase == Filling::Phase::finished) distrusted_.erase(filling.name().text);
  try {
    if (running->kind == Kind::fetching) account_.ended(filling);
    if (phase == Filling::Phase::failed && is_about_the_bytes(filling.error())) remember_failure(*running);
  } catch (const std::exception&) {  // no memory to remember it in: it fails again
  }
}

void Store::remember_failure(const Running& running) {
  const Name& name = running.filling->name();
  if (running.kind == Kind::fetching || name.key.empty()) {
    distrusted_.insert(name.text);
    return;
  }
  if (failures_.size() == kMostFailures) failures_.clear();
  failures_.emplace(name.text, running.filling->error());
}

Result<Store::FillingPtr> Store::filling(const Recipe& recipe, const Name& name, const FetchPtr& fetch) {
  try {
    return find_or_begin(recipe, name, fetch);
  } catch (const std::bad_alloc&) {
    return failure(Code::unavailable, "out of memory");
  } catch (const std::exception& error) {
    return failure(Code::unavailable, error.what());
  }
}

// Who makes a blob and needs another for it does not wait for a place: whoever has one may be waiting for him. The four
// at most that others began each need one at a time.
Result<Store::FillingPtr> Store::find_or_begin(const Recipe& recipe, const Name& name, const FetchPtr& fetch) {
  const Kind kind = fetch != nullptr ? Kind::fetching : Filling::is_making() ? Kind::nested : Kind::decoding;
  std::unique_lock lock(mutex_);
  Queue& queue = queues_[static_cast<size_t>(kind)];
  const auto turn = queue.insert(queue.end(), std::this_thread::get_id());
  const auto leave_queue = [&](void*) {
    queue.erase(turn);
    changed_.notify_all();
  };
  const std::unique_ptr<void, decltype(leave_queue)> queued(this, leave_queue);
  Standstill standstill(permits_);
  for (;;) {
    if (stopped_) return failure(Code::unavailable, "the store is closed");
    if (auto filling = find(name)) return filling;
    if (is_cancelled()) return failure(Code::unavailable, "cancelled while it was being made");
    const bool waits_long = kind == Kind::decoding && standstill.is_there();
    const bool is_next = kind == Kind::nested || turn == queue.begin();
    if (is_next && (make_place(kind) || kind == Kind::nested || waits_long)) return begin(recipe, name, fetch, kind);
    changed_.wait_for(lock, kLook);
  }
}

bool Store::make_place(Kind kind) {
  reap();
  for (auto running = running_.begin(); running != running_.end();)
    if (const auto here = running++; here->filling->has_ended()) leave(here);
  const auto counts = [&](const Running& r) { return r.kind == kind; };
  const auto takes = [&](const Running& r) { return counts(r) && !r.filling->is_stalled(); };
  const int most = kind == Kind::fetching ? kMostFetches : kMostFillings;
  if (std::count_if(running_.begin(), running_.end(), takes) < most &&
      std::count_if(running_.begin(), running_.end(), counts) < kMostStalled)
    return true;
  const auto idle = std::find_if(running_.begin(), running_.end(),
                                 [&](const Running& r) { return counts(r) && r.filling->cancel_if_idle(); });
  if (idle == running_.end()) return false;
  leave(idle);
  return true;
}

Store::FillingPtr Store::begin(const Recipe& recipe, const Name& name, const FetchPtr& fetch, Kind kind) {
  const bool fetched = kind == Kind::fetching;
  const bool shared_by_promise = fetched ? !fetching_.stream : name.digest && name.key.empty();
  const auto serve =
      shared_by_promise || distrusted_.contains(name.text) ? Filling::Serve::nothing : Filling::Serve::what_is_there;
  auto filling = std::make_shared<Filling>(recipe, fetch, name, shelf_, serve, permits_);
  if (const auto held = holders_.find(name.text); held != holders_.end()) filling->set_holders(held->second);
  Running& place = running_.emplace_back(Running{filling, kind, {}});
  try {
    place.thread = std::thread([self = shared_from_this(), filling] { self->run(filling); });
  } catch (const std::exception&) {
    running_.pop_back();
    throw;
  }
  return filling;
}

void Store::run(const FillingPtr& filling) noexcept {
  filling->run();
  const std::scoped_lock lock(mutex_);
  const auto is_this = [&](const Running& r) { return r.filling == filling; };
  const auto running = std::find_if(running_.begin(), running_.end(), is_this);
  if (running != running_.end()) leave(running);
  const auto leaving = std::find_if(leaving_.begin(), leaving_.end(), is_this);
  if (leaving != leaving_.end()) {
    leaving->over = true;
    leaving->filling = nullptr;  // and with it the file that it has open
  }
  changed_.notify_all();
}

void Store::reap() {
  leaving_.remove_if([](Running& r) {
    if (r.over && r.thread.joinable()) r.thread.join();
    return r.over;
  });
}

// The last owner of the blobs may be what one of them is made from, and so let go in that one's thread: it does not
// wait for itself.
void Store::stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  for (const Running& running : running_) running.filling->cancel();
  leaving_.splice(leaving_.end(), running_);
  for (Running& r : leaving_) {
    if (r.thread.get_id() != std::this_thread::get_id()) continue;
    r.thread.detach();
    r.over = true;
  }
  changed_.notify_all();
  changed_.wait(lock,
                [&] { return std::all_of(leaving_.begin(), leaving_.end(), [](const Running& r) { return r.over; }); });
  reap();
}

void Store::give_up() {
  gave_up_ = true;
  shelf_->stop();
  stop();
}

Result<void> Store::go_on() const {
  if (gave_up_) return failure(Code::unavailable, "the mount is ending");
  return {};
}

bool Store::is_distrusted(const Name& name) {
  const std::scoped_lock lock(mutex_);
  return distrusted_.contains(name.text);
}

std::optional<Error> Store::known_failure(const Name& name) {
  const std::scoped_lock lock(mutex_);
  const auto known = failures_.find(name.text);
  return known == failures_.end() ? std::nullopt : std::optional(known->second);
}

bool Store::is_too_large_for_size(const Name& name, const std::string& server) {
  const std::scoped_lock lock(mutex_);
  const auto from = unsized_from_.find(server);
  return unsized_.contains(name.text) || (from != unsized_from_.end() && from->second >= kMostUnsized);
}

void Store::set_too_large_for_size(const Name& name, const std::string& server) {
  const std::scoped_lock lock(mutex_);
  if (unsized_.insert(name.text).second) ++unsized_from_[server];
}

// Of both: so that no fetch ends in between, and is counted twice or not at all.
StoreStatus Store::status() {
  const std::scoped_lock lock(mutex_);
  return account_.status(fetches());
}

StoreStatus Store::status_of_running() {
  const std::scoped_lock lock(mutex_);
  return account_.running(fetches());
}

Account::Fillings Store::fetches() const {
  Account::Fillings fetches;
  for (const Running& r : running_)
    if (r.kind == Kind::fetching) fetches.push_back(r.filling);
  return fetches;
}

void Store::say(const std::string& line) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_ || !noted_.insert(line).second) return;
  }
  if (log_) log_(line);
}

void Store::note(const Error& reason) { say(str("not kept, made anew by each reader: ", reason.message)); }

}  // namespace weightfs
