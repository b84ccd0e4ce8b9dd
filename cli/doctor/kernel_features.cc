#include "cli/doctor/kernel_features.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/process/isolated.h"
#include "cli/process/secrets.h"

namespace weightfs::doctor {
namespace {

// From linux/fuse.h of newer kernels: a bit of flags2, which holds the flags from 32 on.
constexpr uint32_t kPassthrough = 1U << (37 - 32);
constexpr uint64_t kPagesBeforeLimit = 32;  // before FUSE_MAX_PAGES (Linux 4.20)
constexpr uint64_t kPagesByDefault = 256;   // FUSE_MAX_MAX_PAGES

Map failed_step(const char* step) {
  Map result;
  result.append("error", fmt::format("{}: {}", step, errno_text(errno)));
  return result;
}

bool write_file(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) ::close(file);
  return written;
}

// An ordinary user can mount only as root of a user namespace.
bool enter_namespaces() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (user == 0) return ::unshare(CLONE_NEWNS) == 0;
  show_memory();
  return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", fmt::format("0 {} 1", user)) &&
         write_file("/proc/self/gid_map", fmt::format("0 {} 1", group));
}

uint64_t max_pages() {
  std::ifstream file("/proc/sys/fs/fuse/max_pages_limit");  // since Linux 6.13
  uint64_t pages = kPagesByDefault;
  return file >> pages ? pages : kPagesByDefault;
}

// Runs in the child process, whose mounts disappear when it exits.
Map query_kernel() {
  if (!enter_namespaces()) return failed_step("namespaces");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed_step("a private namespace");
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0) return failed_step("/dev/fuse");
  // Mounts on "/", which always exists. Processes that have "/" open keep the old root.
  const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", device);
  if (::mount("weightfs", "/", "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) return failed_step("mount");
  std::vector<char> request(1 << 17);
  const ssize_t size = ::read(device, request.data(), request.size());
  fuse_in_header header{};
  fuse_init_in init{};
  // Before FUSE_INIT_EXT (7.36) fuse_init_in is shorter.
  constexpr size_t kMinRequest = sizeof(header) + 4 * sizeof(uint32_t);
  if (size < static_cast<ssize_t>(kMinRequest)) return failed_step("the first request");
  std::memcpy(&header, request.data(), sizeof(header));
  std::memcpy(&init, request.data() + sizeof(header),
              std::min(static_cast<size_t>(size) - sizeof(header), sizeof(init)));
  const uint32_t flags2 = (init.flags & FUSE_INIT_EXT) != 0 ? init.flags2 : 0;
  Map result;
  result.append("major", init.major);
  result.append("minor", init.minor);
  result.append("passthrough", (flags2 & kPassthrough) != 0);
  result.append("read_ahead", init.max_readahead);
  result.append("pages", (init.flags & FUSE_MAX_PAGES) != 0 ? max_pages() : kPagesBeforeLimit);
  return result;
}

}  // namespace

Result<KernelFeatures> kernel_features() {
  const auto result = run_isolated({query_kernel}).front();
  if (!result) return failure(Code::io, "the kernel did not respond");
  if (const auto why = find_text(*result, "error")) return failure(Code::io, *why);
  const Value* passthrough = result->find("passthrough");
  const auto number = [&](const char* key) { return find_number(*result, key).value_or(0); };
  return KernelFeatures{
      static_cast<uint32_t>(number("major")), static_cast<uint32_t>(number("minor")),
      passthrough != nullptr && std::holds_alternative<bool>(*passthrough) && std::get<bool>(*passthrough),
      number("read_ahead"), number("pages") * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))};
}

}  // namespace weightfs::doctor
