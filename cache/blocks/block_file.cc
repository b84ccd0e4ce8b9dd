#include "cache/blocks/block_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/files/file_io.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs::store {
namespace {

constexpr std::string_view kBlocks = "the blocks of a remote file";  // in messages

// The first byte of the map is locked while the files are held; the second byte is that of HeaderLock.

Error evicted() { return {Code::not_found, "evicted"}; }
Error lost_its_name() { return {Code::not_found, "the cache: another file has this name"}; }

// The size of the data; 0 without a valid header.
uint64_t size_in(int map) {
  const auto header = read_map_header(map);
  return header && header->size <= BlockFile::kMaxSize ? header->size : 0;
}

SharedDescriptor open_shared(const Descriptor& folder, const std::string& name, int flags) {
  Descriptor file(::openat(folder.number(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  return file ? std::make_shared<const Descriptor>(std::move(file)) : nullptr;
}

// The status of a file; zeros on failure.
struct stat status_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) status = {};
  return status;
}

// Whether one of the first `size` bytes of the map is locked; of all if `size` is 0.
bool is_locked(const CachedFiles& files, uint64_t size) {
  struct flock range {};  // that would not be granted
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_len = static_cast<off_t>(size);
  return files.map != nullptr && ::fcntl(files.map->number(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

// Gives the files their sizes, and the map its header. Data of unknown size grow.
bool initialize(const CachedFiles& files, std::optional<uint64_t> size, const MapHeader& header) {
  return ::ftruncate(files.data->number(), static_cast<off_t>(size.value_or(0))) == 0 &&
         ::ftruncate(files.map->number(), static_cast<off_t>(map_size(header.size))) == 0 &&
         write_map_header(files.map->number(), header);
}

// The data of a map, which is new unless another process has just initialized it. Call with the lock of the header.
Result<SharedDescriptor> initialized_data(const Descriptor& folder, const std::string& name,
                                          const SharedDescriptor& map, std::optional<uint64_t> size,
                                          const MapHeader& header) {
  if (!is_same_file(folder, map_name(name), map->number())) return tl::unexpected(lost_its_name());
  if (read_map_header(map->number()) == header) {
    if (auto data = open_shared(folder, name, O_RDWR)) return data;
    if (errno != ENOENT) return failure(io_error("the cache"));  // perhaps no descriptor is left
  }
  if (status_of(map->number()).st_size != 0) return failure(Code::corrupt, "the cache: a file of other bytes");
  ::unlinkat(folder.number(), name.c_str(), 0);  // data without a map
  auto data = open_shared(folder, name, O_RDWR | O_CREAT | O_EXCL);
  if (data != nullptr && initialize({data, map}, size, header)) return data;
  const Error error = io_error("the cache");
  for (const std::string& file : {map_name(name), name}) ::unlinkat(folder.number(), file.c_str(), 0);
  return tl::unexpected(error);
}

// Whether one of the files is missing, or a killed process was writing a new blob. Call with the lock of the header.
bool is_left(const CachedFiles& files) {
  const auto header = read_map_header(files.map->number());
  if (files.data == nullptr || status_of(files.map->number()).st_size == 0) return true;
  return header && is_new_blob(header->identity) && !BlockFile::is_in_use(files);
}

Result<void> check_limits(uint64_t size, std::string_view identity) {
  if (size > BlockFile::kMaxSize)
    return failure(Code::resource, fmt::format("larger than {}", human_size(BlockFile::kMaxSize)));
  if (identity.size() > kMaxIdentity) return failure(Code::resource, "the URL is too long to be cached");
  return {};
}

}  // namespace

CachedFiles open_files(const Descriptor& folder, const std::string& name, int mode) {
  return {open_shared(folder, name, mode), open_shared(folder, map_name(name), mode)};
}

Result<BlockFilePtr> BlockFile::open(const Descriptor& folder, const std::string& name, std::optional<uint64_t> size,
                                     std::string_view identity, Space space) {
  const MapHeader header{MapOf::blocks, size.value_or(kMaxSize), std::string(identity)};
  TRY_VOID(check_limits(header.size, identity));
  CachedFiles files;
  files.map = open_shared(folder, map_name(name), O_RDWR | O_CREAT);
  if (files.map == nullptr) return failure(io_error("the cache"));
  if (read_map_header(files.map->number()) == header) files.data = open_shared(folder, name, O_RDWR);
  if (files.data == nullptr) {
    const HeaderLock lock(files.map->number());  // other processes may be doing the same
    if (lock.is_refused()) return failure(Code::resource, "the cache: another process does not release a lock");
    files.data = TRY(initialized_data(folder, name, files.map, size, header));
  }
  // A map that has lost its name meanwhile may be of other data.
  if (!is_same_file(folder, map_name(name), files.map->number())) return tl::unexpected(lost_its_name());
  return BlockFilePtr(new BlockFile(std::move(files), header.size, header.identity, std::move(space)));
}

Result<BlockFilePtr> BlockFile::create(CachedFiles files, std::optional<uint64_t> size, Space space) {
  const MapHeader header{MapOf::blocks, size.value_or(kMaxSize), ""};
  TRY_VOID(check_limits(header.size, ""));
  if (!initialize(files, size, header)) return failure(io_error("the cache"));
  return BlockFilePtr(new BlockFile(std::move(files), header.size, "", std::move(space)));
}

Result<BlockFilePtr> BlockFile::of_files(CachedFiles files) {
  const auto header = files.data && files.map ? read_map_header(files.map->number()) : std::nullopt;
  const bool is_valid = header && header->of == MapOf::blocks && header->size > 0 && header->size <= kMaxSize;
  const BlockFilePtr opened(is_valid ? new BlockFile(std::move(files), header->size, header->identity, {}) : nullptr);
  if (opened == nullptr || !opened->is_current()) return failure(Code::not_found, "no valid header");
  return opened;
}

// The data first: a blob without a map is hashed once.
bool BlockFile::publish_as(const Digest& digest, const Descriptor& folder, const std::string& name,
                           const Descriptor& blobs, const std::string& blob, const std::string& sums) {
  const HeaderLock lock(map());
  if (lock.is_refused()) {
    errno = EBUSY;
    return false;
  }
  const std::string map_path = map_name(name);
  const bool is_there = is_same_file(folder, name, data()) && is_same_file(folder, map_path, map());
  if (!is_there || ::renameat(folder.number(), name.c_str(), blobs.number(), blob.c_str()) != 0) return false;
  const bool is_kept =
      size_ > kWorthAMap && write_map_header(map(), {MapOf::blob, size_, blob_identity(digest, size_)});
  std::ignore = ::ftruncate(map(), static_cast<off_t>(map_size(size_) + sizeof(MapEntry)));
  if (!is_kept || ::renameat(folder.number(), map_path.c_str(), folder.number(), sums.c_str()) != 0)
    ::unlinkat(folder.number(), map_path.c_str(), 0);
  return true;
}

bool BlockFile::is_held(const CachedFiles& files) { return is_locked(files, 1); }

bool BlockFile::is_in_use(const CachedFiles& files) { return is_locked(files, 0); }

// The lock of the header keeps other processes from creating or publishing the files, so these are opened with it.
std::optional<uint64_t> BlockFile::evict(const Descriptor& folder, const std::string& name, Evict which) {
  const std::string map_path = map_name(name);
  CachedFiles files = open_files(folder, name, O_RDWR);
  // Data without a map get one for its lock.
  if (files.map == nullptr && errno == ENOENT && files.data != nullptr)
    files.map = open_shared(folder, map_path, O_RDWR | O_CREAT);
  if (files.map == nullptr) return std::nullopt;
  const int map = files.map->number();
  if (which != Evict::all && !lock_range(map, F_WRLCK, 0, 1)) {
    errno = EBUSY;
    return std::nullopt;
  }
  const HeaderLock lock(map);
  if (lock.is_refused()) {
    errno = EBUSY;
    return std::nullopt;
  }
  if (!is_same_file(folder, map_path, map)) {
    errno = ENOENT;
    return std::nullopt;
  }
  files.data = open_shared(folder, name, O_RDWR);
  if (which == Evict::left && !is_left(files)) {
    errno = EBUSY;
    return std::nullopt;
  }
  const uint64_t map_space = on_disk(status_of(map));
  const uint64_t data_space = files.data == nullptr ? 0 : on_disk(status_of(files.data->number()));
  // The map last: while it has its name, others wait for its lock.
  if (::ftruncate(map, 0) != 0) return std::nullopt;
  if (files.data != nullptr && ::unlinkat(folder.number(), name.c_str(), 0) == 0)
    std::ignore = ::ftruncate(files.data->number(), 0);
  if (::unlinkat(folder.number(), map_path.c_str(), 0) != 0) return std::nullopt;
  return data_space + map_space;
}

Result<uint64_t> BlockFile::present_bytes(uint64_t from, uint64_t to) const {
  return present_in(map(), from, std::min(to, size_));
}

uint64_t BlockFile::reserved_bytes(const CachedFiles& files) {
  const uint64_t size = files.map == nullptr || files.data == nullptr ? 0 : size_in(files.map->number());
  if (size == 0) return 0;
  constexpr uint64_t kPage = 4096;
  const uint64_t present = present_bytes(files);
  const uint64_t used = (present + kPage - 1) / kPage * kPage;
  const uint64_t space = on_disk(status_of(files.data->number()));
  return std::min(space - std::min(space, used), size - std::min(size, present)) / kBlock * kBlock;
}

uint64_t BlockFile::present_bytes(const CachedFiles& files) {
  return files.map == nullptr ? 0 : present_in(files.map->number(), 0, size_in(files.map->number())).value_or(0);
}

// Not a file that was removed with the whole cache either. A temporary file has no name, and no identity.
bool BlockFile::is_current() const {
  const struct stat status = status_of(map());
  return static_cast<uint64_t>(status.st_size) == map_size_ && (status.st_nlink > 0 || identity_.empty());
}

bool BlockFile::is_evicted() const { return static_cast<uint64_t>(status_of(map()).st_size) < map_size_; }

bool BlockFile::has_blocks() const {
  return present_in(map(), 0, std::min(size_, static_cast<uint64_t>(status_of(data()).st_size))).value_or(1) > 0;
}

Result<void> BlockFile::hold() { return is_held_ ? Result<void>() : hold_first(size_, Eviction::allowed); }

Result<void> BlockFile::hold_first(uint64_t bytes, Eviction eviction) {
  const bool was_held = is_held_;
  if (!was_held && (!lock_range(map(), F_RDLCK, 0, 1) || !is_current())) return tl::unexpected(evicted());
  auto allocated = bytes > 0 ? space_.allocate_first(data(), bytes, eviction) : Result<void>();
  if (allocated && ::fallocate(map(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(map_size(bytes))) != 0 &&
      is_disk_full(errno))
    allocated = failure(Code::resource, io_error("the cache").message);
  if (!allocated && !was_held) lock_range(map(), F_UNLCK, 0, 1);
  is_held_ = was_held || allocated;
  return allocated;
}

// The space beyond is freed once the file has its size.
Result<void> BlockFile::set_end(uint64_t size, std::span<const std::byte> last) {
  size_ = size;
  TRY_VOID(write((size - last.size()) / kBlock, last));
  if (::ftruncate(data(), static_cast<off_t>(size)) != 0) return failure(io_error("the cache"));
  if (space_.release_unused) space_.release_unused(size);
  return {};
}

void BlockFile::release() {
  if (is_held_.exchange(false)) lock_range(map(), F_UNLCK, 0, 1);
}

void BlockFile::free_absent_blocks(Blocks within) {
  if (is_held_ || is_held(files_)) return;
  for (;;) {
    const auto found = first_absent(within, 0);
    if (!found || !*found) return;
    const Blocks absent = **found;
    within.first = absent.last;
    if (!set_lock(F_WRLCK, absent)) continue;
    const uint64_t from = absent.first * kBlock;
    const uint64_t to = std::min(absent.last * kBlock, size_);
    const auto still = first_absent(absent, 0);
    if (still && *still == absent)  // no other process has written them
      ::fallocate(data(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                  static_cast<off_t>(to - from));
    set_lock(F_UNLCK, absent);
  }
}

void BlockFile::discard() {
  if (::ftruncate(map(), 0) == 0 && ::ftruncate(data(), 0) == 0 && space_.release_unused) space_.release_unused(0);
}

void BlockFile::release_unused_space() {
  if (!is_held_ && space_.release_unused) space_.release_unused(present_bytes(files_));
}

Result<void> BlockFile::reserve(Blocks blocks) {
  if (is_held_) return {};
  return space_.reserve(data(), blocks.first * kBlock, std::min(size_, blocks.last * kBlock));
}

Blocks BlockFile::blocks_of(uint64_t from, uint64_t to) const {
  return {from / kBlock, blocks_in(std::min(to, size_))};
}

Result<size_t> BlockFile::read(uint64_t offset, std::span<std::byte> out) {
  if (offset >= size_) return size_t{0};
  const uint64_t end = std::min<uint64_t>(size_, offset + out.size());
  const Blocks wanted = blocks_of(offset, end);
  // The map is read each time: `cache verify` may have dropped a block since it was compared.
  const uint64_t count = std::min(wanted.last - wanted.first, kEntriesPerRead);
  auto read = read_entries(map(), wanted.first, count);
  if (!read && is_evicted()) return tl::unexpected(evicted());
  std::vector<MapEntry> entries = TRY(std::move(read));
  entries.erase(std::ranges::find_if_not(entries, &MapEntry::is_present), entries.end());
  const uint64_t absent = wanted.first + entries.size();
  if (absent < wanted.last) checked_.remove(absent);
  const uint64_t checked_end = checked_.first_missing({wanted.first, absent});

  const uint64_t present_end = std::min(end, absent * kBlock);
  if (present_end <= offset) return size_t{0};
  const auto target = out.first(static_cast<size_t>(present_end - offset));
  const auto done = read_fully(data(), offset, target, kBlocks);
  if (is_evicted()) return tl::unexpected(evicted());
  TRY_VOID(done);
  const auto unchecked = std::span(entries).subspan(static_cast<size_t>(checked_end - wanted.first));
  const uint64_t right_end = std::min(present_end, TRY(compare(checked_end, unchecked, offset, target)) * kBlock);
  return static_cast<size_t>(right_end > offset ? right_end - offset : 0);
}

// Compares the checksums of present blocks, of which `bytes`, from `offset` on, holds all or a part. Returns the end of
// the first ones that match.
Result<uint64_t> BlockFile::compare(uint64_t first, std::span<const MapEntry> entries, uint64_t offset,
                                    std::span<const std::byte> bytes) {
  uint64_t block = first;
  for (const MapEntry& entry : entries) {
    const uint64_t from = block * kBlock;
    const uint64_t to = std::min(size_, from + kBlock);
    const bool is_whole = offset <= from && to <= offset + bytes.size();
    const auto whole =
        bytes.subspan(is_whole ? static_cast<size_t>(from - offset) : 0, is_whole ? static_cast<size_t>(to - from) : 0);
    if (is_whole ? entry_of(whole) != entry : !TRY(check(block, entry))) break;
    ++block;
  }
  checked_.add({first, block});
  return block;
}

Result<std::optional<Blocks>> BlockFile::first_absent(Blocks within, uint64_t compared_end) {
  if (!is_current()) return tl::unexpected(evicted());
  within.last = std::min(within.last, block_count());
  within.first = checked_.first_missing(within);
  return first_absent_run(within, [&](Blocks of) { return presence(of, compared_end); });
}

// Whether each of the first blocks is present. Before `compared_end`, a block is if its checksum matches.
Result<std::vector<bool>> BlockFile::presence(Blocks of, uint64_t compared_end) {
  const uint64_t count = std::min(of.last - of.first, kEntriesPerRead);
  std::vector<bool> present;
  for (const MapEntry& entry : TRY(read_entries(map(), of.first, count))) {
    const uint64_t block = of.first + present.size();
    const bool is_right =
        entry.is_present() && (block >= compared_end || checked_.contains(block) || TRY(check(block, entry)));
    present.push_back(is_right);
  }
  return present;
}

Result<void> BlockFile::write(uint64_t first, std::span<const std::byte> bytes) {
  for (Blocks rest = blocks_of(first * kBlock, first * kBlock + bytes.size());;) {
    const auto absent = TRY(first_absent(rest));
    if (!absent) return {};
    const uint64_t from = absent->first * kBlock;
    const uint64_t to = std::min(size_, absent->last * kBlock);
    TRY_VOID(write_all(absent->first,
                       bytes.subspan(static_cast<size_t>(from - first * kBlock), static_cast<size_t>(to - from))));
    rest.first = absent->last;
  }
}

Result<void> BlockFile::write_all(uint64_t first, std::span<const std::byte> bytes) {
  std::vector<MapEntry> entries;
  for (size_t at = 0; at < bytes.size(); at += kBlock)
    entries.push_back(entry_of(bytes.subspan(at, std::min<size_t>(kBlock, bytes.size() - at))));
  const auto write_both = [&] {
    return write_fully(data(), first * kBlock, bytes) && write_entries(map(), first, entries);
  };
  if (!write_both()) {
    // File systems that cannot reserve space become full during a write.
    const bool may_free = is_disk_full(errno) && is_held_ && space_.free_up;
    const Error error = io_error("the cache");
    if (!may_free || !space_.free_up(bytes.size()) || !write_both()) return tl::unexpected(error);
  }
  checked_.add({first, first + entries.size()});
  return {};
}

Result<uint64_t> BlockFile::complete_until() {
  for (uint64_t block = complete_until_;;) {
    const uint64_t end = std::min(block + kEntriesPerRead, block_count());
    const auto absent = TRY(first_absent_run({block, end}, [&](Blocks of) { return presence(of, 0); }));
    complete_until_ = block = absent ? absent->first : end;
    if (absent || block == block_count()) return block;
  }
}

uint64_t BlockFile::last_written() const {
  const struct stat status = status_of(map());
  return static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(status.st_mtim.tv_nsec);
}

Result<void> BlockFile::flush() {
  if (::fsync(data()) != 0) return failure(io_error("the cache"));
  return {};
}

Result<bool> BlockFile::matches(uint64_t block, const MapEntry& entry) const {
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(kBlock, size_ - block * kBlock)));
  TRY_VOID(read_fully(data(), block * kBlock, bytes, kBlocks));
  return entry_of(bytes) == entry;
}

// Whether the block has this checksum.
Result<bool> BlockFile::check(uint64_t block, const MapEntry& entry) {
  if (!TRY(matches(block, entry))) return false;
  checked_.add(block);
  return true;
}

BlockFile::Compared BlockFile::drop_damaged(const std::function<void(uint64_t bytes)>& report) {
  Compared compared;
  const auto compare_all = [&]() -> Result<void> {
    for (uint64_t first = 0; first < block_count(); first += kEntriesPerRead) {
      const uint64_t count = std::min(block_count() - first, kEntriesPerRead);
      uint64_t block = first;
      for (const MapEntry& entry : TRY(read_entries(map(), first, count))) {
        const uint64_t bytes = std::min(kBlock, size_ - block * kBlock);
        if (entry.is_present()) {
          const bool is_right = TRY(matches(block, entry));
          const bool is_dropped = !is_right && TRY(drop_if_damaged(block));
          compared.blocks += is_right;
          compared.damaged += is_dropped;
          compared.bytes += is_right || is_dropped ? bytes : 0;
          report(bytes);
        }
        ++block;
      }
    }
    return {};
  };
  compared.result = compare_all();
  if (is_evicted()) compared.result = failure(Code::not_found, "evicted");
  return compared;
}

// Its bytes stay: they are what processes that compared the block earlier may be reading. False if it matches by now,
// or if another process is writing it.
Result<bool> BlockFile::drop_if_damaged(uint64_t block) {
  if (!set_lock(F_WRLCK, {block, block + 1})) return false;
  const auto entries = read_entries(map(), block, 1);
  const auto is_right = entries ? matches(block, entries->front()) : failure(entries.error());
  const bool drops = is_right && !*is_right && entries->front().is_present() && is_current();
  const MapEntry absent;
  const bool is_dropped = drops && write_entries(map(), block, std::span(&absent, 1));
  const Error error = io_error("the cache");
  if (is_dropped) {
    checked_.remove(block);
    complete_until_ = 0;
  }
  set_lock(F_UNLCK, {block, block + 1});
  if (!is_right) return tl::unexpected(is_right.error());
  if (drops && !is_dropped) return tl::unexpected(error);
  return is_dropped;
}

bool BlockFile::set_lock(short type, Blocks blocks) const {
  return lock_range(map(), type, entry_offset(blocks.first), (blocks.last - blocks.first) * sizeof(MapEntry));
}

BlockFile::Claim BlockFile::claim(const BlockFilePtr& file, Blocks blocks) {
  if (!file->set_lock(F_WRLCK, blocks)) return nullptr;
  return {file.get(), [file, blocks](const void*) { file->set_lock(F_UNLCK, blocks); }};
}

}  // namespace weightfs::store
