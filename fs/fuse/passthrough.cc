#include "fs/fuse/passthrough.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "base/files/leaf.h"
#include "base/files/no_passthrough.h"
#include "base/os/descriptor.h"
#include "fs/fuse/interrupts.h"

namespace weightfs::fuse {

class Passthrough::OpenInode {
 public:
  OpenInode(Passthrough& owner, Ino ino) : owner_(owner), ino_(ino) {}
  ~OpenInode() { owner_.forget(ino_, tier_.backing_id); }
  OpenInode(const OpenInode&) = delete;
  OpenInode& operator=(const OpenInode&) = delete;

  // Chooses the tier for the first open file. The later ones wait, and examine the bytes again if they pass through.
  Result<void> open(const Source& source, const std::function<void()>& on_first) {
    const std::scoped_lock lock(choosing_);
    if (!is_chosen_) {
      tier_ = owner_.choose(source);
      is_chosen_ = true;
      if (tier_.backing_id == 0 && on_first) on_first();
    } else if (tier_.backing_id != 0) {
      const auto file = open_whole_file(source);
      if (!file && file.error().code != Code::unsupported) return tl::unexpected(file.error());
    }
    return {};
  }

  const Tier& tier() const { return tier_; }
  bool is_chosen() const { return is_chosen_; }

 private:
  Passthrough& owner_;
  const Ino ino_;
  std::mutex choosing_;
  std::atomic<bool> is_chosen_ = false;
  Tier tier_;  // constant once it is chosen
};

namespace {

// What linux/fuse.h of Linux 6.9 has. Bits 32 to 63 of the flags of INIT are in flags2.
constexpr uint32_t kInitPassthrough = 1U << (37 - 32);
constexpr uint32_t kOpenPassthrough = 1U << 7;
constexpr size_t kMaxStackDepthOffset = 36;  // in fuse_init_out

// The file systems below a backing file: a local one. With 2 no overlayfs could be mounted on top.
constexpr uint32_t kMaxStackDepth = 1;

// The ioctl(2) commands of Linux 6.9.
struct BackingMap {
  int32_t file;
  uint32_t flags;
  uint64_t padding;
};
constexpr unsigned long kBackingOpen = _IOW(229, 1, BackingMap);
constexpr unsigned long kBackingClose = _IOW(229, 2, uint32_t);

const std::string kNotMounted(to_text(NoPassthrough::not_mounted));
const std::string kNotOffered(to_text(NoPassthrough::no_kernel_support));

struct OpenReply {
  uint64_t handle;
  uint32_t flags;
  uint32_t backing_id;
};

template <class T>
T read_at(std::span<const std::byte> bytes, size_t offset) {
  T value{};
  if (offset < bytes.size()) std::memcpy(&value, &bytes[offset], std::min(sizeof value, bytes.size() - offset));
  return value;
}

}  // namespace

int open_backing_file(int device, int file) {
  BackingMap map{};
  map.file = file;
  return ::ioctl(device, kBackingOpen, &map);
}

bool close_backing_file(int device, uint32_t id) { return ::ioctl(device, kBackingClose, &id) == 0; }

std::array<unsigned long, 2> backing_file_commands() { return {kBackingOpen, kBackingClose}; }

Passthrough::Passthrough(BackingFilesPtr files, std::string reason)
    : files_(std::move(files)), unavailable_(files_ == nullptr ? std::move(reason) : kNotMounted) {}

Result<Passthrough::OpenInodePtr> Passthrough::open(Ino ino, const Source& source,
                                                    const std::function<void()>& on_first) {
  std::shared_ptr<OpenInode> inode;
  {
    const std::scoped_lock lock(mutex_);
    std::weak_ptr<OpenInode>& known = inodes_[ino];
    inode = known.lock();
    if (inode == nullptr) known = inode = std::make_shared<OpenInode>(*this, ino);
  }
  TRY_VOID(inode->open(source, on_first));
  count(inode->tier());
  return inode;
}

void Passthrough::count(const Tier& tier) {
  if (tier.backing_id != 0) {
    ++passthrough_opens_;
    return;
  }
  const std::scoped_lock lock(mutex_);
  const bool has_space = server_opens_.size() < kMaxReasons || server_opens_.contains(tier.reason);
  ++server_opens_[has_space ? tier.reason : "other"];
}

std::map<std::string, uint64_t> Passthrough::server_opens() const {
  const std::scoped_lock lock(mutex_);
  return server_opens_;
}

const Tier& Passthrough::tier(const OpenInode& inode) { return inode.tier(); }

// The kernel does not compare the sizes: a larger file would show more bytes.
Tier Passthrough::choose(const Source& source) {
  if (const std::string reason = unavailable(); !reason.empty()) return {0, reason};
  const auto file = open_whole_file(source);
  if (!file) return {0, file.error().message};
  struct stat status {};
  if (::fstat(file->number(), &status) != 0 || static_cast<uint64_t>(status.st_size) != source.size())
    return {0, std::string(to_text(NoPassthrough::part_of_file))};
  const auto id = files_->open(file->number());
  return id ? Tier{*id} : Tier{0, id.error().message};
}

void Passthrough::forget(Ino ino, uint32_t backing_id) {
  if (backing_id != 0) files_->close(backing_id);
  const std::scoped_lock lock(mutex_);
  const auto known = inodes_.find(ino);
  if (known != inodes_.end() && known->second.expired()) inodes_.erase(known);
}

void Passthrough::start(int device) {
  if (files_ == nullptr) return;
  const auto started = files_->start(device);
  if (!started) set_unavailable(started.error().message);
  expects_init_ = started.has_value();
}

void Passthrough::request_feature([[maybe_unused]] fuse_conn_info& connection) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
  if (files_ == nullptr || unavailable() != kNotMounted) return;
  const bool is_offered = (connection.capable & FUSE_CAP_PASSTHROUGH) != 0;
  // In `want`, as the operation init does: libfuse refuses flags in both `want` and `want_ext`.
  if (is_offered) connection.want |= FUSE_CAP_PASSTHROUGH;
  connection.max_backing_stack_depth = kMaxStackDepth - 1;  // libfuse adds the mount itself
  set_unavailable(is_offered ? "" : kNotOffered);
#endif
}

void Passthrough::set_unavailable(std::string reason) {
  const std::scoped_lock lock(mutex_);
  unavailable_ = std::move(reason);
}

void Passthrough::inspect_request(std::span<const std::byte> request) {
  const auto header = read_at<fuse_in_header>(request, 0);
  if (request.size() <= sizeof header || header.opcode != FUSE_INIT) return;
  const auto init = read_at<fuse_init_in>(request, sizeof header);
  init_ = header.unique;
  const bool is_offered = (init.flags & FUSE_INIT_EXT) != 0 && (init.flags2 & kInitPassthrough) != 0;
  set_unavailable(is_offered ? "" : kNotOffered);
}

std::optional<std::vector<std::byte>> Passthrough::completed_reply(std::span<const std::byte> reply) {
  const auto header = read_at<fuse_out_header>(reply, 0);
  if (header.unique != init_) return std::nullopt;
  expects_init_ = false;
  const bool is_complete = header.error == 0 && reply.size() >= sizeof header + sizeof(fuse_init_out);
  if (!is_complete || !unavailable().empty()) return std::nullopt;
  std::vector<std::byte> completed(reply.begin(), reply.end());
  std::byte* const body = completed.data() + sizeof header;
  fuse_init_out init{};
  std::memcpy(&init, body, sizeof init);
  init.flags |= FUSE_INIT_EXT;
  init.flags2 |= kInitPassthrough;
  std::memcpy(body, &init, sizeof init);
  std::memcpy(body + kMaxStackDepthOffset, &kMaxStackDepth, sizeof kMaxStackDepth);
  return completed;
}

void Passthrough::stop() {
  if (files_ != nullptr) files_->stop();
}

std::string Passthrough::unavailable() const {
  const std::scoped_lock lock(mutex_);
  return unavailable_;
}

std::vector<Passthrough::OpenFile> Passthrough::open_files(size_t limit) const {
  std::vector<std::shared_ptr<OpenInode>> open;  // destroyed without the lock
  std::vector<OpenFile> files;
  const std::scoped_lock lock(mutex_);
  for (const auto& [ino, known] : inodes_) {
    if (files.size() == limit) break;
    const auto& inode = open.emplace_back(known.lock());
    if (inode != nullptr && inode->is_chosen()) files.push_back({ino, inode->tier()});
  }
  return files;
}

int reply_open(fuse_req* request, const fuse_file_info& file, const Tier& tier) {
  if (tier.backing_id == 0) return fuse_reply_open(request, &file);
#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 17)
  // fuse_reply_buf frames any bytes as a successful reply.
  const OpenReply reply{file.fh, kOpenPassthrough | (file.noflush != 0 ? FOPEN_NOFLUSH : 0U), tier.backing_id};
  return fuse_reply_buf(request, reinterpret_cast<const char*>(&reply), sizeof reply);
#else
  fuse_file_info passed = file;
  passed.keep_cache = 0;
  passed.backing_id = static_cast<int32_t>(tier.backing_id);
  return fuse_reply_open(request, &passed);
#endif
}

}  // namespace weightfs::fuse
