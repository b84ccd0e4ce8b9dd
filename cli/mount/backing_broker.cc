#include "cli/mount/backing_broker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/os/system_error.h"
#include "cli/console/report_error.h"
#include "cli/process/child_process.h"
#include "cli/sandbox/sandbox.h"

namespace weightfs {
namespace {

constexpr char kCheckDevice = 'd', kUseDevice = 'u', kOpen = 'o', kClose = 'c';

constexpr unsigned kMiscMajor = 10, kFuseMinor = 229;  // of /dev/fuse (Documentation/admin-guide/devices.txt)

bool is_fuse_device(const Descriptor& file) {
  struct stat status {};
  return file && ::fstat(file.number(), &status) == 0 && S_ISCHR(status.st_mode) &&
         status.st_rdev == ::makedev(kMiscMajor, kFuseMinor);
}

bool is_read_only_file(const Descriptor& file) {
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const int flags = ::fcntl(file.number(), F_GETFL);
  return flags >= 0 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) == O_RDONLY;
}

// The kernel opens the file again with the credentials of the broker. Files in /proc and /sys show more to a process
// with CAP_SYS_ADMIN; only such file systems have no blocks.
bool is_stored(const Descriptor& file) {
  struct statfs system {};
  return ::fstatfs(file.number(), &system) == 0 && system.f_blocks > 0;
}

// By this process: NFS would refuse it to the kernel.
bool is_readable(const Descriptor& file) {
  return ::faccessat(file.number(), "", R_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

// The kernel holds each registered file open, so a server can register as many as the broker may have open itself.
uint64_t open_file_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

// A child of the server has its user and its groups, another process may not.
enum class StartedBy { server, service_manager };

// Handles the requests in the broker process. A reply has the backing id as its status, or -errno. With a text the
// broker refuses, otherwise the kernel.
class BackingService {
 public:
  explicit BackingService(StartedBy started_by) : started_by_(started_by) {}

  sandbox::BrokerReply reply(sandbox::Broker::Request request) {
    switch (request.letter) {
      case kCheckDevice:
      case kUseDevice:
        if (!is_fuse_device(request.descriptor)) return {-EINVAL, "not the device of a mount"};
        if (request.letter == kUseDevice) device_ = std::move(request.descriptor);
        return {};
      case kOpen:
        return open(std::exchange(device_, Descriptor()), request.descriptor);
      case kClose:
        return {close(std::exchange(device_, Descriptor()), request.argument)};
      default:
        return {-EINVAL, "unknown request"};
    }
  }

 private:
  sandbox::BrokerReply open(const Descriptor& device, const Descriptor& file) {
    if (!device) return {-EINVAL, "not mounted yet"};
    if (!is_read_only_file(file)) return {-EINVAL, "not a regular file that is open for reading"};
    if (!is_stored(file)) return {-EINVAL, "file system without storage"};
    if (started_by_ == StartedBy::service_manager && !is_readable(file)) return {-EACCES, "no permission to read it"};
    if (registered_ >= limit_) return {-EMFILE, fmt::format("{} files pass through already", registered_)};
    const int id = fuse::open_backing_file(device.number(), file.number());
    if (id < 0) return {-errno};
    ++registered_;
    return {id};
  }

  int close(const Descriptor& device, std::string_view argument) {
    uint32_t id = 0;
    if (argument.size() != sizeof id) return -EINVAL;
    std::memcpy(&id, argument.data(), sizeof id);
    if (fuse::close_backing_file(device.number(), id) && registered_ > 0) --registered_;
    return 0;
  }

  const StartedBy started_by_;
  const uint64_t limit_ = open_file_limit();
  uint64_t registered_ = 0;

  // For the next request only: a process that held it would keep the mount of a killed server alive, and fusermount3
  // unmounts only dead mounts (--auto-unmount).
  Descriptor device_;
};

void confine() {
  ::prctl(PR_SET_NAME, "weightfs-pass");
  if (const auto confined = sandbox::confine_broker_of_backing_files(); !confined) {
    report_error(confined.error());
    std::_Exit(1);
  }
}

sandbox::Broker::Handler handler(StartedBy started_by) {
  return [service = std::make_shared<BackingService>(started_by)](sandbox::Broker::Request request) {
    return service->reply(std::move(request));
  };
}

std::string reason_of_kernel(int error) {
  switch (error) {
    case EPERM:
      return "needs CAP_SYS_ADMIN";
    case ELOOP:
      return "on a stacked file system";
    case EOPNOTSUPP:
      return "file system without passthrough";
    default:
      return fmt::format("the kernel refuses: {}", errno_text(error));
  }
}

}  // namespace

Result<fuse::BackingFilesPtr> BackingBroker::start() {
  auto broker = TRY(sandbox::Broker::start(handler(StartedBy::server), [] {
    close_standard_descriptors();
    confine();
  }));
  return fuse::BackingFilesPtr(new BackingBroker(std::move(broker)));
}

Result<fuse::BackingFilesPtr> BackingBroker::connect(const std::string& path) {
  auto broker = TRY(sandbox::Broker::connect(path).map_error([](const Error& error) {
    return Error{error.code, fmt::format("no broker of backing files: {}", error.message)};
  }));
  return fuse::BackingFilesPtr(new BackingBroker(std::move(broker)));
}

void BackingBroker::serve(int connection) {
  sandbox::Broker::serve(connection, handler(StartedBy::service_manager), [] {
    std::signal(SIGTERM, SIG_DFL);  // of the service manager, not of a terminal
    confine();
  });
}

Result<void> BackingBroker::start(int device) {
  TRY(ask(kCheckDevice, device));
  const std::scoped_lock lock(mutex_);
  device_ = device;
  return {};
}

Result<uint32_t> BackingBroker::open(int file) { return static_cast<uint32_t>(TRY(ask(kOpen, file))); }

void BackingBroker::close(uint32_t id) {
  const std::scoped_lock lock(mutex_);
  if (broker_ == nullptr || !broker_->ask(kUseDevice, device_)) return;
  std::ignore = broker_->ask(kClose, {reinterpret_cast<const char*>(&id), sizeof id});
}

void BackingBroker::stop() {
  const std::scoped_lock lock(mutex_);
  broker_ = nullptr;
}

Result<int> BackingBroker::ask(char request, int descriptor) {
  const std::scoped_lock lock(mutex_);
  if (broker_ == nullptr) return failure(Code::io, "the broker process exited");
  if (request == kOpen && device_ >= 0) std::ignore = broker_->ask(kUseDevice, device_);
  const auto reply = TRY(broker_->ask(request, descriptor));
  if (!reply.text.empty()) return failure(Code::unsupported, fmt::format("the broker refuses: {}", reply.text));
  if (reply.status < 0) return failure(Code::unsupported, reason_of_kernel(-reply.status));
  return reply.status;
}

}  // namespace weightfs
