#include "base/values/base64.h"

#include <openssl/evp.h>

#include <algorithm>

namespace weightfs {
namespace {

const unsigned char* octets(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* octets(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

constexpr size_t kMaxInput = 1 << 30;  // OpenSSL takes an int; callers stay far below

}  // namespace

std::string base64(std::string_view bytes) {
  bytes = bytes.substr(0, kMaxInput);
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL appends a NUL
  out.resize(static_cast<size_t>(EVP_EncodeBlock(octets(out), octets(bytes), static_cast<int>(bytes.size()))));
  return out;
}

std::string base64url(std::string_view bytes) {
  std::string out = base64(bytes);
  while (out.ends_with('=')) out.pop_back();
  std::replace(out.begin(), out.end(), '+', '-');
  std::replace(out.begin(), out.end(), '/', '_');
  return out;
}

// EVP_DecodeBlock() ignores white space around the text, and bits after the last byte. The comparison with the text
// that encodes the result rejects both.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > kMaxInput) return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(octets(out), octets(text), static_cast<int>(text.size())) < 0) return std::nullopt;
  if (text.ends_with('=')) out.pop_back();
  if (text.ends_with("==")) out.pop_back();
  return base64(out) == text ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace weightfs
