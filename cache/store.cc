#include "cache/store.h"

#include <algorithm>
#include <system_error>

#include "base/text.h"
#include "cache/paths.h"

namespace weightfs {
namespace {

// Each takes two threads and 2 MiB. More run only when somebody waits for every one of them.
constexpr size_t kMostFillings = 4;

}  // namespace

Store::Store(ShelfPtr shelf, Log log) : shelf_(std::move(shelf)), log_(std::move(log)), own_(random_hex(16)) {}

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

// Ends with what there is to learn from it: whether its bytes are to be trusted the next time.
void Store::leave(Runnings::iterator running) {
  const Filling& filling = *running->filling;
  const auto phase = filling.phase();
  if (phase == Filling::Phase::finished) distrusted_.erase(filling.name().text);
  if (phase == Filling::Phase::failed && is_about_the_bytes(filling.error())) distrusted_.insert(filling.name().text);
  leaving_.splice(leaving_.end(), running_, running);
}

Result<Store::FillingPtr> Store::filling(const Recipe& recipe, const Name& name) {
  std::unique_lock lock(mutex_);
  do {
    if (stopped_) return failure(Code::unavailable, "the store is closed");
    if (auto filling = find(name)) return filling;
  } while (!make_place(lock));
  return begin(recipe, name);
}

// False when it waited, and all may be different.
bool Store::make_place(std::unique_lock<std::mutex>& lock) {
  reap();
  for (auto running = running_.begin(); running != running_.end();)
    if (const auto here = running++; here->filling->has_ended()) leave(here);
  if (running_.size() < kMostFillings) return true;
  for (auto running = running_.begin(); running != running_.end(); ++running) {
    if (!running->filling->cancel_if_idle()) continue;
    leave(running);
    return true;
  }
  // One that is being published ends by itself, whatever becomes of the others.
  const bool ends = std::any_of(running_.begin(), running_.end(),
                                [](const Running& r) { return r.filling->phase() != Filling::Phase::making; });
  if (ends) ended_.wait(lock);
  return !ends;
}

Result<Store::FillingPtr> Store::begin(const Recipe& recipe, const Name& name) {
  const bool shared_by_promise = name.digest && name.key.empty();
  const auto serve =
      shared_by_promise || distrusted_.contains(name.text) ? Filling::Serve::nothing : Filling::Serve::what_is_there;
  auto filling = std::make_shared<Filling>(recipe, name, shelf_, serve);
  Running& place = running_.emplace_back(Running{filling, {}});
  try {
    place.thread = std::thread([self = shared_from_this(), filling] { self->run(filling); });
  } catch (const std::system_error& error) {
    running_.pop_back();
    return failure(Code::unavailable, error.what());
  }
  return filling;
}

void Store::run(const FillingPtr& filling) {
  filling->run();
  const std::scoped_lock lock(mutex_);
  const auto is_this = [&](const Running& r) { return r.filling == filling; };
  const auto running = std::find_if(running_.begin(), running_.end(), is_this);
  if (running != running_.end()) leave(running);
  const auto leaving = std::find_if(leaving_.begin(), leaving_.end(), is_this);
  if (leaving != leaving_.end()) leaving->over = true;
  ended_.notify_all();
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
  ended_.notify_all();
  ended_.wait(lock,
              [&] { return std::all_of(leaving_.begin(), leaving_.end(), [](const Running& r) { return r.over; }); });
  reap();
}

void Store::give_up() {
  gave_up_ = true;
  stop();
}

bool Store::is_distrusted(const Name& name) {
  const std::scoped_lock lock(mutex_);
  return distrusted_.contains(name.text);
}

void Store::note(const Error& reason) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_ || !noted_.insert(reason.message).second) return;
  }
  if (log_) log_(str("not kept, made anew by each reader: ", reason.message));
}

}  // namespace weightfs
