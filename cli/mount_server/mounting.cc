#include "cli/mount_server/mounting.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include "base/files/no_passthrough.h"
#include "base/os/memory.h"
#include "base/text.h"
#include "cache/cache_directory.h"
#include "cli/console/check_spelling.h"
#include "cli/mount/backing_broker.h"
#include "formats/code/code.h"

namespace weightfs {
namespace {

tl::unexpected<MountFailure> failed(const Error& error, Exit status) {
  return tl::unexpected<MountFailure>({error, status});
}

// A read that waits for a server occupies an entry of a ring for as long.
std::string refusal_of_rings(bool is_wanted, const StoreFlags& flags) {
  if (!is_wanted) return "--io-uring=off";
  if (!flags.offline) return "the mount can use the network; add --offline";
  return fuse::rings_missing();
}

// What may run code in the model; empty if it is none. The files of a model on a server are not requested for this.
std::string what_runs_code(const Tree& root, const std::vector<std::string>& sources) {
  const ModelPtr model = root.model();
  std::error_code error;
  const bool is_local =
      std::ranges::all_of(sources, [&](const std::string& source) { return std::filesystem::exists(source, error); });
  return model != nullptr && is_local ? names_of(code_of(*model).items) : "";
}

}  // namespace

void block_signal(int signal) {
  sigset_t one{};
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

Mounting::Mounting(ServeParams given, const MountPoint& point, Log& log_of_mount)
    : params(std::move(given)), log(&log_of_mount), opening(std::make_shared<FileCounter>()) {
  warn = [log = log, opening = opening](const std::string& line) {
    opening->clear();
    log->write_once(Level::warning, line);
  };
  session = {.mountpoint = point.path(), .source = {}, .options = params.options.kernel};
}

MountStage<Mounting> Mounting::check(ServeParams params, const MountPoint& point, Log& log) {
  save_memory();
  block_signal(SIGUSR1);
  if (params.observer.on_reload) block_signal(SIGHUP);
  Mounting mounting(std::move(params), point, log);
  const ServeParams& given = mounting.params;
  if (const auto directory = cache_directory(); directory && !given.options.store_flags.no_cache)
    if (const auto checked = check_not_in_a_mount(*directory, point.path()); !checked)
      return failed(checked.error(), Exit::mount);
  // An attached mount exists already and is not served yet, so its path must not be accessed.
  if (given.device) return mounting;
  if (const auto checked = check_hides_nothing_needed(given.sources, point.path()); !checked)
    return failed(checked.error(), Exit::usage);
  if (const auto checked = check_spelling(given.sources); !checked)
    return failed(checked.error(), exit_of(checked.error().code));
  return mounting;
}

Plan Mounting::plan() {
  MountOptions& options = params.options;
  options.open_options.on_opened = [opening = opening](uint64_t opened, uint64_t total) {
    opening->show(opened, total);
  };
  options.open_options.excluded_path = session.mountpoint;
  // A mount made by another process has allow_other.
  options.open_options.access.is_for_others = params.device.has_value() || is_for_others(options);
  Plan plan = Plan::make(params.sources, std::move(options.open_options), options.store_flags, warn);
  plan.prefetch = options.prefetch;
  session.source = source_label(plan.absolute);
  return plan;
}

void Mounting::start_backing_files() {
  if (!params.options.passthrough) {
    no_passthrough = to_text(NoPassthrough::off);
  } else if (!params.device && ::geteuid() != 0) {
    no_passthrough = to_text(NoPassthrough::needs_root);
  } else if (auto started = params.device ? BackingBroker::connect(params.broker_path) : BackingBroker::start()) {
    backing_files = std::move(*started);
  } else {
    no_passthrough = started.error().message;
  }
}

MountStage<Rights> Mounting::start_brokers(MountPoint point, const Plan& plan) {
  if (!params.device) {
    auto started = MountBroker::start(std::move(point), session);
    if (!started) return failed(started.error(), Exit::mount);
    broker = std::move(*started);
  }
  start_backing_files();
  no_rings = refusal_of_rings(params.options.io_uring, plan.flags);
  Rights rights{.broker = broker == nullptr ? nullptr : &broker->broker()};
  rights.access.watches = true;
  rights.access.passes_files = backing_files != nullptr;
  rights.access.rings = no_rings.empty();
  rights.access.files.read = params.observer.reload_reads;
  return rights;
}

void Mounting::report(const Reading& reading) const {
  const std::string name = printable(session.source);
  if (!reading.missing.empty()) log->write(Level::error, fmt::format("{}: {}", name, reading.missing));
  if (const std::string code = what_runs_code(*reading.root, params.sources); !code.empty())
    log->write(Level::error, fmt::format("{}: RUNS CODE: {}; see code in metadata.json", name, code));
}

}  // namespace weightfs
