#include "formats/hdf5/filters.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "base/cancel.h"
#include "formats/codec/codec.h"

namespace weightfs::hdf5 {
namespace {

enum FilterId : uint16_t { kDeflate = 1, kShuffle = 2, kFletcher32 = 3, kScaleOffset = 6, kLzf = 32000, kZstd = 32015 };

// The bytes that a filter may add to a chunk: Fletcher-32's checksum, and the prefix of scale-offset.
constexpr uint64_t kMaxAdded = 64;

struct KnownFilter {
  uint16_t id;
  std::string_view name;
};

// Filters that are not undone, with the names that the HDF Group registered.
constexpr std::array kOthers = {
    KnownFilter{4, "szip"},          KnownFilter{5, "nbit"},
    KnownFilter{257, "hzip"},        KnownFilter{258, "fpzip"},
    KnownFilter{305, "LZO"},         KnownFilter{307, "BZIP2"},
    KnownFilter{32001, "BLOSC"},     KnownFilter{32002, "MAFISC"},
    KnownFilter{32003, "Snappy"},    KnownFilter{32004, "LZ4"},
    KnownFilter{32005, "APAX"},      KnownFilter{32006, "CBF"},
    KnownFilter{32007, "JPEG-XR"},   KnownFilter{32008, "bitshuffle"},
    KnownFilter{32009, "SPDP"},      KnownFilter{32010, "LPC-Rice"},
    KnownFilter{32011, "CCSDS-123"}, KnownFilter{32012, "JPEG-LS"},
    KnownFilter{32013, "zfp"},       KnownFilter{32014, "fpzip"},
    KnownFilter{32016, "B3D"},       KnownFilter{32017, "SZ"},
    KnownFilter{32018, "FCIDECOMP"}, KnownFilter{32019, "JPEG"},
    KnownFilter{32020, "VBZ"},       KnownFilter{32021, "FAPEC"},
    KnownFilter{32022, "BitGroom"},  KnownFilter{32023, "Granular BitRound"},
    KnownFilter{32024, "SZ3"},       KnownFilter{32025, "Delta-Rice"},
    KnownFilter{32026, "BLOSC2"},    KnownFilter{32027, "FLAC"},
    KnownFilter{32028, "H5Z-SPERR"}, KnownFilter{32029, "TERSE/PROLIX"},
    KnownFilter{32030, "FFMPEG"},
};

// The filters ask so often whether their work is cancelled.
constexpr uint64_t kStep = 256 * 1024;

Result<void> check_cancelled() {
  return is_cancelled() ? failure(Code::resource, "cancelled while a chunk was decoded") : Result<void>();
}

// The output of deflate or Zstandard.
Result<std::string> decompress(uint16_t filter, SourcePtr stored, uint64_t bytes) {
  const auto stream =
      TRY(filter == kDeflate ? codec::zlib_stream(std::move(stored)) : codec::zstd_stream(std::move(stored)));
  std::string out;
  out.reserve(bytes + kMaxAdded + 1);  // pages that are not written take no memory
  for (size_t size = 0; size <= bytes + kMaxAdded;) {
    out.resize(size + std::min(kStep, bytes + kMaxAdded + 1 - size));
    TRY_VOID(check_cancelled());
    const size_t got = TRY(stream->next(std::as_writable_bytes(std::span(out).subspan(size))));
    size += got;
    if (got > 0) continue;
    out.resize(size);
    return out;
  }
  return failure(Code::corrupt, fmt::format("a chunk of more than {} bytes", bytes));
}

// The first bytes of all elements come first, then the second ones. Elements are restored in groups, which fit into the
// processor's cache.
Result<std::string> unshuffle(std::string shuffled, uint64_t element) {
  constexpr uint64_t kGroup = 256;
  const uint64_t count = element == 0 ? 0 : shuffled.size() / element;
  if (element < 2 || count < 2) return shuffled;
  std::string out = shuffled;  // bytes after the last whole element stay
  for (uint64_t group = 0; group < count; group += kGroup) {
    TRY_VOID(check_cancelled());
    const uint64_t end = std::min(count, group + kGroup);
    for (uint64_t byte = 0; byte < element; ++byte)
      for (uint64_t i = group; i < end; ++i) out[i * element + byte] = shuffled[byte * count + i];
  }
  return out;
}

Result<std::string> check_fletcher32(std::string bytes) {
  if (bytes.size() < 4) return failure(Code::corrupt, "a chunk without its Fletcher-32 checksum");
  const auto stored = static_cast<uint32_t>(little_endian(std::string_view(bytes).substr(bytes.size() - 4)));
  bytes.resize(bytes.size() - 4);
  const uint32_t found = fletcher32(bytes);
  // HDF5 before 1.6.3 swapped the bytes of each half on some machines.
  const uint32_t swapped = (found & 0x00FF00FF) << 8 | (found >> 8 & 0x00FF00FF);
  if (stored != found && stored != swapped)
    return failure(Code::corrupt, fmt::format("Fletcher-32 checksum {:08x}, {:08x} needed", found, stored));
  return bytes;
}

constexpr uint64_t kMaxReference = 264;  // bytes that a reference of LZF repeats

// LibLZF: runs of literal bytes, and references to earlier bytes.
Result<std::string> undo_lzf(const std::string& stored, uint64_t bytes) {
  std::string out;
  out.reserve(bytes + kMaxAdded + kMaxReference);
  size_t at = 0;
  uint64_t next_check = 0;
  const auto next = [&]() -> Result<uint64_t> {
    if (at == stored.size()) return failure(Code::corrupt, "lzf: truncated");
    return static_cast<uint8_t>(stored[at++]);
  };
  while (at < stored.size()) {
    if (at >= next_check) {
      TRY_VOID(check_cancelled());
      next_check = at + kStep;
    }
    const uint64_t control = TRY(next());
    if (control < 32) {
      const uint64_t count = control + 1;
      if (count > stored.size() - at) return failure(Code::corrupt, "lzf: truncated");
      out.append(stored, at, count);
      at += count;
    } else {
      uint64_t count = control >> 5;
      if (count == 7) count += TRY(next());
      const uint64_t back = ((control & 31) << 8 | TRY(next())) + 1;
      if (back > out.size()) return failure(Code::corrupt, "lzf: a reference before the beginning");
      for (count += 2; count > 0; --count) out.push_back(out[out.size() - back]);
    }
    if (out.size() > bytes + kMaxAdded)
      return failure(Code::corrupt, fmt::format("a chunk of more than {} bytes", bytes));
  }
  return out;
}

// The scale-offset filter stores integers as packed differences to their minimum, and floating-point numbers as
// integers after multiplication by a power of ten. Its parameters:
enum Parameter : size_t { kKind = 0, kFactor = 1, kClass = 3, kSize = 4, kOrder = 6, kHasFill = 7, kFill = 8 };

// A chunk begins with the number of bits of a value, and the minimum.
struct PackedHead {
  uint32_t bits;
  uint64_t minimum;
};

constexpr size_t kPrefixSize = 21;

// Numbers of `bits` bits, the highest bit of each first.
class Bits {
 public:
  explicit Bits(std::string_view bytes) : bytes_(bytes) {}
  uint64_t next(uint32_t bits) {
    uint64_t number = 0;
    while (bits > 0) {
      const auto left = static_cast<uint32_t>(8 - at_ % 8);  // of the current byte
      const uint32_t taken = std::min(bits, left);
      const uint32_t byte = static_cast<uint8_t>(bytes_[at_ / 8]);
      number = number << taken | (byte >> (left - taken) & ((1U << taken) - 1));
      at_ += taken;
      bits -= taken;
    }
    return number;
  }

 private:
  std::string_view bytes_;
  uint64_t at_ = 0;
};

// The number with the packed difference `packed`, as its bits.
uint64_t restored(uint64_t packed, const PackedHead& head, const Filter& filter, uint32_t size, bool floating) {
  const bool is_fill = filter.values[kHasFill] != 0 && packed == (uint64_t{1} << head.bits) - 1;
  if (is_fill) return filter.values[kFill] | (size == 8 ? uint64_t{filter.values[kFill + 1]} << 32 : 0);
  if (!floating) return packed + head.minimum;
  const double scale = std::pow(10.0, static_cast<int32_t>(filter.values[kFactor]));
  if (size == 8)
    return std::bit_cast<uint64_t>(static_cast<double>(packed) / scale + std::bit_cast<double>(head.minimum));
  const float minimum = std::bit_cast<float>(static_cast<uint32_t>(head.minimum));
  return std::bit_cast<uint32_t>(static_cast<float>(packed) / static_cast<float>(scale) + minimum);
}

void append_number(std::string& out, uint64_t number, uint32_t size, bool big_endian) {
  for (uint32_t i = 0; i < size; ++i) out.push_back(static_cast<char>(number >> 8 * (big_endian ? size - 1 - i : i)));
}

Result<std::string> undo_scale_offset(std::string_view stored, const Filter& filter, uint64_t bytes) {
  if (filter.values.size() < kFill + 2) return failure(Code::corrupt, "scale-offset: parameters are missing");
  const uint32_t size = filter.values[kSize];
  const bool floating = filter.values[kClass] == 1;
  if ((size != 1 && size != 2 && size != 4 && size != 8) || (floating && (size < 4 || filter.values[kKind] != 0)))
    return failure(Code::unsupported,
                   fmt::format("scale-offset: numbers of {} bytes, kind {}", size, filter.values[kKind]));
  if (stored.size() < kPrefixSize) return failure(Code::corrupt, "scale-offset: truncated");
  const PackedHead head{static_cast<uint32_t>(little_endian(stored.substr(0, 4))),
                        little_endian(stored.substr(5, std::min<size_t>(8, static_cast<uint8_t>(stored[4]))))};
  const std::string_view packed = stored.substr(kPrefixSize);
  const uint64_t count = bytes / size;
  if (head.bits > 8 * size || packed.size() < (count * head.bits + 7) / 8)
    return failure(Code::corrupt, fmt::format("scale-offset: {} bits for each of {} values", head.bits, count));
  const bool big_endian = filter.values[kOrder] == 1;
  std::string out;
  out.reserve(bytes);
  Bits numbers(packed);
  for (uint64_t i = 0; i < count; ++i) {
    if (i % kStep == 0) TRY_VOID(check_cancelled());
    const bool plain = head.bits == 8 * size;
    const uint64_t number = plain ? little_endian(packed.substr(i * size, size)) : numbers.next(head.bits);
    append_number(out, plain ? number : restored(number, head, filter, size, floating), size, big_endian);
  }
  return out;
}

Result<std::string> undo(const Filter& filter, std::string stored, uint64_t bytes) {
  switch (filter.id) {
    case kDeflate:
    case kZstd:
      return decompress(filter.id, in_memory(std::move(stored)), bytes);
    case kShuffle:
      return unshuffle(std::move(stored), filter.values.empty() ? 1 : filter.values[0]);
    case kFletcher32:
      return check_fletcher32(std::move(stored));
    case kScaleOffset:
      return undo_scale_offset(stored, filter, bytes);
    case kLzf:
      return undo_lzf(stored, bytes);
    default:
      return failure(Code::unsupported, fmt::format("filter {}", filter.id));
  }
}

}  // namespace

bool have_checksums(const std::vector<Filter>& filters) {
  return std::ranges::any_of(filters, [](const Filter& each) { return each.id == kDeflate || each.id == kFletcher32; });
}

std::optional<Error> unsupported_filter(const Dataset& dataset, uint32_t skipped) {
  constexpr std::array kUndone = {kDeflate, kShuffle, kFletcher32, kScaleOffset, kLzf, kZstd};
  std::set<uint16_t> seen;
  for (size_t i = 0; i < dataset.filters.size(); ++i) {
    const auto id = dataset.filters[i].id;
    if (!seen.insert(id).second) return Error{Code::unsupported, fmt::format("filter {} more than once", id)};
    if (std::ranges::find(kUndone, id) != kUndone.end() || (skipped >> i & 1) != 0) continue;
    const auto known = std::ranges::find(kOthers, id, &KnownFilter::id);
    return Error{Code::unsupported, fmt::format("filter {}{} is not supported", id,
                                                known == kOthers.end() ? "" : fmt::format(" ({})", known->name))};
  }
  return std::nullopt;
}

Result<std::string> undo_filters(const SourcePtr& stored, std::span<const Filter> filters, uint32_t mask,
                                 uint64_t bytes) {
  const auto is_skipped = [&](size_t filter) { return (mask >> filter & 1) != 0; };
  size_t left = filters.size();
  while (left > 0 && is_skipped(left - 1)) --left;
  // The stored bytes of a chunk that was compressed at last are never in memory at once.
  const bool streamed = left > 0 && (filters[left - 1].id == kDeflate || filters[left - 1].id == kZstd);
  if (left == 0 && stored->size() != bytes)
    return failure(Code::corrupt, fmt::format("a chunk of {} bytes, not {}", stored->size(), bytes));
  std::string chunk =
      TRY(streamed ? decompress(filters[left - 1].id, stored, bytes) : read_text(*stored, 0, stored->size()));
  for (size_t i = streamed ? left - 1 : left; i-- > 0;)
    if (!is_skipped(i)) chunk = TRY(undo(filters[i], std::move(chunk), bytes));
  if (chunk.size() != bytes)
    return failure(Code::corrupt, fmt::format("a chunk of {} bytes, not {}", chunk.size(), bytes));
  return chunk;
}

}  // namespace weightfs::hdf5
