#include "fs/fuse/server.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/files/leaf.h"

namespace weightfs::fuse {
namespace {

// Rounded down, so that nanoseconds are not negative.
timespec timespec_of(Time time) {
  constexpr Time kSecond = 1'000'000'000;
  const Time nanoseconds = (time % kSecond + kSecond) % kSecond;
  return {(time - nanoseconds) / kSecond, nanoseconds};
}

}  // namespace

double timeout_of(const Attributes& attributes) { return attributes.kind == NodeKind::dynamic ? 0 : kForever; }

struct stat Server::stat_of(Ino ino, const Attributes& attributes) const {
  struct stat out {};
  out.st_ino = ino;
  out.st_mode = attributes.is_directory()           ? S_IFDIR | (0555U & ~params_.ownership.mask)
                : attributes.kind == NodeKind::link ? S_IFLNK | 0777U
                                                    : S_IFREG | (0444U & ~params_.ownership.mask);
  out.st_nlink = attributes.links;
  out.st_uid = params_.ownership.user;
  out.st_gid = params_.ownership.group;
  out.st_size = static_cast<off_t>(attributes.size);
  out.st_blksize = kBlock;
  out.st_blocks = static_cast<blkcnt_t>((attributes.size + 511) / 512);
  out.st_mtim = timespec_of(attributes.modified);
  out.st_atim = out.st_ctim = out.st_mtim;
  return out;
}

fuse_entry_param Server::entry_of(Ino ino, const Attributes& attributes) const {
  fuse_entry_param entry{};
  entry.ino = ino;
  entry.attr = stat_of(ino, attributes);
  entry.entry_timeout = kForever;
  entry.attr_timeout = timeout_of(attributes);
  return entry;
}

Server::Server(Forest& forest, RequestStatistics& statistics, const SessionParams& params)
    : forest_(forest),
      statistics_(statistics),
      params_(params),
      directories_(forest, [this](Ino ino, const Attributes& attributes) { return entry_of(ino, attributes); }) {}

Server::~Server() = default;

Result<HandlePtr> Server::open(Ino ino) {
  SourcePtr source = TRY(forest_.open(ino));
  if (params_.on_open) params_.on_open(ino);
  if (forest_.is_dynamic(ino)) return std::make_shared<Handle>(ino, std::move(source), nullptr, nullptr);
  auto inode = TRY(passthrough().open(ino, *source, [&] { store_small(ino, *source); }));
  return std::make_shared<Handle>(ino, std::move(source), std::move(inode), prefetch());
}

// Whatever fails here fails again, and is reported, when the kernel requests the bytes.
void Server::store_small(Ino ino, const Source& source) {
  const uint64_t size = source.size();
  if (size == 0 || size > SmallFiles::kMaxSize || !is_ready(source)) return;
  if (!small_files_.is_first_open(ino)) return;
  std::array<std::byte, SmallFiles::kMaxSize> buffer;
  const std::span<std::byte> bytes = std::span(buffer).first(size);
  if (!read_exact(source, 0, bytes) || !SmallFiles::store(session_, ino, bytes)) return;
  statistics_.add_bytes_read(size);
  if (prefetch() == nullptr) return;
  prefetch()->begin_file(ino);
  prefetch()->finish_file(ino);
}

void Server::forget_listing(Ino directory) { fuse_lowlevel_notify_inval_inode(session_, directory, 0, 0); }

uint64_t Server::add(HandlePtr handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle.get());
  const std::scoped_lock lock(mutex_);
  if (handle->is_counted) statistics_.opened();
  open_.emplace(number, std::move(handle));
  return number;
}

void Server::close(uint64_t handle) {
  HandlePtr closed;  // destroyed after the lock is released, as it may be slow
  const std::scoped_lock lock(mutex_);
  const auto open = open_.find(handle);
  if (open == open_.end()) return;
  closed = std::move(open->second);
  if (closed->is_counted) statistics_.closed();
  open_.erase(open);
}

void Server::failed(Operation operation, Ino ino, const Error& error) {
  log(operation, error);
  const bool may_have_changed = error.code == Code::io || error.code == Code::absent || is_about_the_bytes(error);
  if (params_.follower != nullptr && may_have_changed && !is_ending_) params_.follower->check(ino, error);
}

void Server::log(Operation operation, const Error& error) {
  constexpr size_t kMaxLoggedErrors = 1000;
  const bool is_only_a_name = error.code == Code::not_found && operation != Operation::read;
  if (is_only_a_name || is_ending_ || !params_.log) return;
  const std::scoped_lock lock(mutex_);
  if (logged_.size() < kMaxLoggedErrors && logged_.insert(error.message).second) params_.log(error.message);
}

}  // namespace weightfs::fuse
