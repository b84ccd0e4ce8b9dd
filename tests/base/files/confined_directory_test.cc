#include "base/files/confined_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <thread>

#include "base/files/file_source.h"
#include "base/text.h"
#include "tests/support/temporary.h"

namespace weightfs::confined_directory_test {
namespace {

namespace stdfs = std::filesystem;

constexpr uid_t kOther = 12345;  // no account
constexpr const char* kLinkIsForeign =
    "a symbolic link out of SOURCE is not followed; its owner is not the mounting user; use --follow-links";
constexpr const char* kTargetIsForeign =
    "a symbolic link out of SOURCE is not followed; the owner of its target is not the mounting user; use "
    "--follow-links";

// With openat2(2), and as on a kernel that lacks it.
class ConfinedDirectoryTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    here.write("source/model.bin", "model");
    here.write("source/sub/shard.bin", "shard");
    here.write("outside/secret.bin", "secret");
    rules.use_openat2 = GetParam();
  }

  ConfinedDirectoryPtr directory() const {
    return std::make_shared<const ConfinedDirectory>(
        Descriptor(::open(here.path("source").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), here.path("source"), rules);
  }

  // Its bytes, or the error.
  static std::string read(const ConfinedDirectoryPtr& from, const std::string& name) {
    const auto file = open_file(from, name);
    if (!file) return "error: " + file.error().message;
    const auto bytes = read_text(**file, 0, (*file)->size());
    return bytes ? *bytes : "error: " + bytes.error().message;
  }
  std::string read(const std::string& name) const { return read(directory(), name); }
  std::string refusal(const std::string& name, const char* why) const {
    return fmt::format("error: {}/{}: {}", here.path("source"), name, why);
  }
  void link(const std::string& target, const std::string& name) const {
    stdfs::create_symlink(target, here.path("source/" + name));
  }
  void give(const std::string& name, uid_t user) const {
    ASSERT_EQ(::lchown(here.path(name).c_str(), user, static_cast<gid_t>(-1)), 0);
  }

  TemporaryDirectory here;
  Confinement rules;
};

INSTANTIATE_TEST_SUITE_P(Kernel, ConfinedDirectoryTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "WithOpenat2" : "WithoutOpenat2"; });

TEST_P(ConfinedDirectoryTest, OpensFilesBelow) {
  EXPECT_EQ(read("model.bin"), "model");
  EXPECT_EQ(read("sub/shard.bin"), "shard");
  EXPECT_EQ(open_file(directory(), "absent").error().code, Code::not_found);
  EXPECT_EQ(open_file(directory(), "model.bin/x").error().code, Code::not_found);
}

TEST_P(ConfinedDirectoryTest, FollowsInnerLinksOfAnyOwner) {
  rules.user = kOther;
  link("../model.bin", "sub/up");
  link("sub", "directory");
  link("directory/up", "chain");
  EXPECT_EQ(read("sub/up"), "model");
  EXPECT_EQ(read("directory/shard.bin"), "shard");
  EXPECT_EQ(read("chain"), "model");
}

TEST_P(ConfinedDirectoryTest, FollowsLinksThatLeaveAndReturn) {
  rules.user = kOther;
  link(here.path("source/model.bin"), "absolute");
  link("../source/sub/shard.bin", "around");
  EXPECT_EQ(read("absolute"), "model");
  EXPECT_EQ(read("around"), "shard");
}

TEST_P(ConfinedDirectoryTest, RefusesOutwardLinkOfAnotherUser) {
  rules.user = kOther;
  link("../outside/secret.bin", "relative");
  link(here.path("outside/secret.bin"), "absolute");
  link("../outside", "directory");
  link("relative", "chain");
  for (const char* name : {"relative", "absolute", "directory/secret.bin", "chain"}) {
    EXPECT_EQ(read(name), refusal(name, kLinkIsForeign));
    EXPECT_EQ(open_file(directory(), name).error().code, Code::forbidden);
    EXPECT_FALSE(directory()->examine(name));
  }
  EXPECT_FALSE(directory()->list("directory"));
}

TEST_P(ConfinedDirectoryTest, FollowsOutwardLinkIfMountingUserOwnsLinkAndTarget) {
  link("../outside/secret.bin", "link");
  link("../outside", "directory");
  EXPECT_EQ(read("link"), "secret");
  EXPECT_EQ(read("directory/secret.bin"), "secret");
}

TEST_P(ConfinedDirectoryTest, RefusesOutwardLinkToFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  link("../outside/secret.bin", "link");
  give("outside/secret.bin", kOther);
  EXPECT_EQ(read("link"), refusal("link", kTargetIsForeign));
}

TEST_P(ConfinedDirectoryTest, RefusesOutwardLinkThroughLinkOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  stdfs::create_symlink("secret.bin", here.path("outside/middle"));
  give("outside/middle", kOther);
  link("../outside/middle", "link");
  EXPECT_EQ(read("link"), refusal("link", kLinkIsForeign));
}

TEST_P(ConfinedDirectoryTest, RefusesLinkOfAnotherUserToMountingUsersFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  link("/etc/shadow", "link");
  give("source/link", kOther);
  EXPECT_EQ(read("link"), refusal("link", kLinkIsForeign));
}

TEST_P(ConfinedDirectoryTest, FollowLinksFollowsEveryLink) {
  rules.user = kOther;
  rules.follow_links = true;
  link("../outside/secret.bin", "link");
  EXPECT_EQ(read("link"), "secret");
}

TEST_P(ConfinedDirectoryTest, FollowsAllLinksOfNamedFile) {
  rules.user = kOther;
  link("../outside/secret.bin", "link");
  EXPECT_TRUE(open_file(directory(), "link", ConfinedDirectory::Links::named));
  EXPECT_TRUE(directory()->examine("link", ConfinedDirectory::Links::named));
}

TEST_P(ConfinedDirectoryTest, RefusesNameWithDotDotOutOfDirectory) {
  EXPECT_EQ(open_file(directory(), "../outside/secret.bin").error().code, Code::forbidden);
  EXPECT_EQ(open_file(directory(), "sub/../../outside/secret.bin").error().code, Code::forbidden);
  EXPECT_FALSE(open_file(directory(), std::string("model.bin\0x", 11)));
}

TEST_P(ConfinedDirectoryTest, RefusedOutwardLinkDoesNotRevealWhetherTargetExists) {
  rules.user = kOther;
  link("../outside/absent", "dangling");
  EXPECT_EQ(read("dangling"), refusal("dangling", kLinkIsForeign));
}

TEST_P(ConfinedDirectoryTest, LinkInProcIsJudgedByItsText) {
  rules.user = kOther;
  const Descriptor secret(::open(here.path("outside/secret.bin").c_str(), O_RDONLY | O_CLOEXEC));
  link(fmt::format("/proc/self/fd/{}", secret.number()), "magic");
  EXPECT_EQ(open_file(directory(), "magic").error().code, Code::forbidden);
}

TEST_P(ConfinedDirectoryTest, RefusesLinkLoop) {
  link("b", "a");
  link("a", "b");
  EXPECT_EQ(open_file(directory(), "a").error().code, Code::io);
}

TEST_P(ConfinedDirectoryTest, RefusesFifosDevicesAndDirectoriesAsFiles) {
  ASSERT_EQ(::mkfifo(here.path("source/fifo").c_str(), 0600), 0);
  link("/dev/zero", "device");
  rules.follow_links = true;
  EXPECT_EQ(open_file(directory(), "fifo").error().code, Code::io);
  EXPECT_EQ(open_file(directory(), "device").error().code, Code::io);
  EXPECT_EQ(open_file(directory(), "sub").error().code, Code::io);
  EXPECT_EQ(open_file(directory(), "").error().code, Code::io);
}

TEST_P(ConfinedDirectoryTest, ListsSortedEntriesWithType) {
  link("absent", "a-link");
  const auto entries = directory()->list("").value();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "a-link");
  EXPECT_EQ(entries[1].name, "model.bin");
  EXPECT_EQ(entries[2].name, "sub");
  EXPECT_EQ(directory()->list("sub").value().size(), 1u);
  EXPECT_EQ(directory()->list("absent").error().code, Code::not_found);
}

// semantics 6.1: a replaced file is detected.
TEST_P(ConfinedDirectoryTest, DetectsReplacedFile) {
  const auto file = open_file(directory(), "model.bin").value();
  stdfs::rename(here.write("source/new", "other"), here.path("source/model.bin"));
  EXPECT_EQ(read_text(*file, 0, 5).error().code, Code::io);
}

TEST_P(ConfinedDirectoryTest, FilesHaveIdentityAndOccupiedBytes) {
  const auto file = open_file(directory(), "model.bin").value();
  const auto same = open_file(here.path("source/model.bin")).value();
  EXPECT_EQ(file->identity(), same->identity());
  EXPECT_EQ(file->occupied(), same->occupied());
}

TEST_P(ConfinedDirectoryTest, KeepsOpenedDirectoryWhenItsPathIsReplaced) {
  const ConfinedDirectoryPtr opened = directory();
  stdfs::rename(here.path("source"), here.path("moved"));
  here.write("source/model.bin", "other");
  EXPECT_EQ(read(opened, "model.bin"), "model");
}

// What the owner of SOURCE may not read, root does not show to others.
class RightsTest : public ConfinedDirectoryTest {
 protected:
  void SetUp() override {
    ConfinedDirectoryTest::SetUp();
    rules.rights = UserRights{kOther, {kOther}};
  }
  void mode(const std::string& name, mode_t bits) const { ASSERT_EQ(::chmod(here.path(name).c_str(), bits), 0); }
  std::string denied(const std::string& name) const {
    return refusal(name, "not readable by the owner of SOURCE (uid 12345); root does not show it to other users");
  }
};

INSTANTIATE_TEST_SUITE_P(Kernel, RightsTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "WithOpenat2" : "WithoutOpenat2"; });

TEST_P(RightsTest, FileOfAnotherUserNeedsReadPermissionOfOwner) {
  mode("source/model.bin", 0644);
  EXPECT_EQ(read("model.bin"), "model");
  mode("source/model.bin", 0640);
  EXPECT_EQ(read("model.bin"), denied("model.bin"));
}

TEST_P(RightsTest, FileBelowUnsearchableDirectoryIsRefused) {
  mode("source/sub/shard.bin", 0644);
  mode("source/sub", 0755);
  EXPECT_EQ(read("sub/shard.bin"), "shard");
  mode("source/sub", 0700);
  EXPECT_EQ(read("sub/shard.bin"), denied("sub/shard.bin"));
  EXPECT_EQ(directory()->list("sub").error().code, Code::forbidden);
}

TEST_P(RightsTest, SourceDirectoryItselfIsNotChecked) {
  mode("source", 0700);
  mode("source/model.bin", 0644);
  EXPECT_EQ(read("model.bin"), "model");
  EXPECT_TRUE(directory()->list(""));
}

TEST_P(RightsTest, HardLinkToUnreadableFileIsRefused) {
  mode("outside/secret.bin", 0600);
  stdfs::create_hard_link(here.path("outside/secret.bin"), here.path("source/hard"));
  EXPECT_EQ(read("hard"), denied("hard"));
}

TEST_P(RightsTest, FollowLinksKeepsPermissionCheck) {
  rules.follow_links = true;
  link("../outside/secret.bin", "link");
  mode("outside", 0755);
  mode("outside/secret.bin", 0600);
  mode("", 0755);
  EXPECT_EQ(read("link"), denied("link"));
  mode("outside/secret.bin", 0644);
  EXPECT_EQ(read("link"), "secret");
  mode("outside", 0700);
  EXPECT_EQ(read("link"), denied("link"));
}

TEST_P(RightsTest, NamedFileIsChecked) {
  mode("source/model.bin", 0600);
  EXPECT_FALSE(open_file(directory(), "model.bin", ConfinedDirectory::Links::named));
}

TEST_P(RightsTest, OwnFilesAreCheckedByOwnerBits) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  give("source/model.bin", kOther);
  mode("source/model.bin", 0400);
  EXPECT_EQ(read("model.bin"), "model");
}

// An attacker exchanges a directory for a link to another one, as fast as he can.
TEST_P(ConfinedDirectoryTest, DirectoryReplacedByLinkNeverReturnsOutsideBytes) {
  rules.user = kOther;
  here.write("outside/shard.bin", "secret");
  link("../outside", "trap");
  std::atomic<bool> ended = false;
  std::thread attacker([&] {
    const std::string real = here.path("source/sub");
    const std::string trap = here.path("source/trap");
    while (!ended) ::renameat2(AT_FDCWD, real.c_str(), AT_FDCWD, trap.c_str(), RENAME_EXCHANGE);
  });
  const ConfinedDirectoryPtr opened = directory();
  int right = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string bytes = read(opened, "sub/shard.bin");
    right += bytes == "shard" ? 1 : 0;
    EXPECT_NE(bytes, "secret");
    const auto listed = opened->list("sub");
    EXPECT_TRUE(!listed || listed->size() == 1) << "outside has two entries";
  }
  ended = true;
  attacker.join();
  EXPECT_GT(right, 0);
}

TEST_P(ConfinedDirectoryTest, FileReplacedByLinkOrFifoIsNeitherFollowedNorBlocks) {
  rules.user = kOther;
  link("../outside/secret.bin", "trap");
  ASSERT_EQ(::mkfifo(here.path("source/fifo").c_str(), 0600), 0);
  std::atomic<bool> ended = false;
  std::thread attacker([&] {
    const std::string model = here.path("source/model.bin");
    const std::array<std::string, 2> traps = {here.path("source/trap"), here.path("source/fifo")};
    for (size_t i = 0; !ended; ++i)
      ::renameat2(AT_FDCWD, model.c_str(), AT_FDCWD, traps[i % 2].c_str(), RENAME_EXCHANGE);
  });
  const ConfinedDirectoryPtr opened = directory();
  for (int i = 0; i < 3000; ++i) {
    const auto file = open_file(opened, "model.bin");
    if (!file) continue;
    const auto bytes = read_text(**file, 0, (*file)->size());
    EXPECT_TRUE(!bytes || *bytes == "model");
  }
  ended = true;
  attacker.join();
}

TEST(NamedFile, ReportsFirstNonRootOwnersOfLinksAndDirectories) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TemporaryDirectory here;
  const std::string file = here.write("user/models/m.gguf", "m");
  EXPECT_FALSE(find_named_file(file)->link_owner);
  EXPECT_FALSE(find_named_file(file)->directory_owner);
  ASSERT_EQ(::chown(here.path("user").c_str(), kOther, 0), 0);
  EXPECT_EQ(find_named_file(file)->directory_owner, kOther);
  stdfs::create_symlink("user/models", here.path("link"));
  EXPECT_FALSE(find_named_file(here.path("link/m.gguf"))->link_owner);
  ASSERT_EQ(::lchown(here.path("link").c_str(), kOther, 0), 0);
  EXPECT_EQ(find_named_file(here.path("link/m.gguf"))->link_owner, kOther);
  EXPECT_EQ(find_named_file(here.path("absent")).error().code, Code::not_found);
}

}  // namespace
}  // namespace weightfs::confined_directory_test
