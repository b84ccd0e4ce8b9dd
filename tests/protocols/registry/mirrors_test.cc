// Mirrors of registries: the option --mirror, hosts.toml of containerd, and registries.conf.
#include "protocols/mirrors.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/reading.h"
#include "tests/support/temporary.h"

namespace weightfs::mirrors_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MirrorConfig : public testing::Test {
 protected:
  void write(const std::string& path, std::string_view text) { directory_.write(path, text); }

  // Each mirror as text: the URL of the repository, what it is asked for, and its namespace.
  std::vector<std::string> mirrors(const std::string& registry, const std::string& repository,
                                   const std::vector<Mirror>& given = {}) {
    const MirrorFiles files{directory_.path("certs.d"), directory_.path("registries.conf")};
    std::vector<std::string> lines;
    for (const Mirror& mirror :
         mirrors_for(registry, repository, given, files, [&](const std::string& line) { log_ += line; }))
      lines.push_back(repository_at(mirror, repository) + (mirror.has_digests ? " digests" : "") +
                      (mirror.has_tags ? " tags" : "") + (mirror.name_space.empty() ? "" : " ns=" + mirror.name_space));
    return lines;
  }

  TemporaryDirectory directory_;
  std::string log_;
};

TEST_F(MirrorConfig, OptionNamesOneRegistryOrAll) {
  const Mirror one = well(parse_mirror("ghcr.io=https://mirror.example/"));
  const Mirror all = well(parse_mirror("http://127.0.0.1:5000"));
  EXPECT_THAT(mirrors("ghcr.io", "a/b", {one, all}),
              ElementsAre("https://mirror.example/v2/a/b digests", "http://127.0.0.1:5000/v2/a/b digests"));
  EXPECT_THAT(mirrors("quay.io", "a/b", {one, all}), ElementsAre("http://127.0.0.1:5000/v2/a/b digests"));
}

TEST_F(MirrorConfig, CacheIsNoMirrorOfOneRegistry) {
  EXPECT_TRUE(well(parse_mirror("http://127.0.0.1/v1/blobs/")).is_cache);
  EXPECT_THAT(error_in(parse_mirror("ghcr.io=http://127.0.0.1/v1/blobs")), HasSubstr("leave out HOST="));
  EXPECT_THAT(error_in(parse_mirror("ghcr.io=ftp://x")), HasSubstr("is not a mirror"));
}

TEST_F(MirrorConfig, ContainerdsHostsKeepTheirOrder) {
  write("certs.d/ghcr.io/hosts.toml", R"(
server = "https://ghcr.io"
[host."https://second.example"]
  capabilities = ["pull"]
[host."https://first.example/proxy"]
  capabilities = ["pull", "resolve"]
  override_path = true
  [host."https://first.example/proxy".header]
    x-token = ["a", "b"]
[host."https://push.example"]
  capabilities = ["push"]
[host."https://ghcr.io"]
)");
  EXPECT_THAT(mirrors("ghcr.io", "a/b"), ElementsAre("https://second.example/v2/a/b digests ns=ghcr.io",
                                                     "https://first.example/proxy/a/b digests tags ns=ghcr.io",
                                                     "https://push.example/v2/a/b ns=ghcr.io"));
  const auto found = mirrors_for("ghcr.io", "a", {}, {directory_.path("certs.d"), ""}, {});
  EXPECT_THAT(found[1].headers, ElementsAre("x-token: a", "x-token: b"));
}

TEST_F(MirrorConfig, ContainerdsDirectoriesAreSearchedInOrder) {
  write("certs.d/_default/hosts.toml", "[host.\"https://default.example\"]\n");
  EXPECT_THAT(mirrors("localhost:5000", "a"), ElementsAre(HasSubstr("https://default.example/v2/a")));
  write("certs.d/localhost:5000/hosts.toml", "[host.\"https://colon.example\"]\n");
  EXPECT_THAT(mirrors("localhost:5000", "a"), ElementsAre(HasSubstr("https://colon.example/v2/a")));
  write("certs.d/localhost_5000_/hosts.toml", "[host.\"https://underscore.example\"]\n");
  EXPECT_THAT(mirrors("localhost:5000", "a"), ElementsAre(HasSubstr("https://underscore.example/v2/a")));
}

TEST_F(MirrorConfig, LongestPrefixOfRegistriesApplies) {
  write("registries.conf", R"(
[[registry]]
prefix = "ghcr.io"
[[registry.mirror]]
location = "all.example/ghcr"
[[registry]]
prefix = "ghcr.io/team"
mirror-by-digest-only = true
[[registry.mirror]]
location = "team.example/copies"
[[registry.mirror]]
location = "localhost:5000/t"
insecure = true
pull-from-mirror = "tag-only"
[[registry]]
prefix = "*.example.com"
[[registry.mirror]]
location = "wild.example"
)");
  EXPECT_THAT(mirrors("ghcr.io", "team/model"),
              ElementsAre("https://team.example/v2/copies/model digests", "http://localhost:5000/v2/t/model"));
  EXPECT_THAT(mirrors("ghcr.io", "teams/model"), ElementsAre("https://all.example/v2/ghcr/teams/model digests tags"));
  EXPECT_THAT(mirrors("a.example.com", "m"), ElementsAre("https://wild.example/v2/m digests tags"));
  EXPECT_THAT(mirrors("quay.io", "m"), IsEmpty());
  EXPECT_EQ(log_, "");
}

TEST_F(MirrorConfig, FilesBesideRegistriesReplaceEntries) {
  const auto entry = [](std::string_view prefix, std::string_view mirror) {
    return fmt::format("[[registry]]\nprefix = \"{}\"\n[[registry.mirror]]\nlocation = \"{}\"\n", prefix, mirror);
  };
  write("registries.conf", entry("ghcr.io", "first.example"));
  write("registries.conf.d/20.conf", entry("ghcr.io", "third.example"));
  write("registries.conf.d/10.conf", entry("ghcr.io", "second.example"));
  write("registries.conf.d/30.txt", entry("ghcr.io", "other.example"));
  EXPECT_THAT(mirrors("ghcr.io", "a"), ElementsAre("https://third.example/v2/a digests tags"));
}

TEST_F(MirrorConfig, BrokenFileIsReportedAndNotUsed) {
  write("registries.conf", "[[registry\n");
  EXPECT_THAT(mirrors("ghcr.io", "m"), IsEmpty());
  EXPECT_THAT(log_, HasSubstr("registries.conf: "));
}

TEST_F(MirrorConfig, DirectoryThatIsAnotherFileIsReportedAndTheMainFileUsed) {
  write("registries.conf", "[[registry]]\nprefix = \"ghcr.io\"\n[[registry.mirror]]\nlocation = \"first.example\"\n");
  write("registries.conf.d", "not a directory");
  EXPECT_THAT(mirrors("ghcr.io", "a"), ElementsAre("https://first.example/v2/a digests tags"));
  EXPECT_THAT(log_, HasSubstr("registries.conf.d: Not a directory"));
}

TEST_F(MirrorConfig, UnreadableDirectoryIsReportedAndTheMainFileUsed) {
  write("registries.conf", "[[registry]]\nprefix = \"ghcr.io\"\n[[registry.mirror]]\nlocation = \"first.example\"\n");
  write("registries.conf.d/10.conf", "");
  ASSERT_EQ(::chmod(directory_.path("").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(directory_.path("registries.conf").c_str(), 0644), 0);
  ASSERT_EQ(::chmod(directory_.path("registries.conf.d").c_str(), 0), 0);
  constexpr uid_t kNobody = 65534;
  const uid_t owner = ::geteuid();
  ASSERT_EQ(::seteuid(owner == 0 ? kNobody : owner), 0);  // no mode restricts root
  const auto found = mirrors("ghcr.io", "a");
  ASSERT_EQ(::seteuid(owner), 0);
  ASSERT_EQ(::chmod(directory_.path("registries.conf.d").c_str(), 0755), 0);
  EXPECT_THAT(found, ElementsAre("https://first.example/v2/a digests tags"));
  EXPECT_THAT(log_, HasSubstr("registries.conf.d: Permission denied"));
}

}  // namespace
}  // namespace weightfs::mirrors_test
