#include "formats/codec/snappy.h"

#include <fmt/core.h>
#include <snappy-c.h>

namespace weightfs::codec {
namespace {

// An element of three bytes copies at most 64.
constexpr uint64_t kMaxGrowth = 22;

}  // namespace

Result<uint64_t> snappy_size(std::string_view begin, uint64_t stored) {
  size_t size = 0;
  if (snappy_uncompressed_length(begin.data(), begin.size(), &size) != SNAPPY_OK)
    return failure(Code::corrupt, "a Snappy block without its size");
  if (size / kMaxGrowth > stored)
    return failure(Code::corrupt, fmt::format("a Snappy block of {} bytes decodes to {}", stored, size));
  return size;
}

Result<std::string> snappy_decode(std::string_view block) {
  size_t size = TRY(snappy_size(block, block.size()));
  std::string out(size, '\0');
  if (snappy_uncompress(block.data(), block.size(), out.data(), &size) != SNAPPY_OK)
    return failure(Code::corrupt, "invalid data in a Snappy block");
  return out;
}

}  // namespace weightfs::codec
