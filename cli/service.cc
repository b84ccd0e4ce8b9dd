// weightfs service: what the units of systemd call (systemd/system/weightfs@.service.in).
#include <fcntl.h>
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
#include "cli/mount/serving.h"
#include "cli/service/attach.h"
#include "cli/service/config.h"
#include "cli/service/heartbeat.h"
#include "cli/service/notify.h"
#include "cli/service/readable.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

// A config and what its OPTIONS mean.
struct Service {
  Config config;
  MountOptions options;
};

Result<Service> read_service(const std::string& path) {
  Service service;
  service.config = TRY(read_config(path));
  TRY_VOID(take_words(service.options, service.config.options, Words::ours).map_error([&](const Error& error) {
    return Error{error.code, str(path, ":", service.config.options_line, ": OPTIONS: ", error.message)};
  }));
  // Not by systemd's TimeoutIdleSec=: each beat of the heart would count as a use.
  if (service.options.idle_timeout.count() == 0 && service.config.automount)
    service.options.idle_timeout = service.config.automount_idle;
  return service;
}

// The option that a word of -o gives: cache_size.
std::string name_of(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool changes_at_once(const std::string& word) {
  const std::string name = name_of(word);
  return name == "idle_timeout" || name == "log_level";
}

// Those options, by name, which stand in one of two configs only, or with another value.
std::vector<std::string> changed_options(const Config& before, const Config& after) {
  std::vector<std::string> changed;
  const auto words_before = split_words(before.options);
  const auto words_after = split_words(after.options);
  const auto add_missing = [&](const std::vector<std::string>& these, const std::vector<std::string>& others) {
    for (const std::string& word : these)
      if (std::find(others.begin(), others.end(), word) == others.end() && !changes_at_once(word) &&
          std::find(changed.begin(), changed.end(), name_of(word)) == changed.end())
        changed.push_back(name_of(word));
  };
  add_missing(words_before, words_after);
  add_missing(words_after, words_before);
  return changed;
}

// What a reload cannot change, in words; empty when nothing of it has changed.
std::string waiting_for_a_restart(const Config& before, const Config& after) {
  std::vector<std::string> changed;
  if (before.sources != after.sources) changed.emplace_back("SOURCE");
  if (before.mountpoint != after.mountpoint) changed.emplace_back("MOUNTPOINT");
  for (const std::string& option : changed_options(before, after)) changed.push_back(option);
  std::string names;
  for (const std::string& name : changed) names += str(names.empty() ? "" : ", ", name);
  return names;
}

// Systemd takes no message that is longer than a page, neither the word that the service is ready, nor a status that is
// cut within a character.
std::string shortened(std::string text) {
  constexpr size_t kLongest = 2000;
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while ((text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// The mount of one config, served under the service manager's eyes.
class Served {
 public:
  Served(std::string path, Config config, Log& log) : path_(std::move(path)), config_(std::move(config)), log_(log) {}

  Watch watch() {
    Watch watch;
    watch.on_usable = [this](const Mounted& mounted) {
      status_ = status_of(mounted);
      notify(str("READY=1\nSTATUS=", status_));
      if (const auto limit = watchdog_limit()) start_heart(mounted.mountpoint, *limit);
    };
    watch.on_tick = [this](const Mounted& mounted) { tell_status(mounted); };
    watch.tick_every = std::chrono::seconds(2);
    watch.on_reload = [this](MountOptions& options) { reload(options); };
    // Its directory: an editor replaces the file by another one.
    watch.reload_reads = {std::filesystem::absolute(path_).parent_path()};
    watch.on_end = [] { notify("STOPPING=1\nSTATUS=Ending."); };
    return watch;
  }

 private:
  static std::string status_of(const Mounted& mounted) {
    return shortened(str(printable(mounted.source), " at ", printable(mounted.mountpoint), ": ", summary_of(mounted)));
  }

  // Without it the service manager ends us before long, and starts another.
  void start_heart(const std::string& point, std::chrono::microseconds limit) {
    try {
      heartbeat_.emplace(point, limit);
    } catch (const std::system_error& error) {
      log_.say(Level::error, str("no thread for the watchdog: ", error.code().message()));
    }
  }

  void tell_status(const Mounted& mounted) {
    std::string status = status_of(mounted);
    if (status == status_) return;
    notify(str("STATUS=", status));
    status_ = std::move(status);
  }

  // A config that is wrong changes nothing, and ends nothing.
  void reload(MountOptions& options) {
    notify_reloading();
    const auto read = read_service(path_);
    if (!read) {
      log_.say(Level::error, str("not reloaded: ", read.error().message));
    } else {
      log_.set_most(read->options.log_level);
      options.log_level = read->options.log_level;
      options.idle_timeout = read->options.idle_timeout;
      log_.say(Level::info, str("reloaded ", path_));
      const std::string waiting = waiting_for_a_restart(config_, read->config);
      if (!waiting.empty()) log_.say(Level::warning, str(path_, ": needs a restart: ", waiting));
    }
    notify("READY=1");
  }

  const std::string path_;
  const Config config_;  // as it is served
  Log& log_;
  std::string status_;  // as it was told last
  std::optional<Heartbeat> heartbeat_;
};

// Whether that path leads to a mount of ours. The kernel tells the device without asking for the attributes.
bool leads_to_weightfs(const std::string& path) {
  struct statx found {};
  return ::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, 0, &found) == 0 &&
         Mounts::now().is_weightfs(makedev(found.stx_dev_major, found.stx_dev_minor));
}

// Where the mount is that attach() made. A service may not see it, and must not ask it: nobody answers yet.
Result<MountPoint> attached_point(const Config& config) {
  MountPoint point = MountPoint::of_mount(config.mountpoint);
  if (leads_to_weightfs(point.path())) return point;
  if (const auto reached = check_reachable(point.path()); !reached) return tl::unexpected(reached.error());
  return failure(Code::io, str(config.mountpoint,
                               ": the service does not see this mount: it has a directory of its own "
                               "there (PrivateTmp=, PrivateDevices=, ...)"));
}

Exit failed(Log& log, const Error& error, Exit status) {
  log.say(Level::error, error.message);
  return status;
}

Exit serve_service(const std::string& path) {
  const auto device = kept_descriptor(kDeviceName);
  Log log(Level::info, standard_error());
  auto service = read_service(path);
  if (!service) return failed(log, service.error(), Exit::usage);
  log.set_most(service->options.log_level);
  // When this process ends, however it ends, nobody else may keep the mount: who waits for an answer waits for us.
  if (device) forget_descriptor(kDeviceName);
  auto point = device ? attached_point(service->config) : MountPoint::at(service->config.mountpoint);
  // Trying again helps neither who may not come to his mount, nor who may not read what he is to show.
  if (!point) return failed(log, point.error(), device ? Exit::usage : Exit::mount);
  for (const std::string& source : service->config.sources)
    if (const auto done = check_readable(source); !done) return failed(log, done.error(), Exit::usage);
  Served served(path, service->config, log);
  return serve_sources({service->config.sources, std::move(service->options), device, served.watch()}, *point, log);
}

// A config that is wrong is for the server to refuse: of its exit status systemd knows that trying again does not help.
Exit attach_service(const std::string& path) {
  Log log(Level::info, standard_error());
  const auto service = read_service(path);
  if (!service) return Exit::ok;
  if (const auto done = attach(service->config, service->options.kernel); !done)
    return failed(log, done.error(), Exit::mount);
  return Exit::ok;
}

// The config may have become wrong since then, or have gone: that the server has said.
Exit detach_service(const std::string& path) {
  Log log(Level::info, standard_error());
  const auto config = read_config(path);
  const std::string name = std::filesystem::path(path).stem();
  if (const auto done = detach(name, config ? config->mountpoint : ""); !done)
    return failed(log, done.error(), Exit::mount);
  return Exit::ok;
}

// What the server of attach()ed mounts lacks the privilege for, and the kernel takes only once it is served.
Exit raise_read_ahead_of_service(const std::string& path) {
  Log log(Level::info, standard_error());
  const auto config = read_config(path);
  if (!config) return failed(log, config.error(), Exit::usage);
  const auto mount = Mounts::now().on(MountPoint::of_mount(config->mountpoint).path());
  if (!mount || !mount->is_weightfs())
    return failed(log, {Code::io, str(config->mountpoint, ": weightfs is not mounted there")}, Exit::mount);
  raise_read_ahead(mount->device);
  return Exit::ok;
}

Exit show_service(const std::string& path) {
  const auto service = read_service(path);
  if (!service) {
    complain(service.error());
    return Exit::usage;
  }
  const Config& config = service->config;
  Map out;
  out.append("service", str("weightfs@", config.name, ".service"));
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

void add_service(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("service", "what systemd's units call: weightfs@NAME.service");
  verb->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, Exit (*act)(const std::string&)) {
    auto path = std::make_shared<std::string>();
    CLI::App* sub = verb->add_subcommand(name, help);
    sub->add_option("CONF", *path, "a file of /etc/weightfs/mounts.d")->required();
    sub->callback([&run, path, act] { run = [path, act] { return act(*path); }; });
  };
  add("show", "print what a config says, as JSON, or what is wrong with it", show_service);
  add("attach", "mount it, and hand the mount to the service manager", attach_service);
  add("serve", "serve it: the mount that was handed over, or one of its own", serve_service);
  add("tune", "make the kernel read further ahead on the mount", raise_read_ahead_of_service);
  add("detach", "remove the mount, in use or not", detach_service);
}

}  // namespace weightfs
