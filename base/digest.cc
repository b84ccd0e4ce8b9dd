#include "base/digest.h"

#include <fmt/core.h>
#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <new>
#include <vector>

#include "base/cancel.h"
#include "base/text.h"

namespace weightfs {
namespace {

const EVP_MD* algorithm(const Digest&) { return EVP_sha256(); }
const EVP_MD* algorithm(const Md5&) { return EVP_md5(); }
const EVP_MD* algorithm(const Sha1&) { return EVP_sha1(); }

template <class Bytes>
std::string to_hex(const Bytes& bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kHex[std::to_integer<unsigned>(b) >> 4];
    out += kHex[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

template <class Sum>
std::optional<Sum> of_hex(std::string_view hex) {
  Sum sum;
  if (hex.size() != 2 * sum.bytes.size()) return std::nullopt;
  for (size_t i = 0; i < sum.bytes.size(); ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    sum.bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return sum;
}

}  // namespace

std::string Digest::hex() const { return to_hex(bytes); }
std::string Md5::hex() const { return to_hex(bytes); }
std::string Sha1::hex() const { return to_hex(bytes); }

std::optional<Digest> digest_of_hex(std::string_view hex) { return of_hex<Digest>(hex); }

std::optional<Digest> parse_digest(std::string_view text) {
  constexpr std::string_view kAlgorithm = "sha256:";
  return text.starts_with(kAlgorithm) ? digest_of_hex(text.substr(kAlgorithm.size())) : std::nullopt;
}
std::optional<Md5> md5_of_hex(std::string_view hex) { return of_hex<Md5>(hex); }
std::optional<Sha1> sha1_of_hex(std::string_view hex) { return of_hex<Sha1>(hex); }

template <class Sum>
struct Hasher<Sum>::Context {
  Context() : evp(EVP_MD_CTX_new()) {
    if (evp == nullptr || EVP_DigestInit_ex(evp, algorithm(Sum{}), nullptr) != 1) {
      EVP_MD_CTX_free(evp);
      throw std::bad_alloc();
    }
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* evp;
};

template <class Sum>
Hasher<Sum>::Hasher() : context_(std::make_unique<Context>()) {}
template <class Sum>
Hasher<Sum>::~Hasher() = default;
template <class Sum>
Hasher<Sum>::Hasher(Hasher&&) noexcept = default;

template <class Sum>
void Hasher<Sum>::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

template <class Sum>
Sum Hasher<Sum>::finish() {
  Sum sum;
  EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(sum.bytes.data()), nullptr);
  return sum;
}

template <class Sum>
void Hasher<Sum>::restart() {
  // Without an algorithm the context keeps its own: looking one up again would cost as much as hashing a kilobyte.
  if (EVP_DigestInit_ex(context_->evp, nullptr, nullptr) != 1) throw std::bad_alloc();
}

template class Hasher<Digest>;
template class Hasher<Md5>;
template class Hasher<Sha1>;

Digest sha256(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.finish();
}

namespace {

// The hash of a file of this size in Git, before its content.
Sha1Sum git_blob_hash(uint64_t size) {
  const std::string header = fmt::format("blob {}", size);
  Sha1Sum hash;
  hash.update(std::as_bytes(std::span(header.c_str(), header.size() + 1)));
  return hash;
}

}  // namespace

Sha1 git_blob_id(std::string_view content) {
  Sha1Sum hash = git_blob_hash(content.size());
  hash.update(std::as_bytes(std::span(content)));
  return hash.finish();
}

namespace {

// Gives all bytes of a source to `on_bytes`, piece by piece.
Result<void> read_all(const Source& source, const std::function<void(std::span<const std::byte>)>& on_bytes) {
  constexpr uint64_t kStep = 256 * 1024;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kStep, source.size())));
  for (uint64_t offset = 0; offset < source.size();) {
    if (is_cancelled()) return failure(Code::resource, "cancelled");
    const auto left = static_cast<size_t>(std::min<uint64_t>(buffer.size(), source.size() - offset));
    const size_t got = TRY(source.read(offset, std::span(buffer).first(left)));
    if (got == 0) return failure(Code::io, "the source ended before its size");
    on_bytes(std::span(buffer).first(got));
    offset += got;
  }
  return {};
}

}  // namespace

Result<Digest> sha256(const Source& source, const std::function<void(std::span<const std::byte>)>& on_bytes) {
  Sha256 hash;
  TRY_VOID(read_all(source, [&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    if (on_bytes) on_bytes(bytes);
  }));
  return hash.finish();
}

Result<Sha1> sha1(const Source& source) {
  Sha1Sum hash;
  TRY_VOID(read_all(source, [&](std::span<const std::byte> bytes) { hash.update(bytes); }));
  return hash.finish();
}

Result<Sha1> git_blob_id(const Source& source) {
  Sha1Sum hash = git_blob_hash(source.size());
  TRY_VOID(read_all(source, [&](std::span<const std::byte> bytes) { hash.update(bytes); }));
  return hash.finish();
}

uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes) {
  return ::crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

uint32_t crc32c(std::span<const std::byte> bytes) { return crc32c(0, bytes); }

uint32_t crc32c(uint32_t crc, std::span<const std::byte> bytes) {
  // The library does not change the bytes. Its length is an int.
  auto* next = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  crc = ~crc;
  for (size_t left = bytes.size(); left > 0;) {
    const size_t part = std::min<size_t>(left, size_t{1} << 30);
    crc = ::crc32_iscsi(next, static_cast<int>(part), crc);
    next += part;
    left -= part;
  }
  return ~crc;
}

}  // namespace weightfs
