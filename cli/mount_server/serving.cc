#include "cli/mount_server/serving.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/text.h"
#include "cli/mount/mount_report.h"

namespace weightfs {
namespace {

using std::chrono::milliseconds;

// Refers to `weightfs doctor` for errors about fuse.
std::string with_advice(const Error& error) {
  const bool is_of_fuse = error.message.find("fuse") != std::string::npos;
  return fmt::format("{}{}", error.message, is_of_fuse ? "; run weightfs doctor" : "");
}

}  // namespace

FuseServing::FuseServing(Mounting mounting, Reading reading)
    : mounting_(std::move(mounting)),
      options_(std::move(reading.options)),
      trees_(std::move(reading.trees)),
      params_(mounting_.params),
      log_(*mounting_.log),
      session_(mounting_.session),
      broker_(mounting_.broker.get()),
      passthrough_(std::move(mounting_.backing_files), mounting_.no_passthrough),
      rings_(mounting_.no_rings),
      state_{.source = session_.source,
             .sources = std::move(reading.sources),
             .place = session_.mountpoint,
             .store = std::move(reading.store),
             .statistics = statistics_,
             .log = log_,
             .passthrough = &passthrough_,
             .rings = &rings_,
             .checksums = std::move(reading.checksums),
             .sandbox = std::move(reading.sandbox),
             .incomplete = SharedText(std::move(reading.missing))},
      forest_(std::move(reading.root), {{kPidXattr, std::to_string(::getpid())}}),
      follower_(forest_, *trees_,
                {.log = mounting_.warn,
                 .accept = [this](const Tree& root) -> Result<void> {
                   state_.incomplete.set(TRY(what_is_missing(root, params_.options.require_complete)));
                   return {};
                 },
                 .refresh_every = params_.options.follow}),
      prefetch_(forest_, std::move(reading.prefetch)) {
  state_.path_of = [this](Ino ino) { return forest_.path(ino); };
  state_.follow_status = [this] { return follower_.status(); };
  forest_.add_unlisted(kStatusDirectory, status_tree(state_));
}

Exit FuseServing::run() {
  // A second signal must not interrupt the cleanup.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) block_signal(signal);
  const auto served = serve();
  prefetch_.stop();
  // A reader may still hold its source, and with it the store, until the process exits.
  options_.blobs->stop();
  if (broker_ != nullptr) broker_->remove_mount_point();
  follower_.stop();
  if (!follower_.has_ended(fuse::kShutdownTimeout)) {
    log_.write(Level::error, fmt::format("{}: a source is not responding", printable(session_.source)));
    std::_Exit(static_cast<int>(served ? Exit::ok : Exit::mount));
  }
  if (!served) {
    log_.write(Level::error, with_advice(served.error()));
    return Exit::mount;
  }
  log_.write(Level::info, fmt::format("unmounted {}", printable(session_.mountpoint)));
  return Exit::ok;
}

Result<void> FuseServing::serve() {
  Descriptor device = broker_ != nullptr ? TRY(broker_->mount()) : Descriptor(*params_.device);
  fuse::SessionParams session = session_;
  session.device = device.release();
  session.ownership = params_.options.ownership;
  session.passthrough = &passthrough_;
  session.rings = &rings_;
  session.prefetch = &prefetch_;
  session.follower = &follower_;
  session.log = mounting_.warn;
  session.on_open = [this](Ino ino) {
    if (log_.is_enabled(Level::debug)) log_.write(Level::debug, "open " + printable(forest_.path(ino)));
  };
  session.callbacks = callbacks();
  return fuse::serve(forest_, statistics_, session);
}

fuse::SessionCallbacks FuseServing::callbacks() {
  fuse::SessionCallbacks callbacks;
  callbacks.on_usable = [this](uint64_t) { on_usable(); };
  callbacks.on_end = [this] {
    if (params_.observer.on_end) params_.observer.on_end();
    prefetch_.stop();
    options_.blobs->stop();
  };
  if (broker_ != nullptr) {
    callbacks.on_unmount = [this] { broker_->unmount(Detach::now); };
    callbacks.on_gone = [this] { broker_->forget(); };
  }
  callbacks.on_stuck = [this] { on_stuck(); };
  callbacks.on_signals[SIGUSR1] = [this] {
    for (const std::string& line : statistics_of(state_)) log_.write_always(line);
  };
  callbacks.on_signals[SIGHUP] = [this] {
    if (params_.observer.on_reload) params_.observer.on_reload(params_.options);
    follower_.refresh();
  };
  callbacks.on_tick = [this] { on_tick(); };
  callbacks.tick_every = tick_every();
  return callbacks;
}

milliseconds FuseServing::tick_every() const {
  if (params_.observer.tick_every.count() > 0) return params_.observer.tick_every;
  const milliseconds idle = params_.options.idle_timeout;
  if (idle.count() == 0) return idle;
  return std::clamp<milliseconds>(idle / 4, milliseconds(250), std::chrono::seconds(30));
}

void FuseServing::on_usable() {
  if (broker_ != nullptr) broker_->start_use();
  log_.write(Level::info, fmt::format("mounted {} at {}", printable(session_.source), printable(session_.mountpoint)));
  if (params_.observer.on_usable) params_.observer.on_usable(state_);
  wait_for_network(options_.registries.http, params_.options.store_flags);
  prefetch_.start();
}

void FuseServing::on_stuck() {
  const bool is_silent = broker_ != nullptr && broker_->unmount(Detach::now).status == UnmountResult::unresponsive;
  log_.write(Level::error,
             fmt::format("{}: shutdown timed out with requests in progress; {}", printable(session_.mountpoint),
                         is_silent ? "cannot detach it: its path is not responding" : "detached"));
  if (!is_silent && broker_ != nullptr) broker_->remove_mount_point();
  std::_Exit(static_cast<int>(Exit::mount));
}

void FuseServing::on_tick() {
  if (params_.observer.on_tick) params_.observer.on_tick(state_);
  const auto idle = params_.options.idle_timeout;
  if (idle.count() == 0 || statistics_.idle_time() < idle) return;
  // If another process mounted the descriptor, it unmounts after this process exits.
  const bool ended =
      broker_ == nullptr ? ::raise(SIGTERM) == 0 : broker_->unmount(Detach::if_unused).status == UnmountResult::done;
  if (ended) log_.write(Level::info, fmt::format("{}: idle for {} s", printable(session_.mountpoint), idle.count()));
}

}  // namespace weightfs
