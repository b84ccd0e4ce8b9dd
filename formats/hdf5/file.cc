#include "formats/hdf5/file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "formats/common/limits.h"
#include "formats/grouped.h"

namespace weightfs::hdf5 {
namespace {

// The longest superblock: version 1 with addresses and lengths of 8 bytes.
constexpr uint64_t kSuperblock = 100;

Result<uint64_t> begin_of(const Source& bytes) {
  if (bytes.size() >= kSignature.size() && TRY(read_text(bytes, 0, kSignature.size())) == kSignature) return 0;
  if (const auto behind_user_block = TRY(find_signature(bytes, 512, bytes.size()))) return *behind_user_block;
  return failure(Code::corrupt, "no signature at byte 0, 512, 1024 ...");
}

Result<Sizes> sizes_in(Fields& fields) {
  const auto address = static_cast<uint32_t>(TRY(fields.number(1)));
  const auto length = static_cast<uint32_t>(TRY(fields.number(1)));
  for (const uint32_t size : {address, length})
    if (size != 2 && size != 4 && size != 8)
      return failure(Code::corrupt,
                     fmt::format("addresses of {} and lengths of {} bytes, not 2, 4 or 8", address, length));
  return Sizes{address, length};
}

// What the superblock claims about the whole file.
struct Claims {
  uint64_t base;                 // the superblock's own offset, as it was written
  uint64_t end;                  // of the file
  uint64_t driver = kUndefined;  // the address of what its driver wrote: one that makes several files
};

// Versions 0 and 1, after their version.
Result<Claims> read_old(std::string_view block, File& file) {
  Fields fixed(block, {});
  TRY_VOID(fixed.skip(13));
  file.sizes = TRY(sizes_in(fixed));
  TRY_VOID(fixed.skip(1));
  file.leaf_k = static_cast<uint32_t>(TRY(fixed.number(2)));
  file.internal_k = static_cast<uint32_t>(TRY(fixed.number(2)));
  Fields fields(block, file.sizes);
  TRY_VOID(fields.skip(file.version == 0 ? 24 : 28));
  Claims claims{};
  claims.base = TRY(fields.address());
  TRY_VOID(fields.address());  // of the free space
  claims.end = TRY(fields.address());
  claims.driver = TRY(fields.address());
  TRY_VOID(fields.address());  // of the root group's name
  file.root = TRY(fields.address());
  return claims;
}

// Versions 2 and 3, after their version.
Result<Claims> read_new(std::string_view block, File& file) {
  Fields fixed(block, {});
  TRY_VOID(fixed.skip(9));
  file.sizes = TRY(sizes_in(fixed));
  Fields fields(block, file.sizes);
  TRY_VOID(fields.skip(12));
  Claims claims{};
  claims.base = TRY(fields.address());
  file.extension = TRY(fields.address());
  claims.end = TRY(fields.address());
  file.root = TRY(fields.address());
  TRY_VOID(check_sum(block.substr(0, fields.position() + 4), "superblock"));
  return claims;
}

// The drivers `family` and `multi` (also `split`) divide a file: addresses are not those of this file.
Result<void> check_undivided(const File& file, uint64_t driver) {
  constexpr uint64_t kNameAt = 8, kNameSize = 8;
  const uint64_t there = file.bytes->size() - file.base;
  if (there < kNameAt + kNameSize || driver > there - kNameAt - kNameSize) return {};
  const std::string name = TRY(read_text(*file.bytes, file.base + driver + kNameAt, kNameSize));
  if (name != "NCSAfami" && name != "NCSAmult") return {};
  return failure(Code::unsupported,
                 fmt::format("one of several files that are one for the driver {} of HDF5; join them "
                             "with h5repart or h5repack",
                             name == "NCSAfami" ? "family" : "multi"));
}

}  // namespace

Result<std::optional<uint64_t>> find_signature(const Source& bytes, uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end && at < bytes.size() && bytes.size() - at >= kSignature.size(); at *= 2)
    if (TRY(read_text(bytes, at, kSignature.size())) == kSignature) return at;
  return std::nullopt;
}

Result<File> open(const SourcePtr& bytes) {
  File file;
  file.bytes = bytes;
  file.base = TRY(begin_of(*bytes));
  const uint64_t there = bytes->size() - file.base;
  const std::string block = TRY(read_text(*bytes, file.base, std::min(there, kSuperblock)));
  file.version = block.size() > kSignature.size() ? static_cast<uint8_t>(block[kSignature.size()]) : 0;
  if (file.version > 3)
    return failure(Code::unsupported, fmt::format("superblock of version {}, 0 to 3 are supported", file.version));
  const Claims claims = TRY(file.version < 2 ? read_old(block, file) : read_new(block, file));
  TRY_VOID(check_undivided(file, claims.driver));
  // The end counts from the beginning of the file, as the base does; both may have moved together.
  if (claims.end == kUndefined || claims.base > claims.end)
    return failure(Code::corrupt, "the superblock has no valid end of the file");
  if (const uint64_t size = claims.end - claims.base; size > there)
    return failure(Code::corrupt, fmt::format("the file ends {} early: {} of {} bytes; interrupted download?",
                                              exact_size(size - there), grouped(there), grouped(size)));
  return file;
}

Result<void> Visited::enter(uint64_t address, uint64_t size, uint64_t file_size) {
  if (!addresses_.insert(address).second)
    return failure(Code::corrupt, fmt::format("the block at {} leads back to itself", address));
  if (size > file_size - std::min(bytes_, file_size))
    return failure(Code::corrupt, fmt::format("blocks of more bytes than the file, which has {}", file_size));
  bytes_ += size;
  return {};
}

Result<const std::string*> Metadata::page(uint64_t number) {
  const auto known = pages_.find(number);
  if (known != pages_.end()) return &known->second;
  if (pages_.size() >= kMaxPages) pages_.clear();
  const uint64_t begin = number * kPage;
  TRY_VOID(charge(Cost::step));
  return &pages_.emplace(number, TRY(read_text(*file_.bytes, file_.base + begin, std::min(kPage, size() - begin))))
              .first->second;
}

Result<void> Metadata::read(uint64_t address, std::span<char> out) {
  while (!out.empty()) {
    const std::string& page = *TRY(this->page(address / kPage));
    const uint64_t within = address % kPage;
    const size_t count = std::min<size_t>(out.size(), page.size() - within);
    std::memcpy(out.data(), page.data() + within, count);
    out = out.subspan(count);
    address += count;
  }
  return {};
}

Result<std::string> Metadata::block(uint64_t address, uint64_t size) {
  if (address > this->size() || size > this->size() - address)
    return failure(Code::corrupt, fmt::format("{} bytes at address {} of {}", size, address, this->size()));
  TRY_VOID(charge(Cost::input, size));
  std::string out(static_cast<size_t>(size), '\0');
  TRY_VOID(read(address, out));
  return out;
}

Result<std::string> Metadata::text(uint64_t address, uint64_t end) {
  constexpr uint64_t kStep = 64;
  end = std::min(end, size());
  std::string out;
  while (address < end) {
    const std::string more = TRY(block(address, std::min(kStep, end - address)));
    const size_t stop = more.find('\0');
    out += more.substr(0, stop);
    if (stop != more.npos || out.size() > kMaxNameLength) return out;
    address += more.size();
  }
  return failure(Code::corrupt, fmt::format("a name without its end before address {}", address));
}

}  // namespace weightfs::hdf5
