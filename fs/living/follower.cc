#include "fs/living/follower.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "fs/tree/origin.h"

namespace weightfs {
namespace {

constexpr size_t kMaxUnlisted = 100;

Error unlisted(const std::string& path, const Error& error) {
  return Error(error.code, fmt::format("{}: cannot be listed again: {}", path, error.message));
}

}  // namespace

Follower::Follower(Forest& forest, const SourceTrees& sources, FollowOptions options)
    : forest_(forest),
      sources_(sources),
      options_(std::move(options)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      next_compare_(Clock::now() + options_.compares),
      next_refresh_(Clock::now() + options_.refresh_every) {
  const auto root = forest.followed(Forest::kRoot);
  if (root) status_.mounted = status_.available = root->origin->source_version;
  forest.set_on_entered([this](Ino directory) {
    {
      const std::scoped_lock lock(mutex_);
      entered_.push_back(directory);
    }
    ::eventfd_write(wake_.number(), 1);
  });
}

Follower::~Follower() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void Follower::start(Notify notify) {
  notify_ = std::move(notify);
  is_running_ = true;
  thread_ = std::jthread([this] {
    run();
    const std::scoped_lock lock(mutex_);
    is_running_ = false;
    ended_.notify_all();
  });
}

bool Follower::has_ended(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, within, [this] { return !is_running_; });
}

void Follower::stop() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
  }
  ::eventfd_write(wake_.number(), 1);
  const std::scoped_lock lock(notifying_);
  notify_ = nullptr;
}

void Follower::check(Ino ino, const Error& error) {
  constexpr size_t kMaxFailed = 1'000;
  {
    const std::scoped_lock lock(mutex_);
    if (failed_.size() >= kMaxFailed) return;
    failed_[ino] |= is_changed_file(error);
  }
  ::eventfd_write(wake_.number(), 1);
}

void Follower::refresh() {
  {
    const std::scoped_lock lock(mutex_);
    is_refresh_requested_ = true;
  }
  ::eventfd_write(wake_.number(), 1);
}

FollowStatus Follower::status() const {
  const std::scoped_lock lock(mutex_);
  return status_;
}

void Follower::run() {
  follow(Forest::kRoot);
  for (;;) {
    wait();
    {
      const std::scoped_lock lock(mutex_);
      if (is_stopped_) return;
    }
    // Out of memory: the next round tries again.
    try {
      take_requests();
      take_events();
      compare_directories();
      process_due();
    } catch (const std::exception&) {
      std::this_thread::sleep_for(options_.gathers);
    }
  }
}

// Waits for an event, a request, or the next time at which something is due.
void Follower::wait() {
  auto until = Clock::time_point::max();
  for (const auto& [directory, due] : due_) until = std::min(until, due);
  if (compared_ > 0) until = std::min(until, next_compare_);
  if (options_.refresh_every.count() > 0) until = std::min(until, next_refresh_);
  int timeout = -1;
  if (until != Clock::time_point::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
  }
  std::array<pollfd, 2> ready = {{{wake_.number(), POLLIN, 0}, {watch_.descriptor(), POLLIN, 0}}};
  ::poll(ready.data(), ready.size(), timeout);
}

void Follower::take_requests() {
  eventfd_t count = 0;
  ::eventfd_read(wake_.number(), &count);
  std::vector<Ino> entered;
  std::map<Ino, bool> failed;
  bool is_refresh_requested = false;
  {
    const std::scoped_lock lock(mutex_);
    entered = std::exchange(entered_, {});
    failed = std::exchange(failed_, {});
    is_refresh_requested = std::exchange(is_refresh_requested_, false);
  }
  for (const Ino directory : entered) follow(directory);
  // A model that is damaged fails often.
  for (const auto& [ino, has_changed] : failed) {
    for (const Ino directory : forest_.followed_above(ino))
      if (const auto found = followed_.find(directory); found != followed_.end())
        mark(directory, std::max(options_.compares - (Clock::now() - found->second.listed), Clock::duration(0)));
    // Its version does not cover the files beside it: shards, external data.
    if (const auto entry = has_changed ? forest_.entry_above(ino) : std::nullopt) reopen(*entry);
  }
  const bool is_time = options_.refresh_every.count() > 0 && Clock::now() >= next_refresh_;
  if (is_refresh_requested || is_time) refresh_now();
}

void Follower::take_events() {
  const DirectoryWatch::Events events = watch_.read();
  if (events.has_lost)
    for (const auto& [directory, followed] : followed_) mark(directory, options_.gathers);
  for (const int watch : events.watches)
    if (const auto found = by_watch_.find(watch); found != by_watch_.end())
      for (const Ino directory : found->second) mark(directory, options_.gathers);
  for (const int watch : events.ended) {
    const auto found = by_watch_.find(watch);
    if (found == by_watch_.end()) continue;
    for (const Ino directory : found->second) followed_[directory].watches.erase(watch);
    by_watch_.erase(found);
  }
}

void Follower::compare_directories() {
  if (compared_ == 0 || Clock::now() < next_compare_) return;
  for (const auto& [directory, followed] : followed_) {
    const auto has_changed = [](const WatchedDirectory& before) {
      const auto now = watched(before.location);
      return !now || now->modified != before.modified;
    };
    if (std::ranges::any_of(followed.compared, has_changed)) mark(directory, Clock::duration(0));
  }
  next_compare_ = Clock::now() + options_.compares;
}

void Follower::mark(Ino directory, Clock::duration delay) {
  const auto due = Clock::now() + delay;
  const auto [found, is_new] = due_.try_emplace(directory, due);
  if (!is_new) found->second = std::min(found->second, due);
}

// The outer directories first: what is in them may be replaced as a whole.
void Follower::process_due() {
  std::vector<Ino> now;
  for (const auto& [directory, due] : due_)
    if (due <= Clock::now()) now.push_back(directory);
  for (const Ino directory : now) {
    due_.erase(directory);
    list_again(directory);
  }
}

// Watches what decides about a tree. What has changed between its listing and now is listed again.
void Follower::follow(Ino directory) {
  const auto found = forest_.followed(directory);
  if (!found || (directory == Forest::kRoot && !found->origin->again)) return;
  Followed followed{.watches = {}, .compared = {}, .listed = Clock::now()};
  for (const WatchedDirectory& each : found->origin->directories) {
    const auto opened = each.location.root->open(each.location.name, OpenFor::list, each.location.links);
    const auto watch = opened ? watch_.add(opened->descriptor) : std::nullopt;
    if (watch)
      followed.watches.insert(*watch);
    else
      followed.compared.push_back(each);
    const auto now = watched(each.location);
    if (!now || now->modified != each.modified) mark(directory, options_.gathers);
  }
  for (const int watch : followed.watches) by_watch_[watch].insert(directory);
  Followed& old = followed_[directory];
  compared_ += followed.compared.size() - old.compared.size();
  std::swap(old, followed);
  for (const int watch : followed.watches)
    if (!old.watches.contains(watch) && by_watch_[watch].erase(directory) > 0 && by_watch_[watch].empty()) {
      by_watch_.erase(watch);
      watch_.remove(watch);
    }
  count_directories();
}

void Follower::count_directories() {
  const std::scoped_lock lock(mutex_);
  status_.watched = by_watch_.size();
  status_.compared = compared_;
}

void Follower::unfollow(Ino directory) {
  const auto found = followed_.find(directory);
  if (found == followed_.end()) return;
  for (const int watch : found->second.watches) {
    auto& directories = by_watch_[watch];
    directories.erase(directory);
    if (!directories.empty()) continue;
    by_watch_.erase(watch);
    watch_.remove(watch);
  }
  compared_ -= found->second.compared.size();
  followed_.erase(found);
  due_.erase(directory);
  count_directories();
}

void Follower::unfollow_stale() {
  std::vector<Ino> stale;
  for (const auto& [directory, followed] : followed_)
    if (!forest_.followed(directory)) stale.push_back(directory);
  for (const Ino directory : stale) unfollow(directory);
}

// Returns the error of a directory that cannot be listed.
std::optional<Error> Follower::list_again(Ino directory) {
  const auto found = forest_.followed(directory);
  if (!found) {
    unfollow(directory);
    return std::nullopt;
  }
  const Origin& origin = *found->origin;
  if (const auto at = followed_.find(directory); at != followed_.end()) at->second.listed = Clock::now();
  if (origin.version_now) {
    const auto now = origin.version_now();
    if (directory != Forest::kRoot && (!now || *now != origin.version)) reopen(directory);
    return std::nullopt;  // entering it reports errors
  }
  if (!origin.again || found->tree == nullptr) return std::nullopt;
  const bool is_root = directory == Forest::kRoot;
  // A directory that has shown several models stays one, although it may be left with one.
  const bool is_listed = is_root || origin.model_files > 1;
  const auto tree = origin.again(*found->tree, is_listed ? Directories::listed : Directories::by_rule);
  {
    const std::scoped_lock lock(mutex_);
    ++status_.listings;
    status_.listed = std::time(nullptr);
  }
  if (!tree) {
    const std::string path = forest_.path(directory);
    const Error error = unlisted(path, tree.error());
    if (options_.log) options_.log(error.message);
    if (!is_root) reopen(directory);
    if (is_about_the_bytes(error)) return std::nullopt;  // a model that is not supported: entering it reports that
    if (!is_root && error.code != Code::not_found && unlisted_.size() < kMaxUnlisted)
      unlisted_.insert_or_assign(path, *found);
    return error;
  }
  if ((*tree)->model() != nullptr)
    reopen(directory);
  else
    apply(directory, found->tree, *tree);
  return std::nullopt;
}

// Directories that could not be listed are not followed any more, but a refresh fails as long as that lasts. Entering
// them lists them again.
std::optional<Error> Follower::list_unlisted() {
  std::optional<Error> first;
  std::erase_if(unlisted_, [&](const auto& each) {
    const auto& [path, before] = each;
    const auto tree = before.origin->again(*before.tree, Directories::listed);
    if (tree || tree.error().code == Code::not_found || is_about_the_bytes(tree.error())) return true;
    if (!first) first = unlisted(path, tree.error());
    return false;
  });
  return first;
}

// The directory has become another model, or no model. Its entry gets a new number, and is opened again when it is
// entered.
void Follower::reopen(Ino directory) {
  const auto entry = forest_.followed_entry(directory);
  if (!entry) return;
  apply(entry->directory, entry->tree, with_reopened(*entry->tree, entry->node));
}

void Follower::apply(Ino directory, const TreePtr& before, const TreePtr& tree) {
  const Changes changes = forest_.update(directory, before, tree);
  notify(changes);
  if (!changes.names.empty()) unfollow_stale();
  follow(directory);
}

void Follower::notify(const Changes& changes) {
  changed_names_ += changes.names.size();
  const std::scoped_lock lock(notifying_);
  if (notify_ && (!changes.names.empty() || !changes.directories.empty())) notify_(changes);
}

// Names are resolved, then all directories are listed.
void Follower::refresh_now() {
  {
    const std::scoped_lock lock(mutex_);
    status_.is_refreshing = true;
  }
  const uint64_t changed_before = changed_names_;
  const auto refreshed = sources_.refresh(forest_.tree_at(Forest::kRoot));
  std::optional<Error> error = refreshed ? replace_root(*refreshed) : std::optional(refreshed.error());
  if (auto failed = list_unlisted(); failed && !error) error = std::move(failed);
  std::vector<Ino> all;
  for (const auto& [directory, followed] : followed_)
    if (directory != Forest::kRoot) all.push_back(directory);
  for (const Ino directory : all)
    if (auto failed = list_again(directory); failed && !error) error = std::move(failed);
  next_refresh_ = Clock::now() + options_.refresh_every;
  if (error && options_.log) options_.log(fmt::format("refresh: {}", error->message));
  const std::scoped_lock lock(mutex_);
  ++status_.refreshes;
  status_.refreshed = std::time(nullptr);
  status_.error = error;
  status_.changed = changed_names_ - changed_before;
  status_.is_refreshing = false;
}

// Returns the errors: of a new version that cannot be opened, or of some sources.
std::optional<Error> Follower::replace_root(const Refreshed& refreshed) {
  const TreePtr before = forest_.tree_at(Forest::kRoot);
  {
    const std::scoped_lock lock(mutex_);
    status_.available = refreshed.version;
  }
  std::optional<Error> errors;
  for (const Error& error : refreshed.errors)
    errors = errors ? Error(errors->code, fmt::format("{}; {}", errors->message, error.message)) : error;
  if (refreshed.tree == nullptr || refreshed.tree == before) return errors;
  if (refreshed.is_same_directory) {
    apply(Forest::kRoot, before, refreshed.tree);
    return errors;
  }
  if (const auto accepted = options_.accept ? options_.accept(*refreshed.tree) : Result<void>(); !accepted)
    return accepted.error();
  notify(forest_.replace_root(refreshed.tree));
  unfollow_stale();
  unfollow(Forest::kRoot);
  follow(Forest::kRoot);
  const std::scoped_lock lock(mutex_);
  status_.mounted = refreshed.version;
  return errors;
}

}  // namespace weightfs
