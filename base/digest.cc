#include "base/digest.h"

#include <openssl/evp.h>

#include <new>
#include <vector>

namespace weightfs {
namespace {

class Sha256 {
 public:
  Sha256() {
    if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  }
  void update(std::span<const std::byte> bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  Digest finish() {
    Digest digest;
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.bytes.data()), nullptr);
    return digest;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
};

}  // namespace

std::string Digest::hex() const {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kHex[std::to_integer<unsigned>(b) >> 4];
    out += kHex[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

Digest sha256(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.finish();
}

Result<Digest> sha256(const Source& source) {
  Sha256 hash;
  std::vector<std::byte> buffer(256 * 1024);
  for (uint64_t offset = 0; offset < source.size();) {
    const size_t got = TRY(source.read(offset, buffer));
    if (got == 0) return failure(Code::io, "the source ended before its size");
    hash.update(std::span(buffer).first(got));
    offset += got;
  }
  return hash.finish();
}

}  // namespace weightfs
