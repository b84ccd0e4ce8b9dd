#include "cli/mount/mount_broker.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/os/mounts.h"
#include "cli/sandbox/temporary_files.h"

namespace weightfs {
namespace {

constexpr char kMount = 'm', kStartUse = 's', kUnmountUnused = 'u', kDetach = 'd', kRemoveMountPoint = 'r';

// In the broker's process.
class MountService {
 public:
  MountService(MountPoint point, Mounting mounting) : point_(std::move(point)), mounting_(std::move(mounting)) {}

  BrokerReply reply(char request, std::string_view argument) {
    switch (request) {
      case kMount:
        return mount();
      case kStartUse:
        start_use();
        return {};
      case kUnmountUnused:
        return unmount(Detach::when_unused);
      case kDetach:
        return unmount(Detach::now);
      case kRemoveMountPoint:
        point_.remove_if_made();
        return {};
      case kOpenTemporaryFile:
        return open_temporary_file(argument);
      case Broker::kEnd:
        end();
        return {};
      default:
        return {EINVAL};
    }
  }

 private:
  BrokerReply mount() {
    if (state_ != State::not_mounted) return {EINVAL, "mounted already"};
    const auto device =
        point_.make().and_then([&] { return point_.claim(); }).and_then([&] { return open_mount(mounting_); });
    if (!device) return {EIO, device.error().message};
    state_ = State::mounted;
    const auto mount = Mounts::now().on(point_.path());
    if (mount && mount->is_weightfs()) id_ = mount->id;
    return {0, {}, Descriptor(*device)};
  }

  // A process that captures the output of the command must not wait for this one.
  void start_use() {
    state_ = State::in_use;
    point_.release();
    // Not before: at an automount point only processes of the group that mounts may pass (autofs).
    ::setsid();
    const Mounts now = Mounts::now();
    if (const Mount* mount = id_ ? now.find(*id_) : nullptr) raise_read_ahead(mount->device);
    const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.number(), standard);
  }

  // A mount that is a process's working directory stays, as with umount(8). One that was detached goes on without a
  // place, where another may be mounted by now.
  BrokerReply unmount(Detach detach) const {
    const Mounts now = Mounts::now();
    const Mount* mount = id_ ? now.find(*id_) : nullptr;
    if (mount == nullptr) return {Unmounted::refused, "it has gone"};
    Unmounted unmounted = weightfs::unmount(*mount, detach);
    // There may be no process for that.
    if (unmounted.end == Unmounted::refused) unmounted = unmount_here(*mount, detach);
    return {unmounted.end, unmounted.why};
  }

  // A mount that nobody could use yet is no use without its server.
  void end() {
    if (state_ != State::mounted) return;
    unmount(Detach::now);
    point_.remove_if_made();
  }

  enum class State { not_mounted, mounted, in_use };

  MountPoint point_;
  const Mounting mounting_;
  State state_ = State::not_mounted;
  std::optional<uint64_t> id_;  // of the mount
};

}  // namespace

Result<std::unique_ptr<MountBroker>> MountBroker::start(MountPoint point, Mounting mounting) {
  auto service = std::make_shared<MountService>(std::move(point), std::move(mounting));
  auto broker = TRY(
      Broker::start([service](char request, std::string_view argument) { return service->reply(request, argument); }));
  return std::unique_ptr<MountBroker>(new MountBroker(std::move(broker)));
}

Result<Descriptor> MountBroker::mount() const {
  BrokerReply reply = TRY(broker_->ask(kMount));
  if (reply.status != 0) return failure(Code::io, reply.text);
  if (!reply.descriptor) return failure(Code::io, "no descriptor is left for the mount");
  return std::move(reply.descriptor);
}

void MountBroker::start_use() const { std::ignore = broker_->ask(kStartUse); }

Unmounted MountBroker::unmount(Detach detach) const {
  const auto reply = broker_->ask(detach == Detach::now ? kDetach : kUnmountUnused);
  if (!reply) return {Unmounted::refused, reply.error().message};
  const bool is_known = reply->status >= Unmounted::done && reply->status <= Unmounted::silent;
  return {is_known ? static_cast<Unmounted::End>(reply->status) : Unmounted::refused, reply->text};
}

void MountBroker::remove_mount_point() const { std::ignore = broker_->ask(kRemoveMountPoint); }

}  // namespace weightfs
