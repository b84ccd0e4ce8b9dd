#include <algorithm>

#include "base/digest.h"
#include "base/text.h"
#include "formats/tar.h"

namespace weightfs::tar {
namespace {

constexpr uint64_t kTrailer = 8;  // the CRC-32 and the size modulo 2^32 of what a member holds
constexpr size_t kHeader = 10;
constexpr std::string_view kMagic = "\x1F\x8B\x08";  // of a member in Deflate
constexpr uint64_t kWindow = 64 * 1024;

uint32_t number(std::string_view bytes, size_t at) {
  uint32_t n = 0;
  for (size_t i = 4; i-- > 0;) n = n << 8 | static_cast<uint8_t>(bytes[at + i]);
  return n;
}

// Whether a member's header is there, by all that it must be: no reserved flags, how hard the writer tried, one of the
// systems. Compressed bytes look like that once in 10^12.
bool is_member(std::string_view header) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(header[i]); };
  return header.size() == kHeader && byte(3) < 32 && (byte(8) == 0 || byte(8) == 2 || byte(8) == 4) &&
         (byte(9) <= 13 || byte(9) == 255);
}

// The sizes, modulo 2^32, of all members that another one follows.
Result<uint32_t> sizes_before(const Source& stored, uint64_t end) {
  uint32_t sizes = 0;
  for (uint64_t at = 0; at + kTrailer + kHeader <= end; at += kWindow) {
    // Windows overlap by what it takes to see a member.
    const std::string window = TRY(read_text(stored, at, std::min(kWindow + kTrailer + kHeader - 1, end - at)));
    for (size_t i = window.find(kMagic, kTrailer); i != window.npos; i = window.find(kMagic, i + 1))
      if (is_member(std::string_view(window).substr(i, kHeader))) sizes += number(window, i - 4);
  }
  return sizes;
}

}  // namespace

void GzipSums::add(std::span<const std::byte> bytes) {
  crc_ = crc32(crc_, bytes);
  size_ += bytes.size();
}

Result<void> GzipSums::check(const Source& stored, uint64_t end) const {
  const std::string trailer = TRY(read_text(stored, end - std::min(end, kTrailer), kTrailer));
  const auto whole = static_cast<uint32_t>(size_);
  const uint32_t size = number(trailer, 4);
  const bool right = size == whole ? number(trailer, 0) == crc_ : size + TRY(sizes_before(stored, end)) == whole;
  if (!right) return failure(Code::corrupt, str("gzip: ", size_, " bytes that do not fit its checksum"));
  return {};
}

}  // namespace weightfs::tar
