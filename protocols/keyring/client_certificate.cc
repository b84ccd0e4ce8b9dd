#include "protocols/client_certificate.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <utility>

#include "base/text.h"
#include "protocols/private_file.h"

namespace weightfs {
namespace {

constexpr size_t kMaxPem = 256 * 1024;

template <auto Free>
struct FreedByLibrary {
  template <class T>
  void operator()(T* value) const {
    Free(value);
  }
};

using PemReader = std::unique_ptr<BIO, FreedByLibrary<BIO_free_all>>;
using OwnedCertificate = std::unique_ptr<X509, FreedByLibrary<X509_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, FreedByLibrary<EVP_PKEY_free>>;

// A key with a password would need a terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*is_for_writing*/, void* /*user*/) { return -1; }

PemReader reader_of(std::string_view pem) {
  return PemReader(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

}  // namespace

Result<void> check_client_certificate(std::string_view pem) {
  if (pem.size() > kMaxPem) return failure(Code::unsupported, "too long for a certificate");
  const auto for_certificate = reader_of(pem);
  const auto for_key = reader_of(pem);
  if (for_certificate == nullptr || for_key == nullptr) return failure(Code::resource, "out of memory");
  const OwnedCertificate certificate(PEM_read_bio_X509(for_certificate.get(), nullptr, &no_password, nullptr));
  const OwnedKey key(PEM_read_bio_PrivateKey(for_key.get(), nullptr, &no_password, nullptr));
  const bool is_pair =
      certificate != nullptr && key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (certificate == nullptr) return failure(Code::unsupported, "no certificate (PEM) in it");
  if (key == nullptr) return failure(Code::unsupported, "no private key (PEM) without a password in it");
  if (!is_pair) return failure(Code::unsupported, "its private key is that of another certificate");
  return {};
}

Result<http::ClientCertificates> read_client_certificates(const std::map<std::string, std::string>& files) {
  http::ClientCertificates found;
  for (const auto& [origin, path] : files) {
    auto pem = read_private_file(path, kMaxPem);
    if (!pem) return failure(pem.error().code, "--client-certificate: " + pem.error().message);
    if (const auto checked = check_client_certificate(*pem); !checked)
      return failure(checked.error().code,
                     fmt::format("--client-certificate: {}: {}", printable(path), checked.error().message));
    found.emplace(origin, std::move(*pem));
  }
  return found;
}

}  // namespace weightfs
