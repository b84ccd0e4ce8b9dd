#include "cache/blocks/block_map.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/cancel.h"
#include "base/files/file_io.h"
#include "base/text.h"

namespace weightfs::store {
namespace {

constexpr uint64_t kHeaderLock = 1;  // the offset of the byte that HeaderLock locks
constexpr std::chrono::milliseconds kPause{1};
constexpr std::chrono::milliseconds kMaxWait{2000};

constexpr size_t kHeader = entry_offset(0);
constexpr std::string_view kOfBlocks = "weightfs blocks 3\n";
constexpr std::string_view kOfBlob = "weightfs sums 2\n";
constexpr std::string_view kBlobIdentity = "sha256 ";
constexpr std::string_view kNewBlob = "new ";

std::string_view magic_of(MapOf of) { return of == MapOf::blob ? kOfBlob : kOfBlocks; }

}  // namespace

MapEntry entry_of(std::span<const std::byte> block) {
  const uint32_t crc = crc32c(block);
  return {crc, ~crc};
}

std::string blob_identity(const Digest& digest, uint64_t size) {
  return fmt::format("{}{} {}", kBlobIdentity, digest.hex(), size);
}

std::optional<Digest> digest_of_identity(std::string_view identity) {
  if (!identity.starts_with(kBlobIdentity)) return std::nullopt;
  identity.remove_prefix(kBlobIdentity.size());
  return digest_of_hex(identity.substr(0, identity.find(' ')));
}

std::string new_blob_identity(const std::string& name) { return fmt::format("{}{}", kNewBlob, name); }

bool is_new_blob(std::string_view identity) { return identity.starts_with(kNewBlob); }

std::optional<MapHeader> read_map_header(int fd) {
  std::array<char, kHeader> page{};
  if (!read_fully(fd, 0, std::as_writable_bytes(std::span(page)), "a map")) return std::nullopt;
  std::string_view text(page.data(), page.size());
  for (const MapOf of : {MapOf::blocks, MapOf::blob}) {
    const std::string_view magic = magic_of(of);
    if (!text.starts_with(magic)) continue;
    text.remove_prefix(magic.size());
    const size_t line = text.find('\n');
    if (line == text.npos) return std::nullopt;
    const auto size = parse_number<uint64_t>(text.substr(0, line));
    text.remove_prefix(line + 1);
    if (!size) return std::nullopt;
    return MapHeader{of, *size, std::string(text.substr(0, text.find('\0')))};
  }
  return std::nullopt;
}

bool write_map_header(int fd, const MapHeader& header) {
  std::string page = fmt::format("{}{}\n{}", magic_of(header.of), header.size, header.identity);
  page.resize(kHeader, '\0');
  return write_fully(fd, 0, std::as_bytes(std::span(page)));
}

Result<std::vector<MapEntry>> read_entries(int fd, uint64_t first, uint64_t count) {
  std::vector<MapEntry> entries(static_cast<size_t>(count));
  TRY_VOID(read_fully(fd, entry_offset(first), std::as_writable_bytes(std::span(entries)), "the map of cached bytes"));
  return entries;
}

bool write_entries(int fd, uint64_t first, std::span<const MapEntry> entries) {
  return write_fully(fd, entry_offset(first), std::as_bytes(entries));
}

Result<uint64_t> present_in(int map, uint64_t from, uint64_t to) {
  const uint64_t last = blocks_in(to);
  uint64_t present = 0;
  uint64_t block = from / kBlock;
  while (block < last)
    for (const MapEntry& entry : TRY(read_entries(map, block, std::min(last - block, kEntriesPerRead)))) {
      if (entry.is_present()) present += std::min(to, (block + 1) * kBlock) - std::max(from, block * kBlock);
      ++block;
    }
  return present;
}

bool lock_range(int fd, short type, uint64_t offset, uint64_t size) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(offset);
  range.l_len = static_cast<off_t>(size);
  int done;
  do done = ::fcntl(fd, F_OFD_SETLK, &range);
  while (done != 0 && errno == EINTR);
  return done == 0;
}

HeaderLock::HeaderLock(int map) : map_(map) {
  for (auto waited = kPause.zero(); !lock_range(map, F_WRLCK, kHeaderLock, 1); waited += kPause) {
    if (errno != EAGAIN && errno != EACCES) return;
    is_refused_ = waited >= kMaxWait || is_cancelled();
    if (is_refused_) return;
    std::this_thread::sleep_for(kPause);
  }
}

HeaderLock::~HeaderLock() {
  const int error = errno;
  if (!is_refused_) lock_range(map_, F_UNLCK, kHeaderLock, 1);
  errno = error;
}

}  // namespace weightfs::store
