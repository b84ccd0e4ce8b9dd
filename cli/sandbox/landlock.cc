#include "cli/sandbox/landlock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs::sandbox {
namespace {

// linux/landlock.h, of which Debian 12 has version 2. The system calls have these numbers on every architecture.
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr uint32_t kAskVersion = 1;
constexpr int kPathBeneath = 1;

struct Ruleset {
  uint64_t files;
  uint64_t ports;  // version 4
  uint64_t scope;  // version 6
};
struct [[gnu::packed]] PathBeneath {
  uint64_t allowed;
  int32_t parent;
};

constexpr uint64_t bit(int number) { return uint64_t{1} << number; }
constexpr uint64_t kExecute = bit(0), kWriteFile = bit(1), kReadFile = bit(2), kReadDirectory = bit(3);
constexpr uint64_t kRemoveDirectory = bit(4), kRemoveFile = bit(5), kMakeCharacterDevice = bit(6),
                   kMakeDirectory = bit(7);
constexpr uint64_t kMakeFile = bit(8), kMakeSocket = bit(9), kMakePipe = bit(10), kMakeBlockDevice = bit(11);
constexpr uint64_t kMakeLink = bit(12), kRefer = bit(13), kTruncate = bit(14), kControlDevice = bit(15);
constexpr uint64_t kBindTcp = bit(0), kConnectTcp = bit(1);
constexpr uint64_t kAbstractSockets = bit(0), kSignals = bit(1);

// The rights that this version of Landlock restricts.
uint64_t file_rights(int version) {
  uint64_t rights = kExecute | kWriteFile | kReadFile | kReadDirectory | kRemoveDirectory | kRemoveFile |
                    kMakeCharacterDevice | kMakeDirectory | kMakeFile | kMakeSocket | kMakePipe | kMakeBlockDevice |
                    kMakeLink;
  if (version >= 2) rights |= kRefer;
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kControlDevice;
  return rights;
}

// A service manager may listen on an abstract socket, which must stay reachable.
uint64_t scope() {
  const char* socket = std::getenv("NOTIFY_SOCKET");
  return socket != nullptr && *socket == '@' ? kSignals : kSignals | kAbstractSockets;
}

Ruleset restricted(int version, Network network) {
  Ruleset rules{file_rights(version), 0, 0};
  if (version >= 4) rules.ports = network == Network::none ? kBindTcp | kConnectTcp : kBindTcp;
  if (version >= 6) rules.scope = scope();
  return rules;
}

// Older kernels expect a shorter structure.
size_t size_of(int version) {
  if (version >= 6) return sizeof(Ruleset);
  return version >= 4 ? offsetof(Ruleset, scope) : offsetof(Ruleset, ports);
}

Result<void> allow(int ruleset, const std::string& path, uint64_t rights) {
  constexpr uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kControlDevice;
  const Descriptor found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!found || ::fstat(found.number(), &status) != 0) return {};
  const PathBeneath rule{S_ISDIR(status.st_mode) ? rights : rights & kOfFiles, found.number()};
  if (::syscall(kAddRule, ruleset, kPathBeneath, &rule, 0) == 0) return {};
  return failure(io_error(fmt::format("landlock: {}", path)));
}

}  // namespace

int landlock_version() {
  const long version = ::syscall(kCreateRuleset, nullptr, size_t{0}, kAskVersion);
  return version < 0 ? 0 : static_cast<int>(version);
}

Result<void> restrict_files(const FileAccess& files, Network network) {
  const int version = landlock_version();
  // ENOSYS or EOPNOTSUPP from the kernel; a service's own system call filter gives EPERM.
  if (version == 0) return failure(Code::unsupported, fmt::format("landlock: not available: {}", errno_text(errno)));
  const Ruleset rules = restricted(version, network);
  const Descriptor ruleset(static_cast<int>(::syscall(kCreateRuleset, &rules, size_of(version), 0)));
  if (!ruleset) return failure(io_error("landlock"));
  const uint64_t write =
      rules.files & ~(kExecute | kMakeCharacterDevice | kMakeBlockDevice | kMakeSocket | kMakePipe | kControlDevice);
  for (const std::string& path : files.read) TRY_VOID(allow(ruleset.number(), path, kReadFile | kReadDirectory));
  for (const std::string& path : files.write) TRY_VOID(allow(ruleset.number(), path, write));
  if (::syscall(kRestrictSelf, ruleset.number(), 0) != 0) return failure(io_error("landlock"));
  return {};
}

}  // namespace weightfs::sandbox
