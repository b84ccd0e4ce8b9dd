#include "cli/mount/serve.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "base/os/memory.h"
#include "base/text.h"
#include "cache/cache_directory.h"
#include "cache/disk_quota.h"
#include "cli/console/progress.h"
#include "cli/mount/backing_broker.h"
#include "cli/mount/mount_broker.h"
#include "cli/sandbox/sandbox.h"
#include "cli/sandbox/temporary_files.h"
#include "formats/completeness.h"
#include "fs/forest.h"
#include "fs/fuse/session.h"
#include "fs/living/follower.h"
#include "fs/prefetch.h"

namespace weightfs {
namespace {

using std::chrono::milliseconds;

// How long reads wait for a network that is down, by default.
constexpr std::chrono::seconds kWaitForNetwork{120};

// Implements the session callbacks of a mount: status, idle timeout, reload, unmount.
class MountController {
 public:
  /// `broker` is null if another process mounted, which will also unmount.
  MountController(ServeParams& params, MountState& state, const MountBroker* broker, Blobs& blobs, Prefetch& prefetch,
                  Follower& follower)
      : params_(params), state_(state), broker_(broker), blobs_(blobs), prefetch_(prefetch), follower_(follower) {}

  fuse::SessionCallbacks callbacks() {
    fuse::SessionCallbacks callbacks;
    callbacks.on_usable = [this](uint64_t) {
      if (broker_ != nullptr) broker_->start_use();
      state_.log.write(Level::info,
                       fmt::format("mounted {} at {}", printable(state_.source), printable(state_.mountpoint)));
      if (params_.observer.on_usable) params_.observer.on_usable(state_);
      const http::ClientPtr& http = params_.options.open_options.registries.http;
      if (http != nullptr && !params_.options.store_flags.wait_for_network) http->wait_for_network(kWaitForNetwork);
      prefetch_.start();
    };
    callbacks.on_end = [this] {
      if (params_.observer.on_end) params_.observer.on_end();
      prefetch_.stop();
      blobs_.stop();
    };
    if (broker_ != nullptr) {
      callbacks.on_unmount = [this] { broker_->unmount(Detach::now); };
      callbacks.on_gone = [this] { broker_->forget(); };
    }
    callbacks.on_stuck = [this] {
      const bool is_silent = broker_ != nullptr && broker_->unmount(Detach::now).status == UnmountResult::unresponsive;
      state_.log.write(Level::error,
                       fmt::format("{}: shutdown timed out with requests in progress; {}", printable(state_.mountpoint),
                                   is_silent ? "cannot detach it: its path is not responding" : "detached"));
      if (!is_silent && broker_ != nullptr) broker_->remove_mount_point();
      std::_Exit(static_cast<int>(Exit::mount));
    };
    callbacks.on_signals[SIGUSR1] = [this] {
      for (const std::string& line : statistics_of(state_)) state_.log.write_always(line);
    };
    callbacks.on_signals[SIGHUP] = [this] {
      if (params_.observer.on_reload) params_.observer.on_reload(params_.options);
      follower_.refresh();
    };
    callbacks.on_tick = [this] { tick(); };
    callbacks.tick_every = tick_every();
    return callbacks;
  }

 private:
  milliseconds tick_every() const {
    if (params_.observer.tick_every.count() > 0) return params_.observer.tick_every;
    const milliseconds idle = params_.options.idle_timeout;
    if (idle.count() == 0) return idle;
    return std::clamp<milliseconds>(idle / 4, milliseconds(250), std::chrono::seconds(30));
  }

  void tick() {
    if (params_.observer.on_tick) params_.observer.on_tick(state_);
    const auto idle = params_.options.idle_timeout;
    if (idle.count() == 0 || state_.statistics.idle_time() < idle) return;
    // If another process mounted the descriptor, it unmounts after this process exits.
    const bool ended =
        broker_ == nullptr ? ::raise(SIGTERM) == 0 : broker_->unmount(Detach::if_unused).status == UnmountResult::done;
    if (ended)
      state_.log.write(Level::info, fmt::format("{}: idle for {} s", printable(state_.mountpoint), idle.count()));
  }

  ServeParams& params_;
  MountState& state_;
  const MountBroker* const broker_;
  Blobs& blobs_;
  Prefetch& prefetch_;
  Follower& follower_;
};

// Of the file system of the cache, or of temporary files. Called before the sandbox hides it.
PrefetchOptions prefetch_options(const MountOptions& options, const std::function<void(const std::string&)>& log) {
  const StoreFlags& store_flags = options.store_flags;
  if (store_flags.offline || options.prefetch == PrefetchMode::off) return {.mode = PrefetchMode::off};
  const std::string directory = store_flags.no_cache ? "/tmp" : cache_directory().value_or("/tmp");
  return {options.prefetch, store_flags.size.value_or(default_quota(directory)), log};
}

Exit log_failure(Log& log, const Error& error, Exit status) {
  log.write(Level::error, error.message);
  return status;
}

// Refers to `weightfs doctor` for errors about fuse.
Error with_advice(const Error& error) {
  const bool is_of_fuse = error.message.find("fuse") != std::string::npos;
  return {error.code, fmt::format("{}{}", error.message, is_of_fuse ? "; run weightfs doctor" : "")};
}

// Blocks a signal until a thread waits for it, so that it does not end the process.
void block_signal(int signal) {
  sigset_t one{};
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

using MountBrokerPtr = std::unique_ptr<MountBroker>;

// The broker of backing files; null, with the reason, if no file can pass through.
fuse::BackingFilesPtr start_backing_files(const ServeParams& params, std::string& reason) {
  if (!params.options.passthrough) {
    reason = "--passthrough=off";
  } else if (!params.device && ::geteuid() != 0) {
    reason = "needs root";
  } else if (auto broker = params.device ? BackingBroker::connect(params.broker_path) : BackingBroker::start()) {
    return std::move(*broker);
  } else {
    reason = broker.error().message;
  }
  return nullptr;
}

// Called before the first byte of a container is read.
Result<sandbox::SandboxStatus> confine_server(const ServeParams& params, const MountBroker* broker,
                                              const std::function<void(const std::string&)>& warn) {
  const StoreFlags& store_flags = params.options.store_flags;
  if (broker != nullptr) sandbox::use_broker_for_temporary_files(broker->broker());
  if (!store_flags.sandbox) return sandbox::without_sandbox(warn);
  sandbox::SandboxAccess access = sandbox::access_for(params.sources, params.options.open_options.access, store_flags);
  for (const std::string& path : params.observer.reload_reads) access.files.read.push_back(path);
  return sandbox::enter_sandbox(access, warn);
}

// What the model lacks, in a sentence; empty if it is complete, or if the root is a directory of models. Fails with
// that if a complete one is required.
Result<std::string> what_is_missing(const Tree& root, bool require_complete) {
  const ModelPtr model = root.model();
  if (model == nullptr && require_complete)
    return failure(Code::unsupported, "--require-complete: not one model; name one as SOURCE");
  const Completeness completeness = model == nullptr ? Completeness{} : completeness_of(*model);
  if (require_complete && !completeness.is_complete())
    return failure(completeness.reason->code, to_sentence(completeness));
  return to_sentence(completeness);
}

}  // namespace

Exit serve_sources(ServeParams params, MountPoint& point, Log& log) {
  save_memory();
  block_signal(SIGUSR1);
  if (params.observer.on_reload) block_signal(SIGHUP);
  const auto opening = std::make_shared<FileCounter>();
  const auto warn = [&log, opening](const std::string& line) {
    opening->clear();
    log.write_once(Level::warning, line);
  };
  MountOptions& options = params.options;
  if (is_offline_by_environment(params.sources)) options.store_flags.offline = true;
  options.open_options.on_opened = [opening](uint64_t opened, uint64_t total) { opening->show(opened, total); };
  options.open_options.excluded_path = point.path();
  // A mount made by another process has allow_other.
  options.open_options.access.is_for_others = params.device.has_value() || is_for_others(options);
  if (const auto directory = cache_directory(); directory && !options.store_flags.no_cache)
    if (const auto checked = check_not_in_a_mount(*directory, point.path()); !checked)
      return log_failure(log, checked.error(), Exit::mount);
  // An attached mount exists already and is not served yet, so its path must not be accessed.
  if (!params.device)
    if (const auto checked = check_hides_no_source(params.sources, point.path()); !checked)
      return log_failure(log, checked.error(), Exit::usage);
  std::vector<std::string> sources;
  for (const std::string& source : params.sources) sources.push_back(absolute_source(source));
  const fuse::SessionParams session_params{point.path(), source_label(sources), options.kernel};
  const auto broker =
      params.device ? Result<MountBrokerPtr>(nullptr) : MountBroker::start(std::move(point), session_params);
  if (!broker) return log_failure(log, broker.error(), Exit::mount);
  std::string no_passthrough;
  fuse::BackingFilesPtr backing_files = start_backing_files(params, no_passthrough);
  const auto store = use_store(params.sources, options.open_options, options.store_flags, warn);
  if (!store) return log_failure(log, store.error(), exit_of(store.error().code));
  const PrefetchOptions prefetched = prefetch_options(options, warn);
  if (const auto read = read_credentials(params.sources, options.open_options); !read)
    return log_failure(log, read.error(), exit_of(read.error().code));
  const auto sandbox = confine_server(params, broker->get(), warn);
  if (!sandbox) return log_failure(log, sandbox.error(), Exit::mount);
  options.model_files.checksums = std::make_shared<views::Checksums>(options.open_options.blobs);
  SourceTrees source_trees(params.sources, sources, options.open_options, options.model_files);
  auto tree = source_trees.open();
  opening->end();
  if (!tree) return log_failure(log, tree.error(), exit_of(tree.error().code));
  const auto missing = what_is_missing(**tree, options.require_complete);
  if (!missing) return log_failure(log, missing.error(), exit_of(missing.error().code));
  if (!missing->empty()) log.write(Level::error, fmt::format("{}: {}", printable(session_params.source), *missing));

  fuse::Statistics statistics;
  fuse::Passthrough passthrough(std::move(backing_files), no_passthrough);
  MountState state{.source = session_params.source,
                   .sources = sources,
                   .mountpoint = session_params.mountpoint,
                   .store = *store,
                   .statistics = statistics,
                   .log = log,
                   .passthrough = passthrough,
                   .checksums = options.model_files.checksums,
                   .sandbox = *sandbox,
                   .incomplete = SharedText(*missing)};
  Forest forest(std::move(*tree), {{kPidXattr, std::to_string(::getpid())}});
  state.path_of = [&forest](Ino ino) { return forest.path(ino); };
  forest.add_unlisted(kStatusDirectory, status_tree(state));
  Blobs& blobs = *options.open_options.blobs;
  const auto accept = [&state, &options](const Tree& root) -> Result<void> {
    state.incomplete.set(TRY(what_is_missing(root, options.require_complete)));
    return {};
  };
  Follower follower(forest, source_trees, {.log = warn, .accept = accept, .refresh_every = options.follow});
  state.follow_status = [&follower] { return follower.status(); };
  Prefetch prefetch(forest, prefetched);  // its thread enters directories, which the follower learns of
  MountController controller(params, state, broker->get(), blobs, prefetch, follower);
  const auto log_open = [&](Ino ino) {
    if (log.is_enabled(Level::debug)) log.write(Level::debug, "open " + printable(forest.path(ino)));
  };
  // A second signal must not interrupt the cleanup.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) block_signal(signal);
  auto device = *broker ? (*broker)->mount() : Result<Descriptor>(Descriptor(*params.device));
  const auto served = std::move(device).and_then([&](Descriptor mount) {
    return fuse::serve(forest, statistics,
                       {.mountpoint = session_params.mountpoint,
                        .source = session_params.source,
                        .options = options.kernel,
                        .device = mount.release(),
                        .ownership = options.ownership,
                        .passthrough = &passthrough,
                        .prefetch = &prefetch,
                        .follower = &follower,
                        .drop_pages = options.store_flags.stream,
                        .log = warn,
                        .on_open = log_open,
                        .callbacks = controller.callbacks()});
  });
  prefetch.stop();
  // A reader may still hold its source, and with it the store, until the process exits.
  blobs.stop();
  if (*broker) (*broker)->remove_mount_point();
  follower.stop();
  if (!follower.has_ended(fuse::kShutdownTimeout)) {
    log.write(Level::error, fmt::format("{}: a source is not responding", printable(session_params.source)));
    std::_Exit(static_cast<int>(served ? Exit::ok : Exit::mount));
  }
  if (!served) return log_failure(log, with_advice(served.error()), Exit::mount);
  log.write(Level::info, fmt::format("unmounted {}", printable(session_params.mountpoint)));
  return Exit::ok;
}

}  // namespace weightfs
