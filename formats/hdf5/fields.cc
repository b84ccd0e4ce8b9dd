#include "formats/hdf5/fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "base/text.h"

namespace weightfs::hdf5 {

Result<std::string_view> Fields::text(uint64_t size) {
  if (size > left())
    return failure(Code::corrupt,
                   fmt::format("a block of {} bytes ends where {} more are needed", block_.size(), size));
  const auto bytes = block_.substr(at_, static_cast<size_t>(size));
  at_ += bytes.size();
  return bytes;
}

Result<uint64_t> Fields::number(size_t bytes) { return little_endian(TRY(text(bytes))); }

Result<uint64_t> Fields::address() {
  const auto bytes = TRY(text(sizes_.address));
  return bytes.find_first_not_of('\xFF') == bytes.npos ? kUndefined : little_endian(bytes);
}

Result<void> Fields::skip(uint64_t size) {
  TRY_VOID(text(size));
  return {};
}

Result<std::string_view> Fields::terminated() {
  const size_t end = block_.find('\0', at_);
  if (end == block_.npos) return failure(Code::corrupt, "a text without its end");
  const auto bytes = TRY(text(end - at_));
  TRY_VOID(skip(1));
  return bytes;
}

Result<void> Fields::align() { return skip((8 - at_ % 8) % 8); }

Result<void> Fields::expect(std::string_view signature, uint8_t version) {
  const auto found = TRY(text(signature.size()));
  if (found != signature)
    return failure(Code::corrupt, fmt::format("{} where {} is needed", quoted(found), quoted(signature)));
  if (const auto number = TRY(this->number(1)); number != version)
    return failure(Code::unsupported, fmt::format("{} of version {}, not {}", signature, number, version));
  return {};
}

// As published in 2006, for bytes.
uint32_t lookup3(std::string_view bytes) {
  uint32_t a = 0xDEADBEEF + static_cast<uint32_t>(bytes.size()), b = a, c = a;
  const auto mix = [&](uint32_t& x, uint32_t& y, uint32_t& z, int bits) {
    x -= z;
    x ^= std::rotl(z, bits);
    z += y;
  };
  const auto add = [&](std::string_view block) {
    a += static_cast<uint32_t>(little_endian(block.substr(0, 4)));
    if (block.size() > 4) b += static_cast<uint32_t>(little_endian(block.substr(4, 4)));
    if (block.size() > 8) c += static_cast<uint32_t>(little_endian(block.substr(8, 4)));
  };
  for (; bytes.size() > 12; bytes.remove_prefix(12)) {
    add(bytes.substr(0, 12));
    mix(a, b, c, 4);
    mix(b, c, a, 6);
    mix(c, a, b, 8);
    mix(a, b, c, 16);
    mix(b, c, a, 19);
    mix(c, a, b, 4);
  }
  if (bytes.empty()) return c;
  add(bytes);
  const auto last = [](uint32_t& x, uint32_t y, int bits) {
    x ^= y;
    x -= std::rotl(y, bits);
  };
  last(c, b, 14);
  last(a, c, 11);
  last(b, a, 25);
  last(c, b, 16);
  last(a, c, 4);
  last(b, a, 14);
  last(c, b, 24);
  return c;
}

Result<void> check_sum(std::string_view block, std::string_view what) {
  if (block.size() < 4) return failure(Code::corrupt, fmt::format("{} of {} bytes", what, block.size()));
  const auto stored = static_cast<uint32_t>(little_endian(block.substr(block.size() - 4)));
  const uint32_t found = lookup3(block.substr(0, block.size() - 4));
  if (stored == found) return {};
  return failure(Code::corrupt, fmt::format("{}: checksum {:08x}, {:08x} needed", what, found, stored));
}

uint32_t fletcher32(std::string_view bytes) {
  constexpr size_t kBlock = 360;  // words whose sums fit 32 bits
  uint32_t low = 0, high = 0;
  const auto fold = [](uint32_t sum) { return (sum & 0xFFFF) + (sum >> 16); };
  const auto byte_at = [&](size_t i) -> uint32_t { return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0; };
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.size(), at + 2 * kBlock);
    for (; at < end; at += 2) high += low += byte_at(at) << 8 | byte_at(at + 1);
    low = fold(low);
    high = fold(high);
  }
  return fold(high) << 16 | fold(low);
}

uint32_t bytes_for(uint64_t limit) { return limit == 0 ? 1 : static_cast<uint32_t>(std::bit_width(limit) + 7) / 8; }

}  // namespace weightfs::hdf5
