// The system calls of a confined process.
#include "cli/sandbox/seccomp.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fsverity.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <functional>

#include "base/os/fs_verity.h"
#include "base/os/kernel.h"
#include "tests/support/temporary.h"

namespace weightfs::seccomp_test {
namespace {

constexpr int kNoFilter = 200;

// The result of `work` in a confined process.
int in_filter(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_confined =
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && sandbox::filter_system_calls(sandbox::Network::none, false);
    ::_exit(is_confined ? work() : kNoFilter);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// docs/design/caching.md
TEST(Seccomp, FsVerityIsEnabledButNotOtherwiseControlled) {
  if (!sandbox::has_seccomp()) GTEST_SKIP() << "the kernel has no seccomp filters";
  const TemporaryDirectory directory;
  const int file = ::open(directory.write("file", "bytes").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const auto error_of_enabling = [file] {
    errno = 0;
    return enable_fs_verity(file) ? 0 : errno;
  };
  EXPECT_EQ(in_filter(error_of_enabling), error_of_enabling());  // as without the filter
  const int measured = in_filter([file] {
    fsverity_digest digest{};
    return ::ioctl(file, FS_IOC_MEASURE_VERITY, &digest) == 0 ? 0 : errno;
  });
  EXPECT_TRUE(measured == EPERM || measured == ENOSYS) << measured;
  ::close(file);
}

// isatty(3) of older and of newer versions of the C library: without them there are no tables and no progress.
TEST(Seccomp, TerminalsAreRecognised) {
  if (!sandbox::has_seccomp()) GTEST_SKIP() << "the kernel has no seccomp filters";
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) GTEST_SKIP() << "no pseudo-terminals here";
  for (const unsigned long request : {static_cast<unsigned long>(TCGETS), kernel::kTerminalAttributes}) {
    const auto error_of_request = [&] {
      std::array<std::byte, 256> attributes{};
      return ::ioctl(terminal, request, attributes.data()) == 0 ? 0 : errno;
    };
    EXPECT_EQ(in_filter(error_of_request), 0) << std::hex << request;
  }
  ::close(terminal);
}

}  // namespace
}  // namespace weightfs::seccomp_test
