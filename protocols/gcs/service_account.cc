#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <ctime>
#include <memory>
#include <utility>

#include "base/text.h"
#include "base/values/base64.h"
#include "protocols/gcs/token_sources.h"

namespace weightfs::gcs {
namespace {

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;

// Nothing asks for a passphrase.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*is_writing*/, void* /*user*/) { return -1; }

Result<KeyPtr> read_rsa_key(const std::string& pem) {
  constexpr int kMinBits = 2048;
  constexpr int kMaxBits = 8192;
  const std::unique_ptr<BIO, decltype(&::BIO_free)> text(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                         ::BIO_free);
  KeyPtr key(text == nullptr ? nullptr : ::PEM_read_bio_PrivateKey(text.get(), nullptr, no_passphrase, nullptr),
             ::EVP_PKEY_free);
  if (key == nullptr || ::EVP_PKEY_base_id(key.get()) != EVP_PKEY_RSA)
    return failure(Code::forbidden, "its private_key is not an RSA key in PEM");
  if (const int bits = ::EVP_PKEY_bits(key.get()); bits < kMinBits || bits > kMaxBits)
    return failure(Code::forbidden,
                   fmt::format("its private_key has {} bits, {} to {} expected", bits, kMinBits, kMaxBits));
  return key;
}

// RS256 (RFC 7518, section 3.3).
Result<std::string> signature_of(std::string_view text, EVP_PKEY* key) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> context(::EVP_MD_CTX_new(), ::EVP_MD_CTX_free);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  const bool is_begun = context != nullptr &&
                        ::EVP_DigestSignInit(context.get(), nullptr, ::EVP_sha256(), nullptr, key) == 1 &&
                        ::EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) == 1;
  std::string signature(size, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(signature.data());
  if (!is_begun || ::EVP_DigestSign(context.get(), out, &size, bytes, text.size()) != 1)
    return failure(Code::forbidden, "its private_key cannot sign");
  signature.resize(size);
  return signature;
}

}  // namespace

Result<std::string> self_signed_token(const ServiceAccount& account, int64_t now) {
  constexpr int64_t kLifetime = 3600;
  const KeyPtr key = TRY(read_rsa_key(account.private_key));
  const std::string id = account.private_key_id.empty() ? "" : fmt::format(R"(,"kid":"{}")", account.private_key_id);
  const std::string claims = fmt::format(R"({{"iss":"{0}","sub":"{0}","scope":"{1}","iat":{2},"exp":{3}}})",
                                         account.email, kScope, now, now + kLifetime);
  const std::string head = fmt::format(R"({{"alg":"RS256","typ":"JWT"{}}})", id);
  const std::string text = fmt::format("{}.{}", base64url(head), base64url(claims));
  const std::string signature = TRY(signature_of(text, key.get()));
  return fmt::format("{}.{}", text, base64url(signature));
}

}  // namespace weightfs::gcs
