#include "cli/mount/backing_broker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/os/system_error.h"
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

// Handles the requests in the broker process. A reply has the backing id as its status, or -errno. With a text the
// broker refuses, otherwise the kernel.
class BackingService {
 public:
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
  static sandbox::BrokerReply open(const Descriptor& device, const Descriptor& file) {
    if (!device) return {-EINVAL, "not mounted yet"};
    if (!is_read_only_file(file)) return {-EINVAL, "not a regular file that is open for reading"};
    const int id = fuse::open_backing_file(device.number(), file.number());
    return {id < 0 ? -errno : id};
  }

  static int close(const Descriptor& device, std::string_view argument) {
    uint32_t id = 0;
    if (argument.size() != sizeof id) return -EINVAL;
    std::memcpy(&id, argument.data(), sizeof id);
    fuse::close_backing_file(device.number(), id);
    return 0;
  }

  // For the next request only: a process that held it would keep the mount of a killed server alive, and fusermount3
  // unmounts only dead mounts (--auto-unmount).
  Descriptor device_;
};

// A caller that captures the output must not wait for the broker.
void close_standard_descriptors() {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.number(), standard);
}

void confine() {
  close_standard_descriptors();
  ::prctl(PR_SET_NAME, "weightfs-pass");
  if (!sandbox::confine_broker_of_backing_files()) std::_Exit(1);
}

std::string reason_of(int error) {
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
  const auto service = std::make_shared<BackingService>();
  auto broker = TRY(sandbox::Broker::start(
      [service](sandbox::Broker::Request request) { return service->reply(std::move(request)); }, confine));
  return fuse::BackingFilesPtr(new BackingBroker(std::move(broker)));
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
  if (reply.status < 0) return failure(Code::unsupported, reason_of(-reply.status));
  return reply.status;
}

}  // namespace weightfs
