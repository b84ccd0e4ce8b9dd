#include "cli/sandbox/sandbox.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/process/secrets.h"
#include "cli/sandbox/capabilities.h"
#include "cli/sandbox/seccomp.h"
#include "cli/sandbox/temporary_files.h"

namespace weightfs::sandbox {
namespace {

// WEIGHTFS_COVERAGE: counters are written to the build folder when a process ends (scripts/coverage).
#if defined(WEIGHTFS_SANITIZED) || defined(WEIGHTFS_COVERAGE)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// The layers apply to one thread; only seccomp can be applied to the others.
Result<void> check_has_one_thread() {
  std::error_code failed;
  std::filesystem::directory_iterator tasks("/proc/self/task", failed), end;
  if (failed || std::distance(tasks, end) == 1) return {};
  return failure(Code::io, "sandbox: the process has more than one thread");
}

// Without capabilities root has the file access of an ordinary user. If Landlock limits the readable files, root keeps
// the capability to read other users' sources.
Keep needed_capabilities(const SandboxAccess& access) {
  if (::geteuid() != 0 || landlock_version() == 0) return Keep::nothing;
  const auto is_of_another = [](std::filesystem::path path) {
    for (struct stat status{}; path.has_relative_path(); path = path.parent_path())
      if (::stat(path.c_str(), &status) == 0 && status.st_uid != 0) return true;
    return false;
  };
  const std::vector<std::string>& read = access.files.read;
  return std::any_of(read.begin(), read.end(), is_of_another) ? Keep::read_all_files : Keep::nothing;
}

// A layer that the kernel does not support is skipped with a warning.
Result<bool> is_active(const Result<void>& layer, const std::function<void(const std::string&)>& warn) {
  if (layer) return true;
  if (layer.error().code != Code::unsupported) return tl::unexpected(layer.error());
  warn(fmt::format("sandbox: {}", layer.error().message));
  return false;
}

}  // namespace

Map as_value(const SandboxStatus& status) {
  List capabilities;
  for (const std::string& name : status.capabilities) capabilities.emplace_back(name);
  Map out;
  out.append("active", status.off.empty());
  if (!status.off.empty()) out.append("reason", status.off);
  out.append("no_new_privs", status.no_new_privs);
  out.append("capabilities", capabilities.empty() ? Value("none") : Value(std::move(capabilities)));
  out.append("seccomp", status.seccomp);
  out.append("landlock", static_cast<uint64_t>(status.landlock));
  out.append("network", status.network == Network::connect);
  out.append("fetcher", status.has_fetcher);
  return out;
}

Result<SandboxStatus> enter_sandbox(const SandboxAccess& access, const std::function<void(const std::string&)>& warn) {
  SandboxStatus status;
  status.network = access.network;
  if (kSanitized) {
    status.off = "build with sanitizers";
    status.capabilities = permitted_capabilities();
    return status;
  }
  TRY_VOID(check_has_one_thread());
  if (access.network == Network::none) forget_logins();
  const Keep keep = needed_capabilities(access);
  status.no_new_privs = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  if (!status.no_new_privs) return failure(io_error("no_new_privs"));
  if (TRY(is_active(restrict_files(access.files, access.network), warn))) status.landlock = landlock_version();
  TRY_VOID(drop_capabilities(keep));
  status.capabilities = permitted_capabilities();
  const PermittedCalls calls{access.network, access.accepts, access.watches, access.passes_files, access.rings};
  status.seccomp = TRY(is_active(filter_system_calls(calls), warn));
  return status;
}

Result<void> confine_broker_of_backing_files() {
  TRY_VOID(drop_capabilities(Keep::backing_files));
  if (kSanitized) return {};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure(io_error("no_new_privs"));
  const auto filtered = filter_broker_of_backing_files();
  return filtered || filtered.error().code == Code::unsupported ? Result<void>() : filtered;
}

SandboxStatus without_sandbox(const std::function<void(const std::string&)>& warn) {
  warn("the sandbox is off (--sandbox=off)");
  SandboxStatus status;
  status.off = "--sandbox=off";
  status.capabilities = permitted_capabilities();
  return status;
}

Result<std::unique_ptr<Broker>> start_command_broker(const StoreFlags& store_flags, Output* output) {
  if (kSanitized || (!store_flags.sandbox && output == nullptr)) return nullptr;
  auto broker = TRY(Broker::start([output](const Broker::Request& request) -> BrokerReply {
    if (request.letter == kOpenTemporaryFile) return open_temporary_file(request.argument);
    return output == nullptr ? BrokerReply{EINVAL} : output->reply(request);
  }));
  if (output != nullptr) output->use_broker(*broker);
  return broker;
}

}  // namespace weightfs::sandbox
