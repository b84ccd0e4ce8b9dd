#include "cli/mount/mount_report.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>

#include "base/source.h"
#include "base/text.h"
#include "base/values/json.h"
#include "cli/process/isolated.h"
#include "report/text/time.h"

namespace weightfs {
namespace {

constexpr size_t kMaxSummaryBytes = 1 << 16;
constexpr std::array kConditions = {"serving", "dead", "not responding", "private", "covered", "unknown"};

Map condition_only(MountCondition state) {
  Map result;
  result.append("state", name_of(state));
  return result;
}

// FUSE compares the real, effective and saved ids. From then on that user can signal this process.
bool switch_user(uid_t user, gid_t group) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(group, group, group) != 0 || ::setresuid(user, user, user) != 0)
    return false;
  die_with_parent();
  return true;
}

MountCondition condition_from_errno(int error) {
  if (error == ENOTCONN || error == ECONNABORTED) return MountCondition::dead;
  return error == EACCES || error == EPERM ? MountCondition::inaccessible : MountCondition::unknown;
}

// The content of summary.json; empty if it cannot be read. The server is not trusted: its values may be any.
Map read_summary() {
  const int file = ::open((std::string(kStatusDirectory) + "/summary.json").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text(kMaxSummaryBytes, '\0');
  size_t size = 0;
  for (ssize_t count = 1; count > 0 && size < text.size(); size += static_cast<size_t>(std::max<ssize_t>(count, 0)))
    count = ::read(file, text.data() + size, text.size() - size);
  ::close(file);
  const auto value = parse_json(*in_memory(text), 0, size);
  const Map* const map = value ? std::get_if<Map>(&*value) : nullptr;
  return map == nullptr ? Map() : *map;
}

// Whether this user may not see the open files of a process, as those of a server (cli/process/secrets.h), and its name
// is that of this program.
bool is_hidden_server(const std::string& about, const std::error_code& failed) {
  std::string name;
  std::getline(std::ifstream(about + "/comm"), name);
  return failed == std::errc::permission_denied && name.find("weightfs") != name.npos;
}

// Whether the pid that a server reports is plausible: the process has /dev/fuse open, and belongs to the mounting user
// (of root's mount, to any user). A server may report any pid, or its pid in another namespace.
bool may_serve(uint64_t process, const Mount& mount) {
  struct stat found {};
  if (process == 0 || process > std::numeric_limits<pid_t>::max()) return false;
  const std::string about = fmt::format("/proc/{}", process);
  const uid_t user = mount.user.value_or(0);
  if (user != 0 && (::stat(about.c_str(), &found) != 0 || found.st_uid != user)) return false;
  std::error_code failed;
  for (std::filesystem::directory_iterator each(about + "/fd", failed), end; !failed && each != end;
       each.increment(failed)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(each->path(), gone) == "/dev/fuse") return true;
    if (is_hidden_server(about, gone)) return true;
  }
  return is_hidden_server(about, failed);
}

// Runs in an isolated process: it enters the mount, and hangs there if the server is unresponsive.
Map probe(const Mount& mount) {
  // O_PATH sends no request to the server. Done before switching to a user that may lack access to the path.
  const int root = ::open(mount.point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0)
    return condition_only(errno == ENOENT || errno == ENOTDIR ? MountCondition::covered : condition_from_errno(errno));
  if (mount_id_of("self", std::to_string(root)) != mount.id) return condition_only(MountCondition::covered);
  if (::geteuid() == 0 && mount.user.value_or(0) != 0 && !switch_user(*mount.user, mount.group.value_or(*mount.user)))
    return condition_only(MountCondition::inaccessible);
  if (::fchdir(root) != 0) return condition_only(condition_from_errno(errno));
  std::array<char, 32> pid{};
  const ssize_t length = ::getxattr(".", kPidXattr, pid.data(), pid.size());
  if (length < 0 && errno != ENODATA && errno != ERANGE) return condition_only(condition_from_errno(errno));
  Map result = read_summary();
  result.set("state", name_of(MountCondition::serving));
  uint64_t number = 0;
  if (length > 0 && std::from_chars(pid.data(), pid.data() + length, number).ec == std::errc() &&
      !find_number(result, "pid"))
    result.set("pid", number);
  if (const auto process = find_number(result, "pid"); process && !may_serve(*process, mount))
    result.set("pid", Value());
  return result;
}

MountCondition parse_condition(const Map& result) {
  const auto name = find_text(result, "state");
  for (size_t i = 0; i < kConditions.size(); ++i)
    if (name == kConditions.at(i)) return static_cast<MountCondition>(i);
  return MountCondition::unknown;
}

std::vector<std::string> parse_sources(const Map& result) {
  const List* const list = result.find_as<List>("sources");
  std::vector<std::string> sources;
  for (const Value& value : list == nullptr ? List() : *list)
    if (const auto* const source = std::get_if<std::string>(&value)) sources.push_back(*source);
  return sources;
}

std::optional<MountReport::Tiers> parse_tiers(const Map& result) {
  const Map* const passthrough = result.find_as<Map>("passthrough");
  const Map* const opened = passthrough == nullptr ? nullptr : passthrough->find_as<Map>("opened");
  if (opened == nullptr) return std::nullopt;
  return MountReport::Tiers{.passthrough = find_number(*opened, "passthrough").value_or(0),
                            .server = find_number(*opened, "server").value_or(0),
                            .reason = find_text(*passthrough, "reason").value_or("")};
}

std::optional<std::string> parse_refusal_of_rings(const Map& result) {
  const Map* const rings = result.find_as<Map>("io_uring");
  if (rings == nullptr) return std::nullopt;
  return find_text(*rings, "reason").value_or("");
}

std::optional<MountReport::Refresh> parse_refresh(const Map& result) {
  const Map* const refresh = result.find_as<Map>("refresh");
  if (refresh == nullptr) return std::nullopt;
  const bool* const running = refresh->find_as<bool>("running");
  return MountReport::Refresh{.count = find_number(*refresh, "count").value_or(0),
                              .is_running = running != nullptr && *running,
                              .changed = find_number(*refresh, "changed").value_or(0),
                              .mounted = find_text(*refresh, "mounted").value_or(""),
                              .available = find_text(*refresh, "available").value_or(""),
                              .error = find_text(*refresh, "error").value_or(""),
                              .exit_status = find_number(*refresh, "exit_status").value_or(0)};
}

MountReport parse_report(const Mount& mount, const IsolatedResult& result) {
  MountReport report{.mount = mount, .state = MountCondition::unresponsive, .source = mount.source};
  if (!result && result.error() == IsolationError::failed) report.state = MountCondition::unknown;
  if (!result) return report;
  report.state = parse_condition(*result);
  constexpr size_t kMaxSourceBytes = 4096;  // PATH_MAX
  if (const auto source = find_text(*result, "source"); source && source->size() <= kMaxSourceBytes)
    report.source = *source;
  report.sources = parse_sources(*result);
  if (const auto pid = find_number(*result, "pid"); pid && *pid <= std::numeric_limits<pid_t>::max())
    report.server = static_cast<pid_t>(*pid);
  if (const auto since = find_text(*result, "since")) report.since = parse_utc_time(*since);
  report.served_bytes = find_number(*result, "served_bytes");
  report.fetched_bytes = find_number(*result, "bytes_fetched");
  report.tiers = parse_tiers(*result);
  report.no_rings = parse_refusal_of_rings(*result);
  report.refresh = parse_refresh(*result);
  return report;
}

}  // namespace

const char* name_of(MountCondition state) { return kConditions.at(static_cast<size_t>(state)); }

std::vector<MountReport> probe_mounts(const std::vector<Mount>& mounts) {
  std::vector<IsolatedTask> tasks;
  for (const Mount& mount : mounts) tasks.emplace_back([&mount] { return probe(mount); });
  const auto results = run_isolated(tasks);
  std::vector<MountReport> report;
  for (size_t i = 0; i < mounts.size(); ++i) report.push_back(parse_report(mounts[i], results[i]));
  return report;
}

}  // namespace weightfs
