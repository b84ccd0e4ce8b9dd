// weightfs service: the commands of the systemd units (systemd/system/weightfs@.service.in).
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/os/mounts.h"
#include "base/text.h"
#include "base/values/value.h"
#include "report/text/words.h"
#ifdef WEIGHTFS_HTTP
#include "cli/serve/http_service.h"
#endif
#include "cli/mount/backing_broker.h"
#include "cli/mount_server/serve.h"
#include "cli/mount_server/status.h"
#include "cli/systemd/attach.h"
#include "cli/systemd/config.h"
#include "cli/systemd/fd_passing.h"
#include "cli/systemd/heartbeat.h"
#include "cli/systemd/notify.h"
#include "cli/systemd/readable.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

// A config and its parsed OPTIONS.
struct Service {
  service::Config config;
  MountOptions options;
};

Result<Service> read_service(const std::string& path) {
  Service service;
  service.config = TRY(service::read_config(path));
  TRY_VOID(parse_mount_options(service.options, service.config.options, OptionOrigin::command_line)
               .map_error([&](const Error& error) {
                 return Error{error.code,
                              fmt::format("{}:{}: OPTIONS: {}", path, service.config.options_line, error.message)};
               }));
  // systemd's TimeoutIdleSec= does not work here: each heartbeat would count as a use.
  if (service.options.idle_timeout.count() == 0 && service.config.automount)
    service.options.idle_timeout = service.config.automount_idle;
  return service;
}

// The option name of a word of -o, such as cache_size.
std::string name_of(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_reloadable(const std::string& word) {
  const std::string name = name_of(word);
  return name == "idle_timeout" || name == "log_level";
}

// The names of the options that differ between two configs and cannot be reloaded.
std::vector<std::string> changed_options(const service::Config& before, const service::Config& after) {
  std::vector<std::string> changed;
  const auto words_before = split_words(before.options);
  const auto words_after = split_words(after.options);
  const auto add_missing = [&](const std::vector<std::string>& these, const std::vector<std::string>& others) {
    for (const std::string& word : these)
      if (std::find(others.begin(), others.end(), word) == others.end() && !is_reloadable(word) &&
          std::find(changed.begin(), changed.end(), name_of(word)) == changed.end())
        changed.push_back(name_of(word));
  };
  add_missing(words_before, words_after);
  add_missing(words_after, words_before);
  return changed;
}

// The changed settings that need a restart, separated by commas.
std::string settings_needing_restart(const service::Config& before, const service::Config& after) {
  std::vector<std::string> changed;
  if (before.sources != after.sources) changed.emplace_back("SOURCE");
  if (before.mountpoint != after.mountpoint) changed.emplace_back("MOUNTPOINT");
  for (const std::string& option : changed_options(before, after)) changed.push_back(option);
  return enumerated(changed);
}

// systemd drops a notification that is longer than a page or that is not valid UTF-8.
std::string shortened(std::string text) {
  constexpr size_t kMaxBytes = 2000;
  if (text.size() <= kMaxBytes) return text;
  return std::string(begin_of_text(text, kMaxBytes)) + "...";
}

// Reports the state of a mount to the service manager, and reloads its config.
class ServiceObserver {
 public:
  ServiceObserver(std::string path, service::Config config, Log& log)
      : path_(std::move(path)), config_(std::move(config)), log_(log) {}

  MountObserver observer() {
    MountObserver observer;
    observer.on_usable = [this](const ServerState& state) {
      status_ = status_of(state);
      service::notify(fmt::format("READY=1\nSTATUS={}", status_));
      if (const auto limit = service::watchdog_limit()) start_heartbeat(state.place, *limit);
    };
    observer.on_tick = [this](const ServerState& state) { send_status(state); };
    observer.tick_every = std::chrono::seconds(2);
    observer.on_reload = [this](MountOptions& options) { reload(options); };
    // The directory, because an editor replaces the file.
    observer.reload_reads = {std::filesystem::absolute(path_).parent_path()};
    observer.on_end = [] { service::notify("STOPPING=1\nSTATUS=Shutting down."); };
    return observer;
  }

 private:
  static std::string status_of(const ServerState& state) {
    return shortened(fmt::format("{} at {}: {}", printable(state.source), printable(state.place), summary_of(state)));
  }

  // Without a heartbeat the service manager restarts the service.
  void start_heartbeat(const std::string& point, std::chrono::microseconds limit) {
    try {
      heartbeat_.emplace(point, limit);
    } catch (const std::system_error& error) {
      log_.write(Level::error, fmt::format("cannot start the watchdog thread: {}", error.code().message()));
    }
  }

  void send_status(const ServerState& state) {
    std::string status = status_of(state);
    if (status == status_) return;
    service::notify(fmt::format("STATUS={}", status));
    status_ = std::move(status);
  }

  // An invalid config is logged and changes nothing.
  void reload(MountOptions& options) {
    service::notify_reloading();
    const auto read = read_service(path_);
    if (!read) {
      log_.write(Level::error, fmt::format("not reloaded: {}", read.error().message));
    } else {
      log_.set_level(read->options.log_level);
      options.log_level = read->options.log_level;
      options.idle_timeout = read->options.idle_timeout;
      log_.write(Level::info, fmt::format("reloaded {}", path_));
      const std::string changed = settings_needing_restart(config_, read->config);
      if (!changed.empty()) log_.write(Level::warning, fmt::format("{}: restart needed to apply: {}", path_, changed));
    }
    service::notify("READY=1");
  }

  const std::string path_;
  const service::Config config_;  // as read at the start
  Log& log_;
  std::string status_;  // as last sent
  std::optional<service::Heartbeat> heartbeat_;
};

// Whether the path is on a weightfs mount. AT_STATX_DONT_SYNC returns the device without a request to the server.
bool is_weightfs_root(const std::string& path) {
  struct statx found {};
  return ::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, 0, &found) == 0 &&
         Mounts::now().is_weightfs(makedev(found.stx_dev_major, found.stx_dev_minor));
}

// The mount point of the mount made by attach(). It may be invisible to the service, and it is not served yet.
Result<MountPoint> attached_point(const service::Config& config) {
  MountPoint point = MountPoint::of_mount(config.mountpoint);
  if (is_weightfs_root(point.path())) return point;
  if (const auto reached = service::check_reachable(point.path()); !reached) return tl::unexpected(reached.error());
  return failure(Code::io, fmt::format("{}: mount not visible to the service, which has a private directory there "
                                       "(PrivateTmp=, PrivateDevices=, ...)",
                                       config.mountpoint));
}

Exit failed(Log& log, const Error& error, Exit status) {
  log.write(Level::error, error.message);
  return status;
}

Exit serve_service(const std::string& path) {
  const auto device = service::kept_descriptor(service::kDeviceName);
  Log log(Level::info, stderr_sink());
  auto service = read_service(path);
  if (!service) return failed(log, service.error(), Exit::usage);
  log.set_level(service->options.log_level);
  // The service manager must not keep the mount open: when this process exits, waiting readers must get an error.
  if (device) service::forget_descriptor(service::kDeviceName);
  auto point = device ? attached_point(service->config) : MountPoint::at(service->config.mountpoint);
  // Missing permissions are a usage error, for which systemd does not restart the service.
  if (!point) return failed(log, point.error(), device ? Exit::usage : Exit::mount);
  for (const std::string& source : service->config.sources)
    if (const auto done = service::check_readable(source); !done) return failed(log, done.error(), Exit::usage);
  ServiceObserver service_observer(path, service->config, log);
  return serve_sources({.sources = service->config.sources,
                        .options = std::move(service->options),
                        .device = device,
                        .broker_path = service::broker_path(),
                        .observer = service_observer.observer()},
                       *point, log);
}

// An invalid config is reported by the server, whose exit status prevents a restart.
Exit attach_service(const std::string& path) {
  Log log(Level::info, stderr_sink());
  const auto service = read_service(path);
  if (!service) return Exit::ok;
  if (const auto done = service::attach(service->config, service->options.kernel); !done)
    return failed(log, done.error(), Exit::mount);
  return Exit::ok;
}

// The config may be invalid or missing by now, which the server has reported.
Exit detach_service(const std::string& path) {
  Log log(Level::info, stderr_sink());
  const auto config = service::read_config(path);
  const std::string name = std::filesystem::path(path).stem();
  if (const auto done = service::detach(name, config ? config->mountpoint : ""); !done)
    return failed(log, done.error(), Exit::mount);
  return Exit::ok;
}

// Needs root, which the server is not, and a mount that is served.
Exit set_service_readahead(const std::string& path) {
  Log log(Level::info, stderr_sink());
  const auto config = service::read_config(path);
  if (!config) return failed(log, config.error(), Exit::usage);
  const auto mount = Mounts::now().on(MountPoint::of_mount(config->mountpoint).path());
  if (!mount || !mount->is_weightfs())
    return failed(log, {Code::io, fmt::format("{}: weightfs is not mounted there", config->mountpoint)}, Exit::mount);
  fuse::set_readahead(mount->device);
  return Exit::ok;
}

#ifndef WEIGHTFS_HTTP
Exit serve_http_service(const std::string&) {
  return report_error({Code::unsupported, "serve-http: this build has no HTTP server (WEIGHTFS_HTTP)"});
}
#else
// A file in a directory serve.d.
bool is_http_config(const std::string& path) {
  return std::filesystem::absolute(path).parent_path().filename() == "serve.d";
}
#endif

Exit serve_backing_files() {
  const auto connection = service::accepted_connection();
  if (connection) BackingBroker::serve(*connection);
  return report_error(
      {Code::io, "no connection of the service manager; this command is for weightfs-passthrough@.service"},
      Exit::usage);
}

Exit show_service(const std::string& path) {
#ifdef WEIGHTFS_HTTP
  if (is_http_config(path)) return show_http_service(path);
#endif
  const auto service = read_service(path);
  if (!service) return report_error(service.error(), Exit::usage);
  const service::Config& config = service->config;
  Map out;
  out.append("service", fmt::format("weightfs@{}.service", config.name));
  List sources;
  for (const std::string& source : config.sources) sources.emplace_back(source);
  out.append("sources", std::move(sources));
  out.append("mountpoint", config.mountpoint);
  out.append("options", config.options);
  out.append("automount", config.automount);
  out.append("automount_idle", config.automount_idle.count());
  std::fputs(to_json(std::move(out)).c_str(), stdout);
  return Exit::ok;
}

}  // namespace

Command service_command() {
  const auto command = [](const char* name, const char* help, Exit (*act)(const std::string&)) -> Command {
    const auto path = std::make_shared<std::string>();
    return {name, help, {argument("CONF", "config file in /etc/weightfs/mounts.d (serve-http: serve.d)", *path)},
            {},   {},   [=] { return act(*path); }};
  };
  Command service{"service", "commands for the systemd units of weightfs"};
  service.commands = {command("show", "print a config as JSON, or its error", show_service),
                      command("attach", "mount, and pass the mount to the service manager", attach_service),
                      command("serve", "serve the mount passed by attach, or a new mount", serve_service),
                      command("serve-http", "serve the sources of a config over HTTP", serve_http_service),
                      command("set-readahead", "set the read-ahead of the mount", set_service_readahead),
                      command("detach", "remove the mount, even if it is busy", detach_service),
                      {"passthrough",
                       "register files that the kernel reads itself, for a server that has connected",
                       {},
                       {},
                       {},
                       serve_backing_files}};
  return service;
}

}  // namespace weightfs
