#include "cache/registry/base64.h"

#include <cstddef>
#include <cstdint>

namespace weightfs {
namespace {

constexpr std::string_view kStandard = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kForUrls = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// Three bytes become four characters; what is left of the last three, as many as it needs.
std::string encoded(std::string_view bytes, std::string_view alphabet) {
  std::string out;
  uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<uint8_t>(c);
    for (count += 8; count >= 6; count -= 6) out += alphabet[bits >> (count - 6) & 63];
  }
  if (count > 0) out += alphabet[bits << (6 - count) & 63];
  return out;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out = encoded(bytes, kStandard);
  while (out.size() % 4 != 0) out += '=';
  return out;
}

std::string base64url(std::string_view bytes) { return encoded(bytes, kForUrls); }

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const size_t value = kStandard.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(static_cast<uint8_t>(bits >> count));
  }
  const bool nothing_behind = (bits & ((1U << count) - 1)) == 0;
  return nothing_behind ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace weightfs
