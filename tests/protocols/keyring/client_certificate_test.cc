// What is accepted as the client certificate of a user.
#include "protocols/client_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <string>

#include "tests/support/temporary.h"

namespace weightfs::test::client_certificate_test {
namespace {

using ::testing::EndsWith;

// What `write` writes.
template <class Write>
std::string pem_of(Write write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  EXPECT_EQ(write(bio), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  const std::string pem(text, static_cast<size_t>(size));
  BIO_free_all(bio);
  return pem;
}

// A key, and a certificate for it that it has signed.
struct Pair {
  Pair() : key(EVP_EC_gen("P-256")) {
    X509* const made = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), 0);
    X509_gmtime_adj(X509_getm_notAfter(made), 3'600);
    X509_set_pubkey(made, key);
    X509_sign(made, key, EVP_sha256());
    certificate = pem_of([&](BIO* bio) { return PEM_write_bio_X509(bio, made); });
    X509_free(made);
  }
  ~Pair() { EVP_PKEY_free(key); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  std::string key_text(const EVP_CIPHER* cipher = nullptr) const {
    std::string password = "secret";
    return pem_of([&](BIO* bio) {
      return PEM_write_bio_PKCS8PrivateKey(bio, key, cipher, cipher == nullptr ? nullptr : password.data(),
                                           cipher == nullptr ? 0 : static_cast<int>(password.size()), nullptr, nullptr);
    });
  }

  EVP_PKEY* const key;
  std::string certificate;
};

std::string refusal(const std::string& pem) {
  const auto checked = check_client_certificate(pem);
  return checked ? "none" : checked.error().message;
}

TEST(ClientCertificate, NeedsAKeyOfItsOwnInTheFile) {
  const Pair one, other;
  EXPECT_EQ(refusal(one.certificate + one.key_text()), "none");
  EXPECT_EQ(refusal("a comment\n" + one.key_text() + one.certificate + other.certificate), "none");
  EXPECT_EQ(refusal(one.certificate), "no private key (PEM) without a password in it");
  EXPECT_EQ(refusal(one.certificate + one.key_text(EVP_aes_128_cbc())),
            "no private key (PEM) without a password in it");
  EXPECT_EQ(refusal(one.key_text()), "no certificate (PEM) in it");
  EXPECT_EQ(refusal(one.certificate + other.key_text()), "its private key is that of another certificate");
}

TEST(ClientCertificate, OtherTextsAreRefused) {
  const Pair one;
  const std::string both = one.certificate + one.key_text();
  for (const std::string& text : {std::string(), std::string("nonsense"), std::string(100, '\0'),
                                  std::string("-----BEGIN CERTIFICATE-----\n"), both.substr(0, both.size() / 2)})
    EXPECT_NE(refusal(text), "none") << text;
  EXPECT_EQ(refusal(std::string(1 << 20, 'x')), "too long for a certificate");
}

TEST(ClientCertificate, FileIsNamedAndPrivate) {
  const Pair one;
  const TemporaryDirectory temporary;
  const std::string file = temporary.write("client.pem", one.certificate + one.key_text());
  ::chmod(file.c_str(), 0600);
  const std::map<std::string, std::string> files = {{"https://h.example:443", file}};
  const auto found = read_client_certificates(files);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->at("https://h.example:443"), one.certificate + one.key_text());
  ::chmod(file.c_str(), 0644);
  EXPECT_EQ(read_client_certificates(files).error().message,
            "--client-certificate: " + file + " is not used: others have access to it; chmod 600");
  temporary.write("client.pem", one.certificate);
  ::chmod(file.c_str(), 0600);
  EXPECT_THAT(read_client_certificates(files).error().message, EndsWith("client.pem: no private key (PEM) without a "
                                                                        "password in it"));
}

}  // namespace
}  // namespace weightfs::test::client_certificate_test
