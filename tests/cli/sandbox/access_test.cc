#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/sandbox/sandbox.h"
#include "tests/support/temporary.h"

namespace weightfs::sandbox_access_test {
namespace {

class CertificateRules : public testing::Test {
 protected:
  void SetUp() override { ::setenv("SSL_CERT_DIR", root_.path("certs").c_str(), 1); }
  void TearDown() override { ::unsetenv("SSL_CERT_DIR"); }

  // Links in certs/ to `count` files of another directory.
  void link(size_t count) const {
    std::filesystem::create_directories(root_.path("certs"));
    for (size_t i = 0; i < count; ++i)
      std::filesystem::create_symlink(root_.write(fmt::format("authorities/{}.pem", i), "certificate"),
                                      root_.path(fmt::format("certs/{:08}.0", i)));
  }
  std::vector<std::string> rules() const {
    std::vector<std::string> found;
    for (const std::string& path : sandbox::access_for_fetcher({}).files.read)
      if (path.starts_with(root_.path(""))) found.push_back(path.substr(root_.path("").size()));
    std::ranges::sort(found);
    return found;
  }

  TemporaryDirectory root_;
};

TEST_F(CertificateRules, FewLinksPermitTheirFiles) {
  link(2);
  EXPECT_EQ(rules(), (std::vector<std::string>{"authorities/0.pem", "authorities/1.pem", "certs"}));
}

TEST_F(CertificateRules, ManyLinksToADirectoryTakeOneRule) {
  link(200);
  EXPECT_EQ(rules(), (std::vector<std::string>{"authorities", "certs"}));
}

TEST_F(CertificateRules, ThereAreNoneWhereContainersAreRead) {
  link(2);
  for (const std::string& path : sandbox::access_for({}, {}, {}).files.read)
    EXPECT_FALSE(path.starts_with(root_.path(""))) << path;
}

// Programs replace these files: a rule for a file would hide the next one.
TEST(KeyRules, DirectoriesOfKeyFilesArePermitted) {
  const TemporaryDirectory root;
  root.write("aws/credentials", "");
  const auto permits = [&](const std::vector<std::string>& files) {
    return std::ranges::count(sandbox::access_for_fetcher(files).files.read, root.path("aws")) > 0;
  };
  EXPECT_TRUE(permits({root.path("aws/credentials")}));
  EXPECT_FALSE(permits({}));
}

}  // namespace
}  // namespace weightfs::sandbox_access_test
