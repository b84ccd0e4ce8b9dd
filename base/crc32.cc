#include <isa-l/crc.h>

#include <algorithm>

#include "base/digest.h"

namespace weightfs {

uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes) {
  return ::crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

uint32_t crc32c(std::span<const std::byte> bytes) {
  // The library does not change the bytes. Its length is an int.
  auto* next = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  uint32_t crc = ~uint32_t{0};
  for (size_t left = bytes.size(); left > 0;) {
    const size_t part = std::min<size_t>(left, size_t{1} << 30);
    crc = ::crc32_iscsi(next, static_cast<int>(part), crc);
    next += part;
    left -= part;
  }
  return ~crc;
}

}  // namespace weightfs
