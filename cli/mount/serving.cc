#include "cli/mount/serving.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "base/text.h"
#include "cache/cache_directory.h"
#include "cli/mount/mount_broker.h"
#include "cli/sandbox/sandbox.h"
#include "cli/sandbox/temporary_files.h"
#include "fs/forest.h"
#include "fs/fuse/session.h"

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
  /// `broker` is null where another process has mounted, and will unmount.
  Caretaker(Serving& serving, Mounted& mounted, const MountBroker* broker, Blobs& blobs)
      : serving_(serving), mounted_(mounted), broker_(broker), blobs_(blobs) {}

  Duties duties() {
    Duties duties;
    duties.on_usable = [this](uint64_t) {
      if (broker_ != nullptr) broker_->start_use();
      mounted_.log.say(Level::info,
                       str("mounted ", printable(mounted_.source), " at ", printable(mounted_.mountpoint)));
      if (serving_.watch.on_usable) serving_.watch.on_usable(mounted_);
    };
    duties.on_end = [this] {
      if (serving_.watch.on_end) serving_.watch.on_end();
      blobs_.stop();
    };
    if (broker_ != nullptr) duties.on_unmount = [this] { broker_->unmount(Detach::now); };
    duties.on_stuck = [this] {
      const bool is_silent = broker_ != nullptr && broker_->unmount(Detach::now).end == Unmounted::silent;
      mounted_.log.say(Level::error, str(printable(mounted_.mountpoint),
                                         ": requests that cannot be answered kept it from "
                                         "ending; ",
                                         is_silent ? "nor could it be detached: what leads there does not answer"
                                                   : "it was detached"));
      if (!is_silent && broker_ != nullptr) broker_->remove_mount_point();
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
    // A descriptor that another process has mounted is unmounted by that one, when this process has ended.
    const bool ended =
        broker_ == nullptr ? ::raise(SIGTERM) == 0 : broker_->unmount(Detach::when_unused).end == Unmounted::done;
    if (ended) mounted_.log.say(Level::info, str(printable(mounted_.mountpoint), ": unused for ", idle.count(), " s"));
  }

  Serving& serving_;
  Mounted& mounted_;
  const MountBroker* const broker_;
  Blobs& blobs_;
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

using MountBrokerPtr = std::unique_ptr<MountBroker>;

// Before anything of a container is read.
Result<SandboxStatus> confine_server(const Serving& serving, const MountBroker* broker,
                                     const std::function<void(const std::string&)>& warn) {
  const Storing& storing = serving.options.storing;
  if (broker != nullptr) use_broker_for_temporary_files(broker->broker());
  if (!storing.sandbox) return without_sandbox(warn);
  SandboxAccess access = access_for(serving.sources, serving.options.opening.access, storing);
  for (const std::string& path : serving.watch.reload_reads) access.files.read.push_back(path);
  return enter_sandbox(access, warn);
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
  std::vector<std::string> sources;
  for (const std::string& source : serving.sources) sources.push_back(full_name(source));
  const Mounting mounting{point.path(), name_of_sources(sources), options.kernel};
  const auto broker = serving.device ? Result<MountBrokerPtr>(nullptr) : MountBroker::start(std::move(point), mounting);
  if (!broker) return refuse(log, broker.error(), Exit::mount);
  const auto store = use_store(options.opening, options.storing, warn);
  if (!store) return refuse(log, store.error(), exit_of(store.error().code));
  const auto sandbox = confine_server(serving, broker->get(), warn);
  if (!sandbox) return refuse(log, sandbox.error(), Exit::mount);
  auto tree = open_sources(serving.sources, options.opening);
  if (!tree) return refuse(log, tree.error(), exit_of(tree.error().code));

  Statistics statistics;
  Mounted mounted{mounting.source, sources, mounting.mountpoint, *store, statistics, log, *sandbox};
  Forest forest(std::move(*tree), {{kPidXattr, std::to_string(::getpid())}});
  forest.hide(kStatusDirectory, status_tree(mounted));
  Blobs& blobs = *options.opening.blobs;
  Caretaker caretaker(serving, mounted, broker->get(), blobs);
  const auto tell_of_open = [&](Ino ino) {
    if (log.says(Level::debug)) log.say(Level::debug, "open " + printable(forest.path(ino)));
  };
  // Who asks for the end, and asks twice, must not keep us from leaving nothing behind.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) keep_for_later(signal);
  auto device = *broker ? (*broker)->mount() : Result<Descriptor>(Descriptor(*serving.device));
  const auto served = std::move(device).and_then([&](Descriptor mount) {
    return serve(forest, statistics,
                 {mounting.mountpoint, mounting.source, options.kernel, mount.release(), options.ownership,
                  options.storing.stream, warn, tell_of_open, caretaker.duties()});
  });
  // A reader that was never told of the end may hold what it reads, and with it the store, for as long as we live.
  blobs.stop();
  if (*broker) (*broker)->remove_mount_point();
  if (!served) return refuse(log, with_advice(served.error()), Exit::mount);
  log.say(Level::info, str("unmounted ", printable(mounting.mountpoint)));
  return Exit::ok;
}

}  // namespace weightfs
