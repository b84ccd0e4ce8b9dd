#include <isa-l/crc.h>

#include "base/digest.h"

namespace weightfs {

uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes) {
  return ::crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace weightfs
