#include "cli/mount_server/stages.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "base/files/no_passthrough.h"
#include "base/os/memory.h"
#include "base/text.h"
#include "cache/cache_directory.h"
#include "cache/disk_quota.h"
#include "cli/console/check_spelling.h"
#include "cli/mount/backing_broker.h"
#include "cli/sandbox/sandbox.h"
#include "cli/sandbox/settle_network.h"
#include "cli/sandbox/temporary_files.h"
#include "formats/code/code.h"
#include "formats/completeness.h"

namespace weightfs {
namespace {

tl::unexpected<StageFailure> failed(const Error& error, Exit status) {
  return tl::unexpected<StageFailure>({error, status});
}

tl::unexpected<StageFailure> failed(const Error& error) { return failed(error, exit_of(error.code)); }

void start_backing_files(Privileged& privileged) {
  const ServeParams& params = privileged.plan.params;
  if (!params.options.passthrough) {
    privileged.no_passthrough = to_text(NoPassthrough::off);
  } else if (!params.device && ::geteuid() != 0) {
    privileged.no_passthrough = to_text(NoPassthrough::needs_root);
  } else if (auto broker = params.device ? BackingBroker::connect(params.broker_path) : BackingBroker::start()) {
    privileged.backing_files = std::move(*broker);
  } else {
    privileged.no_passthrough = broker.error().message;
  }
}

// A read that waits for a server occupies an entry of a ring for as long.
std::string refusal_of_rings(const MountOptions& options) {
  if (!options.io_uring) return "--io-uring=off";
  if (!options.store_flags.offline) return "the mount can use the network; add --offline";
  return fuse::rings_missing();
}

Result<sandbox::SandboxStatus> confine(const Privileged& privileged) {
  const Plan& plan = privileged.plan;
  const MountOptions& options = plan.params.options;
  if (privileged.broker != nullptr) sandbox::use_broker_for_temporary_files(privileged.broker->broker());
  if (!options.store_flags.sandbox) return sandbox::without_sandbox(plan.warn);
  sandbox::SandboxAccess access =
      sandbox::access_for(plan.params.sources, options.open_options.access, options.store_flags);
  access.watches = true;
  access.passes_files = privileged.backing_files != nullptr;
  access.rings = privileged.no_rings.empty();
  for (const std::string& path : plan.params.observer.reload_reads) access.files.read.push_back(path);
  return sandbox::enter_sandbox(access, plan.warn);
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

Plan::Plan(ServeParams given, const MountPoint& point, Log& log_of_mount)
    : params(std::move(given)), log(&log_of_mount), opening(std::make_shared<FileCounter>()) {
  warn = [log = log, opening = opening](const std::string& line) {
    opening->clear();
    log->write_once(Level::warning, line);
  };
  MountOptions& options = params.options;
  options.open_options.on_opened = [opening = opening](uint64_t opened, uint64_t total) {
    opening->show(opened, total);
  };
  options.open_options.excluded_path = point.path();
  // A mount made by another process has allow_other.
  options.open_options.access.is_for_others = params.device.has_value() || is_for_others(options);
  sandbox::settle_network(params.sources, options.open_options, options.store_flags);
  for (const std::string& source : params.sources) sources.push_back(absolute_source(source));
  session = {point.path(), source_label(sources), options.kernel};
}

Stage<Plan> Plan::make(ServeParams params, const MountPoint& point, Log& log) {
  save_memory();
  block_signal(SIGUSR1);
  if (params.observer.on_reload) block_signal(SIGHUP);
  Plan plan(std::move(params), point, log);
  if (const auto directory = cache_directory(); directory && !plan.params.options.store_flags.no_cache)
    if (const auto checked = check_not_in_a_mount(*directory, point.path()); !checked)
      return failed(checked.error(), Exit::mount);
  // An attached mount exists already and is not served yet, so its path must not be accessed.
  if (plan.params.device) return plan;
  if (const auto checked = check_hides_nothing_needed(plan.params.sources, point.path()); !checked)
    return failed(checked.error(), Exit::usage);
  if (const auto checked = check_spelling(plan.params.sources); !checked) return failed(checked.error());
  return plan;
}

Stage<Privileged> Privileged::start(Plan before, MountPoint point) {
  Privileged privileged(std::move(before));
  if (!privileged.plan.params.device) {
    auto started = MountBroker::start(std::move(point), privileged.plan.session);
    if (!started) return failed(started.error(), Exit::mount);
    privileged.broker = std::move(*started);
  }
  start_backing_files(privileged);
  privileged.no_rings = refusal_of_rings(privileged.plan.params.options);
  return privileged;
}

Stage<Confined> Confined::enter(Privileged before) {
  Confined confined(std::move(before));
  Plan& plan = confined.privileged.plan;
  OpenOptions& options = plan.params.options.open_options;
  auto store = use_store(plan.params.sources, options, plan.params.options.store_flags, plan.warn);
  if (!store) return failed(store.error());
  confined.store = std::move(*store);
  confined.prefetch = prefetch_options(plan.params.options.store_flags, plan.params.options.prefetch, plan.warn);
  if (const auto read = read_credentials(plan.params.sources, options); !read) return failed(read.error());
  auto sandbox = confine(confined.privileged);
  if (!sandbox) return failed(sandbox.error(), Exit::mount);
  confined.sandbox = std::move(*sandbox);
  return confined;
}

Stage<Reading> Reading::open(Confined before) {
  Reading reading(std::move(before));
  Plan& plan = reading.confined.privileged.plan;
  MountOptions& options = plan.params.options;
  options.model_files.checksums = std::make_shared<views::Checksums>(options.open_options.blobs);
  reading.trees =
      std::make_unique<SourceTrees>(plan.params.sources, plan.sources, options.open_options, options.model_files);
  auto root = reading.trees->open();
  plan.opening->end();
  if (!root) return failed(root.error());
  auto missing = what_is_missing(**root, options.require_complete);
  const std::string name = printable(plan.session.source);
  if (!missing) return failed({missing.error().code, fmt::format("{}: {}", name, missing.error().message)});
  if (!missing->empty()) plan.log->write(Level::error, fmt::format("{}: {}", name, *missing));
  if (const std::string code = what_runs_code(**root, plan.params.sources); !code.empty())
    plan.log->write(Level::error, fmt::format("{}: RUNS CODE: {}; see code in metadata.json", name, code));
  reading.root = std::move(*root);
  reading.missing = std::move(*missing);
  return reading;
}

PrefetchOptions prefetch_options(const StoreFlags& store_flags, PrefetchMode mode,
                                 std::function<void(const std::string&)> warn) {
  if (store_flags.offline || mode == PrefetchMode::off) return {.mode = PrefetchMode::off};
  const std::string directory = store_flags.no_cache ? "/tmp" : cache_directory().value_or("/tmp");
  return {mode, store_flags.store.quota.value_or(default_quota(directory)), std::move(warn)};
}

Result<std::string> what_is_missing(const Tree& root, bool require_complete) {
  const ModelPtr model = root.model();
  if (model == nullptr && require_complete)
    return failure(Code::unsupported, "not one model, which --require-complete needs; name one as SOURCE");
  const Completeness completeness = model == nullptr ? Completeness{} : completeness_of(*model);
  if (require_complete && !completeness.is_complete())
    return failure(completeness.reason->code, to_sentence(completeness));
  return to_sentence(completeness);
}

}  // namespace weightfs
