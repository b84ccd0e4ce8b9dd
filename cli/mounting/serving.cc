#include "cli/mounting/serving.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>

#include "base/text.h"
#include "cli/mounting/unmount.h"
#include "fs/forest.h"
#include "fs/session.h"

namespace weightfs {
namespace {

using std::chrono::milliseconds;

// A file or directory as it is from anywhere; a name as it is.
std::string full_name(const std::string& source) {
  struct stat found {};
  if (::stat(source.c_str(), &found) != 0) return source;
  return absolute_path(source).value_or(source);
}

// Looks after a mount from its own process.
class Caretaker {
 public:
  Caretaker(Serving& serving, Mounted& mounted, MountPoint& point, Blobs& blobs)
      : serving_(serving), mounted_(mounted), point_(point), blobs_(blobs) {}

  Duties duties() {
    Duties duties;
    duties.on_usable = [this](uint64_t mount) {
      mount_ = mount;
      point_.release();
      mounted_.log.say(Level::info, str("mounted ", printable(mounted_.source), " at ", printable(point_.path())));
      if (serving_.watch.on_usable) serving_.watch.on_usable(mounted_);
    };
    duties.on_end = [this] {
      if (serving_.watch.on_end) serving_.watch.on_end();
      blobs_.stop();
    };
    duties.on_unmount = [this] { take_away(Detach::now); };
    duties.on_stuck = [this] {
      const bool is_silent = take_away(Detach::now).end == Unmounted::silent;
      mounted_.log.say(Level::error, str(printable(point_.path()),
                                         ": requests that cannot be answered kept it from "
                                         "ending; ",
                                         is_silent ? "nor could it be detached: what leads there does not answer"
                                                   : "it was detached"));
      if (!is_silent) point_.remove_if_made();
      std::_Exit(static_cast<int>(Exit::mount));
    };
    duties.on_signals[SIGUSR1] = [this] {
      for (const std::string& line : statistics_of(mounted_)) mounted_.log.answer(line);
    };
    if (serving_.watch.on_reload) duties.on_signals[SIGHUP] = [this] { serving_.watch.on_reload(serving_.options); };
    duties.on_tick = [this] { tick(); };
    duties.tick_every = tick_every();
    return duties;
  }

 private:
  milliseconds tick_every() const {
    if (serving_.watch.tick_every.count() > 0) return serving_.watch.tick_every;
    const milliseconds idle = serving_.options.idle_timeout;
    if (idle.count() == 0) return idle;
    return std::clamp<milliseconds>(idle / 4, milliseconds(250), std::chrono::seconds(30));
  }

  void tick() {
    if (serving_.watch.on_tick) serving_.watch.on_tick(mounted_);
    const auto idle = serving_.options.idle_timeout;
    if (idle.count() == 0 || mounted_.statistics.unused() < idle) return;
    // A descriptor that somebody else has mounted is theirs to unmount, when we are gone.
    const bool ended = serving_.device ? ::raise(SIGTERM) == 0 : take_away(Detach::when_unused).end == Unmounted::done;
    if (ended) mounted_.log.say(Level::info, str(printable(point_.path()), ": unused for ", idle.count(), " s"));
  }

  // Whoever has the mount as working directory keeps it, as with umount(8). One that was detached has gone on without
  // a place, where another may be mounted by now.
  Unmounted take_away(Detach detach) const {
    const Mounts now = Mounts::now();
    if (const Mount* mount = now.find(mount_)) return unmount(*mount, detach);
    // Before it could be used nobody else could mount there.
    const auto mount = mount_ == 0 ? now.on(point_.path()) : std::nullopt;
    return mount && mount->is_weightfs() ? unmount(*mount, detach) : Unmounted{Unmounted::refused, "it has gone"};
  }

  Serving& serving_;
  Mounted& mounted_;
  MountPoint& point_;
  Blobs& blobs_;
  std::atomic<uint64_t> mount_ = 0;  // its id, once it can be used
};

Exit refuse(Log& log, const Error& error, Exit status) {
  log.say(Level::error, error.message);
  return status;
}

// What this machine lacks is nothing that the mount point could help.
Error with_advice(const Error& error) {
  const bool is_of_fuse = error.message.find("fuse") != std::string::npos;
  return {error.code, str(error.message, is_of_fuse ? " (weightfs doctor tells what to do)" : "")};
}

// Until a thread waits for them they must not end the process, in whichever thread.
void keep_for_later(int signal) {
  sigset_t one{};
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

}  // namespace

Exit serve_sources(Serving serving, MountPoint& point, Log& log) {
  keep_for_later(SIGUSR1);
  if (serving.watch.on_reload) keep_for_later(SIGHUP);
  const auto warn = [&log](const std::string& line) { log.say_once(Level::warning, line); };
  MountOptions& options = serving.options;
  options.opening.hidden = point.path();
  // Where somebody else has mounted, it was with allow_other.
  options.opening.access.is_for_others = serving.device.has_value() || is_for_others(options);
  if (const auto directory = cache_directory(); directory && !options.storing.no_cache)
    if (const auto apart = check_not_in_a_mount(*directory, point.path()); !apart)
      return refuse(log, apart.error(), Exit::mount);
  // One that was attached is there already, and answers nobody yet.
  if (!serving.device)
    if (const auto seen = check_hides_none(serving.sources, point.path()); !seen)
      return refuse(log, seen.error(), Exit::usage);
  const auto store = use_store(options.opening, options.storing, warn);
  if (!store) return refuse(log, store.error(), exit_of(store.error().code));
  auto tree = open_sources(serving.sources, options.opening);
  if (!tree) return refuse(log, tree.error(), exit_of(tree.error().code));

  Statistics statistics;
  std::vector<std::string> sources;
  for (const std::string& source : serving.sources) sources.push_back(full_name(source));
  Mounted mounted{name_of_sources(sources), sources, point.path(), *store, statistics, log};
  Forest forest(std::move(*tree), {{kPidXattr, std::to_string(::getpid())}});
  forest.hide(kStatusDirectory, status_tree(mounted));
  Blobs& blobs = *options.opening.blobs;
  Caretaker caretaker(serving, mounted, point, blobs);
  const auto tell_of_open = [&](Ino ino) {
    if (log.says(Level::debug)) log.say(Level::debug, "open " + printable(forest.path(ino)));
  };
  // Who asks for the end, and asks twice, must not keep us from leaving nothing behind.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) keep_for_later(signal);
  const auto made = serving.device ? Result<void>() : point.make().and_then([&] { return point.claim(); });
  const auto served = made.and_then([&] {
    return serve(forest, statistics,
                 {point.path(), mounted.source, options.kernel, serving.device, options.ownership,
                  options.storing.stream, warn, tell_of_open, caretaker.duties()});
  });
  // A reader that was never told of the end may hold what it reads, and with it the store, for as long as we live.
  blobs.stop();
  point.remove_if_made();
  if (!served) return refuse(log, with_advice(served.error()), Exit::mount);
  log.say(Level::info, str("unmounted ", printable(point.path())));
  return Exit::ok;
}

}  // namespace weightfs
