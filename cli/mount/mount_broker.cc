#include "cli/mount/mount_broker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/os/mounts.h"
#include "cli/mount/fusermount.h"
#include "cli/sandbox/temporary_files.h"

namespace weightfs {
namespace {

constexpr char kMount = 'm', kStartUse = 's', kUnmountUnused = 'u', kDetach = 'd', kForget = 'f',
               kRemoveMountPoint = 'r';

// Handles the requests in the broker process.
class MountService {
 public:
  MountService(MountPoint point, fuse::SessionParams params)
      : point_(std::move(point)),
        params_(std::move(params)),
        unmounts_dead_(std::ranges::find(params_.options, "auto_unmount") != params_.options.end()) {
    // libfuse would run fusermount3, which cannot see the descriptors of this process. end() does the same.
    if (::geteuid() == 0) std::erase(params_.options, "auto_unmount");
  }

  sandbox::BrokerReply reply(const sandbox::Broker::Request& request) {
    switch (request.letter) {
      case kMount:
        return mount();
      case kStartUse:
        start_use();
        return {};
      case kUnmountUnused:
        return unmount(Detach::if_unused);
      case kDetach:
        return unmount(Detach::now);
      case kForget:
        mounted_.reset();
        return {};
      case kRemoveMountPoint:
        point_.remove_if_made();
        return {};
      case sandbox::kOpenTemporaryFile:
        return sandbox::open_temporary_file(request.argument);
      case sandbox::Broker::kEnd:
        end();
        return {};
      default:
        return {EINVAL};
    }
  }

 private:
  sandbox::BrokerReply mount() {
    if (state_ != State::not_mounted) return {EINVAL, "already mounted"};
    const auto device = point_.make().and_then([&] { return point_.claim(); }).and_then([&] {
      return needs_old_fusermount() ? mount_by_old_fusermount(params_, point_.target())
                                    : fuse::open_mount(params_, point_.target());
    });
    if (!device) return {EIO, device.error().message};
    state_ = State::mounted;
    mounted_ = Mounts::now().on(point_.path());
    if (mounted_ && !mounted_->is_weightfs()) mounted_.reset();
    return {0, {}, Descriptor(*device)};
  }

  // Redirects the standard descriptors, so that a caller that captures the output does not wait for the broker.
  void start_use() {
    state_ = State::in_use;
    point_.release();
    // Not earlier: at an automount point only the process group of the mounting process may pass (autofs).
    ::setsid();
    const Mounts now = Mounts::now();
    if (const Mount* mount = find_own(now)) fuse::set_readahead(mount->device);
    const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.number(), standard);
  }

  // The mount of this broker, or null. Not searched by its path: another mount may be at it, and the directories above
  // may have been renamed. The kernel reuses ids and device numbers of mounts that are gone.
  const Mount* find_own(const Mounts& now) const {
    const Mount* mount = mounted_ ? now.find(mounted_->id) : nullptr;
    const bool is_own = mount != nullptr && mount->is_weightfs() && mount->device == mounted_->device &&
                        mount->source == mounted_->source;
    return is_own ? mount : nullptr;
  }

  // Fails if the mount is busy, as umount(8) does.
  sandbox::BrokerReply unmount(Detach detach) const {
    const Mounts now = Mounts::now();
    const Mount* mount = find_own(now);
    if (mount == nullptr) return {UnmountResult::refused, "no longer mounted"};
    UnmountResult unmounted = weightfs::unmount(*mount, detach);
    // Falls back to this process if no child could be started.
    if (unmounted.status == UnmountResult::refused) unmounted = unmount_here(*mount, detach);
    return {unmounted.status, unmounted.why};
  }

  // Removes the mount if the server exits before the mount is usable; with auto_unmount also later: fusermount3 of
  // libfuse 3.14 removes a dead mount only if root may enter it.
  void end() {
    if (state_ != State::mounted && !(state_ == State::in_use && unmounts_dead_)) return;
    unmount(Detach::now);
    if (state_ == State::mounted) point_.remove_if_made();
  }

  enum class State { not_mounted, mounted, in_use };

  MountPoint point_;
  fuse::SessionParams params_;
  const bool unmounts_dead_;  // has the option auto_unmount
  State state_ = State::not_mounted;
  std::optional<Mount> mounted_;  // as it was mounted
};

}  // namespace

Result<std::unique_ptr<MountBroker>> MountBroker::start(MountPoint point, fuse::SessionParams params) {
  const std::vector<int> kept = point.descriptors();
  auto service = std::make_shared<MountService>(std::move(point), std::move(params));
  auto broker = TRY(sandbox::Broker::start(
      [service](const sandbox::Broker::Request& request) { return service->reply(request); }, [] {}, kept));
  return std::unique_ptr<MountBroker>(new MountBroker(std::move(broker)));
}

Result<Descriptor> MountBroker::mount() const {
  sandbox::BrokerReply reply = TRY(broker_->ask(kMount));
  if (reply.status != 0) return failure(Code::io, reply.text);
  if (!reply.descriptor) return failure(Code::io, "too many open files");
  return std::move(reply.descriptor);
}

void MountBroker::start_use() const { std::ignore = broker_->ask(kStartUse); }

UnmountResult MountBroker::unmount(Detach detach) const {
  const auto reply = broker_->ask(detach == Detach::now ? kDetach : kUnmountUnused);
  if (!reply) return {UnmountResult::refused, reply.error().message};
  const bool is_known = reply->status >= UnmountResult::done && reply->status <= UnmountResult::unresponsive;
  return {is_known ? static_cast<UnmountResult::Status>(reply->status) : UnmountResult::refused, reply->text};
}

void MountBroker::forget() const { std::ignore = broker_->ask(kForget); }

void MountBroker::remove_mount_point() const { std::ignore = broker_->ask(kRemoveMountPoint); }

}  // namespace weightfs
