#include "cache/store/block_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "base/digest.h"
#include "base/files/file_io.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs::store {
namespace {

constexpr uint64_t kPage = 4096;
constexpr std::string_view kBlocks = "the blocks of a remote file";  // in messages
constexpr std::string_view kBlocksMagic = "weightfs blocks 2\n";
constexpr uint64_t kEntriesPerRead = 4096;
constexpr size_t kMaxIdentity = 3000;  // bytes of the identifying text

using Entry = std::array<uint32_t, 2>;  // the bytes of a block's entry in the map

Entry entry_of(uint32_t crc) { return {crc, ~crc}; }
bool is_present(const Entry& entry) { return entry[1] == ~entry[0]; }
constexpr Entry kAbsent = {};

uint64_t map_offset(uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

uint64_t header_offset(uint64_t size) { return map_offset(size) + BlockFile::blocks_in(size) * sizeof(Entry); }

std::string header_text(uint64_t size, std::string_view identity) {
  std::string text = fmt::format("{}{}\n{}", kBlocksMagic, size, identity);
  text.resize(kPage, '\0');
  return text;
}

// Entries of the map, from that of block `first` on, of a remote file of `size` bytes.
Result<std::vector<Entry>> read_map(int fd, uint64_t size, uint64_t first, uint64_t count) {
  std::vector<Entry> entries(static_cast<size_t>(count));
  TRY_VOID(
      read_fully(fd, map_offset(size) + first * sizeof(Entry), std::as_writable_bytes(std::span(entries)), kBlocks));
  return entries;
}

// The last page of the file.
std::optional<std::string> read_header(int fd) {
  struct stat status {};
  std::string header(kPage, '\0');
  const bool is_read =
      ::fstat(fd, &status) == 0 && static_cast<uint64_t>(status.st_size) >= kPage &&
      read_fully(fd, static_cast<uint64_t>(status.st_size) - kPage, std::as_writable_bytes(std::span(header)), kBlocks);
  return is_read && header.starts_with(kBlocksMagic) ? std::optional(header) : std::nullopt;
}

// The size of the remote file; 0 without a valid header.
uint64_t size_in(const std::optional<std::string>& header) {
  uint64_t size = 0;
  const bool is_read = header && std::sscanf(header->c_str() + kBlocksMagic.size(), "%" SCNu64, &size) == 1;
  return is_read ? size : 0;
}

// How many of the bytes [from, to) are in present blocks.
Result<uint64_t> present_in(int fd, uint64_t size, uint64_t from, uint64_t to) {
  constexpr uint64_t kBlock = BlockFile::kBlock;
  const uint64_t last = BlockFile::blocks_in(to);
  uint64_t present = 0;
  uint64_t block = from / kBlock;
  while (block < last)
    for (const Entry& entry : TRY(read_map(fd, size, block, std::min(last - block, kEntriesPerRead)))) {
      if (is_present(entry)) present += std::min(to, (block + 1) * kBlock) - std::max(from, block * kBlock);
      ++block;
    }
  return present;
}

constexpr std::string_view kBlobIdentity = "sha256 ";

// The first byte is locked while the file is held; the second byte while the header is written, and during publication.
constexpr uint64_t kHeaderLock = 1;

// Locks of open file descriptions (fcntl(2), F_OFD_SETLK) end with the process, and also exclude other objects of this
// process. With F_OFD_SETLKW as the command it waits.
bool lock_range(int fd, short type, uint64_t offset, uint64_t size, int command = F_OFD_SETLK) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(offset);
  range.l_len = static_cast<off_t>(size);
  int done;
  do done = ::fcntl(fd, command, &range);
  while (done != 0 && errno == EINTR);
  return done == 0;
}

// Waits while another process holds the lock of the header.
bool lock_header(int fd) { return lock_range(fd, F_WRLCK, kHeaderLock, 1, F_OFD_SETLKW); }

// Keeps errno.
void unlock_header(int fd) {
  const int error = errno;
  lock_range(fd, F_UNLCK, kHeaderLock, 1);
  errno = error;
}

}  // namespace

std::string blob_identity(const Digest& digest, uint64_t size) {
  return fmt::format("{}{} {}", kBlobIdentity, digest.hex(), size);
}

std::optional<Digest> digest_of_identity(std::string_view identity) {
  if (!identity.starts_with(kBlobIdentity)) return std::nullopt;
  identity.remove_prefix(kBlobIdentity.size());
  return digest_of_hex(identity.substr(0, identity.find(' ')));
}

Result<BlockFilePtr> BlockFile::open(SharedDescriptor file, uint64_t size, std::string_view identity, Space space) {
  if (size > kMaxSize) return failure(Code::resource, fmt::format("larger than {}", human_size(kMaxSize)));
  if (identity.size() > kMaxIdentity) return failure(Code::resource, "the URL is too long to be cached");
  const int fd = file->number();
  const std::string header = header_text(size, identity);
  if (read_header(fd) != header) {
    struct stat status {};
    lock_header(fd);  // other processes may be doing the same
    const bool is_new = ::fstat(fd, &status) == 0 && status.st_size == 0;
    const bool is_written = is_new && write_fully(fd, header_offset(size), std::as_bytes(std::span(header)));
    unlock_header(fd);
    if (is_new && !is_written) return failure(io_error("the cache"));
    if (read_header(fd) != header) return failure(Code::not_found, "the cache: another file has this name");
  }
  return BlockFilePtr(new BlockFile(std::move(file), size, std::string(identity), std::move(space)));
}

std::optional<std::string> BlockFile::identity_of(int fd) {
  const auto header = read_header(fd);
  const size_t line = header ? header->find('\n', kBlocksMagic.size()) : std::string::npos;
  if (line == std::string::npos) return std::nullopt;
  return header->substr(line + 1, header->find('\0', line) - line - 1);
}

Result<BlockFilePtr> BlockFile::of_file(SharedDescriptor file) {
  const auto identity = identity_of(file->number());
  const uint64_t size = size_in(read_header(file->number()));
  const BlockFilePtr opened(
      size == 0 || size > kMaxSize ? nullptr : new BlockFile(std::move(file), size, identity.value_or(""), {}));
  if (opened == nullptr || !identity || opened->is_evicted()) return failure(Code::not_found, "no valid header");
  return opened;
}

bool BlockFile::publish_as(const Descriptor& folder, const std::string& name, const Descriptor& to,
                           const std::string& to_name) {
  const int fd = file_->number();
  lock_header(fd);
  const bool done = is_same_file(folder, name, fd) && ::ftruncate(fd, static_cast<off_t>(size_)) == 0 &&
                    ::renameat(folder.number(), name.c_str(), to.number(), to_name.c_str()) == 0;
  unlock_header(fd);
  return done;
}

bool BlockFile::is_held(int fd) {
  struct flock first {};  // that would not be granted
  first.l_type = F_WRLCK;
  first.l_whence = SEEK_SET;
  first.l_len = 1;
  return ::fcntl(fd, F_OFD_GETLK, &first) == 0 && first.l_type != F_UNLCK;
}

bool BlockFile::evict(const Descriptor& folder, const std::string& name, int fd, Held held) {
  const bool is_free = held == Held::remove ? lock_header(fd) : lock_range(fd, F_WRLCK, 0, 2);  // with the header
  if (!is_free) {
    errno = EBUSY;
    return false;
  }
  const bool done =
      is_same_file(folder, name, fd) && ::unlinkat(folder.number(), name.c_str(), 0) == 0 && ::ftruncate(fd, 0) == 0;
  unlock_header(fd);
  return done;
}

Result<uint64_t> BlockFile::present_bytes(uint64_t from, uint64_t to) const {
  return present_in(file_->number(), size_, from, std::min(to, size_));
}

uint64_t BlockFile::reserved_bytes(int fd) {
  struct stat status {};
  const uint64_t size = size_in(read_header(fd));
  if (size == 0 || ::fstat(fd, &status) != 0) return 0;
  const uint64_t present = present_bytes(fd);
  const uint64_t used = map_offset(present) + header_offset(size) - map_offset(size) + 2 * kPage;  // with the map
  const uint64_t more = on_disk(status) - std::min(on_disk(status), used);
  return std::min(more, size - present) / kBlock * kBlock;
}

uint64_t BlockFile::present_bytes(int fd) {
  const uint64_t size = size_in(read_header(fd));
  return present_in(fd, size, 0, size).value_or(0);
}

bool BlockFile::is_evicted() const {
  struct stat status {};
  return ::fstat(file_->number(), &status) != 0 || (!identity_.empty() && status.st_nlink == 0) ||
         static_cast<uint64_t>(status.st_size) != header_offset(size_) + kPage;
}

bool BlockFile::is_published() const {
  struct stat status {};
  return ::fstat(file_->number(), &status) == 0 && status.st_nlink > 0 &&
         static_cast<uint64_t>(status.st_size) == size_;
}

Result<void> BlockFile::hold() {
  if (is_held_) return {};
  if (!lock_range(file_->number(), F_RDLCK, 0, 1) || is_evicted()) return failure(Code::not_found, "evicted");
  auto allocated = space_.allocate_first(file_->number(), header_offset(size_) + kPage);
  if (!allocated) lock_range(file_->number(), F_UNLCK, 0, 1);
  is_held_ = allocated.has_value();
  return allocated;
}

void BlockFile::release() {
  if (is_held_.exchange(false)) lock_range(file_->number(), F_UNLCK, 0, 1);
}

void BlockFile::free_absent_blocks(Blocks within) {
  if (is_held_ || is_held(file_->number())) return;
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
      ::fallocate(file_->number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                  static_cast<off_t>(to - from));
    set_lock(F_UNLCK, absent);
  }
}

void BlockFile::discard() {
  if (::ftruncate(file_->number(), 0) == 0 && space_.release_unused) space_.release_unused(0);
}

void BlockFile::release_unused_space() {
  if (!is_held_ && space_.release_unused) space_.release_unused(present_bytes(file_->number()));
}

Result<void> BlockFile::reserve(Blocks blocks) {
  if (is_held_) return {};
  return space_.reserve(file_->number(), blocks.first * kBlock, std::min(size_, blocks.last * kBlock));
}

Blocks BlockFile::blocks_of(uint64_t from, uint64_t to) const {
  const uint64_t end = std::min(to, size_);
  return {from / kBlock, blocks_in(end)};
}

uint64_t BlockFile::entry_offset(uint64_t block) const { return map_offset(size_) + block * sizeof(Entry); }

Result<size_t> BlockFile::read(uint64_t offset, std::span<std::byte> out) {
  if (offset >= size_) return size_t{0};
  const uint64_t end = std::min<uint64_t>(size_, offset + out.size());
  const Blocks wanted = blocks_of(offset, end);
  // The map is read each time: `cache verify` may have dropped a block since it was compared.
  const uint64_t count = std::min(wanted.last - wanted.first, kEntriesPerRead);
  auto map = read_map(file_->number(), size_, wanted.first, count);
  if (!map && is_evicted()) return failure(Code::not_found, "evicted");
  std::vector<Entry> entries = TRY(std::move(map));
  entries.erase(std::find_if_not(entries.begin(), entries.end(), is_present), entries.end());
  const uint64_t absent = wanted.first + entries.size();
  if (absent < wanted.last) checked_.remove(absent);
  const uint64_t checked_end = checked_.first_missing({wanted.first, absent});

  const uint64_t present_end = std::min(end, absent * kBlock);
  if (present_end <= offset) return size_t{0};
  const auto target = out.first(static_cast<size_t>(present_end - offset));
  const auto done = read_fully(file_->number(), offset, target, kBlocks);
  if (is_evicted()) return failure(Code::not_found, "evicted");
  TRY_VOID(done);
  const auto unchecked = std::span(entries).subspan(static_cast<size_t>(checked_end - wanted.first));
  const uint64_t right_end = std::min(present_end, TRY(compare(checked_end, unchecked, offset, target)) * kBlock);
  return static_cast<size_t>(right_end > offset ? right_end - offset : 0);
}

// Compares the checksums of present blocks, of which `bytes`, from `offset` on, holds all or a part. Returns the end of
// the first ones that match.
Result<uint64_t> BlockFile::compare(uint64_t first, std::span<const Entry> entries, uint64_t offset,
                                    std::span<const std::byte> bytes) {
  uint64_t block = first;
  for (const Entry& entry : entries) {
    const uint64_t from = block * kBlock;
    const uint64_t to = std::min(size_, from + kBlock);
    const bool is_whole = offset <= from && to <= offset + bytes.size();
    const auto whole =
        bytes.subspan(is_whole ? static_cast<size_t>(from - offset) : 0, is_whole ? static_cast<size_t>(to - from) : 0);
    if (is_whole ? crc32c(whole) != entry[0] : !TRY(check(block, entry[0]))) break;
    ++block;
  }
  checked_.add({first, block});
  return block;
}

Result<std::optional<Blocks>> BlockFile::first_absent(Blocks within, uint64_t compared_end) {
  if (is_evicted()) return failure(Code::not_found, "evicted");
  within.last = std::min(within.last, block_count());
  within.first = checked_.first_missing(within);
  return first_absent_run(within, [&](Blocks of) { return presence(of, compared_end); });
}

// Whether each of the first blocks is present. Before `compared_end`, a block is if its checksum matches.
Result<std::vector<bool>> BlockFile::presence(Blocks of, uint64_t compared_end) {
  const uint64_t count = std::min(of.last - of.first, kEntriesPerRead);
  std::vector<bool> present;
  for (const Entry& entry : TRY(read_map(file_->number(), size_, of.first, count))) {
    const uint64_t block = of.first + present.size();
    present.push_back(is_present(entry) &&
                      (block >= compared_end || checked_.contains(block) || TRY(check(block, entry[0]))));
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
  std::vector<Entry> entries;
  for (size_t at = 0; at < bytes.size(); at += kBlock)
    entries.push_back(entry_of(crc32c(bytes.subspan(at, std::min<size_t>(kBlock, bytes.size() - at)))));
  if (!write_fully(file_->number(), first * kBlock, bytes) ||
      !write_fully(file_->number(), entry_offset(first), std::as_bytes(std::span(entries))))
    return failure(io_error("the cache"));
  checked_.add({first, first + entries.size()});
  return {};
}

Result<bool> BlockFile::is_complete() {
  const auto absent =
      TRY(first_absent_run({complete_until_, block_count()}, [&](Blocks of) { return presence(of, 0); }));
  complete_until_ = absent ? absent->first : block_count();
  return !absent;
}

uint64_t BlockFile::last_written() const {
  struct stat status {};
  if (::fstat(file_->number(), &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(status.st_mtim.tv_nsec);
}

Result<void> BlockFile::flush() {
  if (::fsync(file_->number()) != 0) return failure(io_error("the cache"));
  return {};
}

Result<bool> BlockFile::matches(uint64_t block, uint32_t crc) const {
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(kBlock, size_ - block * kBlock)));
  TRY_VOID(read_fully(file_->number(), block * kBlock, bytes, kBlocks));
  return crc32c(bytes) == crc;
}

// Whether the block has this checksum.
Result<bool> BlockFile::check(uint64_t block, uint32_t crc) {
  if (!TRY(matches(block, crc))) return false;
  checked_.add(block);
  return true;
}

BlockFile::Compared BlockFile::drop_damaged(const std::function<void(uint64_t bytes)>& report) {
  Compared compared;
  const auto compare_all = [&]() -> Result<void> {
    for (uint64_t first = 0; first < block_count(); first += kEntriesPerRead) {
      const uint64_t count = std::min(block_count() - first, kEntriesPerRead);
      uint64_t block = first;
      for (const Entry& entry : TRY(read_map(file_->number(), size_, first, count))) {
        const uint64_t bytes = std::min(kBlock, size_ - block * kBlock);
        if (is_present(entry)) {
          const bool is_right = TRY(matches(block, entry[0]));
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
  const auto entries = read_map(file_->number(), size_, block, 1);
  const auto is_right = entries ? matches(block, (*entries)[0][0]) : failure(entries.error());
  const bool drops = is_right && !*is_right && is_present((*entries)[0]) && !is_evicted();
  const bool is_dropped =
      drops && write_fully(file_->number(), entry_offset(block), std::as_bytes(std::span<const Entry>(&kAbsent, 1)));
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
  return lock_range(file_->number(), type, entry_offset(blocks.first), (blocks.last - blocks.first) * sizeof(Entry));
}

BlockFile::Claim BlockFile::claim(const BlockFilePtr& file, Blocks blocks) {
  if (!file->set_lock(F_WRLCK, blocks)) return nullptr;
  return {file.get(), [file, blocks](const void*) { file->set_lock(F_UNLCK, blocks); }};
}

}  // namespace weightfs::store
