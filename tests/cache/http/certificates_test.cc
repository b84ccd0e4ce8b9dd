#include "cache/certificates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/support/temporary.h"

namespace weightfs::certificates_test {
namespace {

class CertificatePlaces : public testing::Test {
 protected:
  void SetUp() override { unset(); }
  void TearDown() override { unset(); }
  static void unset() {
    for (const char* const name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"}) ::unsetenv(name);
  }
  Certificates find() const { return Certificates::find(root_.path(".")); }

  TemporaryDirectory root_;
};

TEST_F(CertificatePlaces, NothingIsFoundInAnEmptyRoot) {
  const Certificates none = find();
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.setting, "");
}

TEST_F(CertificatePlaces, FileOfEachDistributionIsFound) {
  for (const char* const place :
       {"etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/ca-bundle.pem",
        "etc/pki/tls/cacert.pem", "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/ssl/cert.pem"}) {
    const std::string path = root_.write(place, "certificate");
    EXPECT_TRUE(std::filesystem::equivalent(find().file, path)) << place;
    EXPECT_EQ(find().directory, "");
    std::filesystem::remove(path);
  }
}

TEST_F(CertificatePlaces, EmptyFilesAndDirectoriesArePassedOver) {
  root_.write("etc/ssl/certs/ca-certificates.crt", "");
  root_.write("etc/pki/tls/certs/1234.0", "certificate");
  EXPECT_EQ(find().file, "");
  EXPECT_TRUE(std::filesystem::equivalent(find().directory, root_.path("etc/ssl/certs")));
  std::filesystem::remove(root_.path("etc/ssl/certs/ca-certificates.crt"));
  EXPECT_TRUE(std::filesystem::equivalent(find().directory, root_.path("etc/pki/tls/certs")));
}

TEST_F(CertificatePlaces, LinkOfTheSystemIsFollowed) {
  root_.write("var/lib/ca-certificates/ca-bundle.pem", "certificate");
  std::filesystem::create_directories(root_.path("etc/ssl"));
  std::filesystem::create_symlink("../../var/lib/ca-certificates/ca-bundle.pem", root_.path("etc/ssl/ca-bundle.pem"));
  EXPECT_TRUE(find().file.ends_with("/etc/ssl/ca-bundle.pem"));
}

TEST_F(CertificatePlaces, SettingsComeFirst) {
  root_.write("etc/ssl/certs/ca-certificates.crt", "certificate");
  ::setenv("SSL_CERT_DIR", "/one:/two", 1);
  EXPECT_EQ(find().directory, "/one:/two");
  EXPECT_TRUE(find().file.ends_with("/etc/ssl/certs/ca-certificates.crt"));
  EXPECT_EQ(find().setting, "SSL_CERT_DIR=/one:/two");
  ::setenv("SSL_CERT_FILE", "/b.pem", 1);
  EXPECT_EQ(find().file, "/b.pem");
  ::setenv("CURL_CA_BUNDLE", "/a.pem", 1);
  EXPECT_EQ(find().file, "/a.pem");
  EXPECT_EQ(find().directory, "/one:/two");
  EXPECT_EQ(find().setting, "CURL_CA_BUNDLE=/a.pem");
  const auto places = Certificates::places();
  EXPECT_NE(std::ranges::find(places, "/a.pem"), places.end());
}

}  // namespace
}  // namespace weightfs::certificates_test
