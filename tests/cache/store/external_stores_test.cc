// Blobs in external stores.
#include "cache/external_stores.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/os/descriptor.h"
#include "base/os/mounts.h"
#include "cache/blob_store.h"
#include "cache/cache_directory.h"
#include "cache/store/file_range.h"
#include "tests/cache/child_process.h"
#include "tests/cache/test_producer.h"
#include "tests/support/temporary.h"

namespace weightfs::test::external_stores_test {
namespace {

using namespace store;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr const char* kVariables[] = {"HOME",         "OLLAMA_MODELS", "CARTON_CACHE_DIR",
                                      "HF_HUB_CACHE", "HF_HOME",       "XDG_CACHE_HOME"};

constexpr int kPass = 0;
constexpr int kSkip = 77;

class ExternalStoresTest : public testing::Test {
 protected:
  // Ignores the user's own stores.
  ExternalStoresTest() {
    for (const char* name : kVariables) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
      ::unsetenv(name);
    }
  }
  ~ExternalStoresTest() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

  std::vector<std::string> found_in(const ExternalStores& well_known_stores, std::optional<uint64_t> size = {}) {
    std::vector<std::string> paths;
    for (const Candidate& candidate : well_known_stores.find(digest, size, wrong)) {
      EXPECT_EQ(read(*candidate.bytes), describe(bytes)) << candidate.path;
      paths.push_back(candidate.path.substr(temporary.path("").size()));
    }
    return paths;
  }
  std::vector<std::string> found_in(const std::string& place) {
    return found_in(ExternalStores({temporary.path(place)}));
  }

  /// The rescan interval has passed at each lookup.
  ExternalStores::Clock quick_clock() {
    return [this] { return now += std::chrono::seconds(10); };
  }

  std::chrono::steady_clock::time_point now;
  TemporaryDirectory temporary;
  std::string bytes = some_bytes(1000);
  Digest digest = sha256(bytes);
  std::string hex = digest.hex();
  std::vector<std::string> wrong;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST_F(ExternalStoresTest, FindsBlobByEverySupportedName) {
  const std::vector<std::string> names = {"sha256-" + hex,
                                          "sha256:" + hex,
                                          hex,
                                          "sha256/" + hex,
                                          "models--a--b/blobs/" + hex,
                                          "datasets--a/blobs/" + hex,
                                          "spaces--c/blobs/" + hex};
  for (const std::string& name : names)
    for (const std::string& folder : {std::string("in "), std::string("blobs in ")}) {
      const bool within = folder.starts_with("blobs") && !name.ends_with("blobs/" + hex);
      const std::string place = fmt::format("{}{} {}", folder, names.size(), &name - names.data());
      const std::string path = fmt::format("{}{}{}", place, within ? "/blobs/" : "/", name);
      temporary.write(path, bytes);
      EXPECT_THAT(found_in(place), ElementsAre(path));
    }
  temporary.write("carton/" + hex + "/file", bytes);
  EXPECT_THAT(found_in("carton"), ElementsAre("carton/" + hex + "/file"));
  EXPECT_THAT(wrong, IsEmpty());
}

TEST_F(ExternalStoresTest, IgnoresOtherNames) {
  std::string upper = hex;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return std::toupper(c); });
  for (const std::string& name : {hex.substr(1), hex + "0", hex + ".incomplete", "sha512-" + hex, upper, "a/" + hex,
                                  "models--a/snapshots/" + hex, "models/blobs/" + hex})
    temporary.write("place/" + name, bytes);
  EXPECT_THAT(found_in("place"), IsEmpty());
  EXPECT_THAT(wrong, IsEmpty());
}

TEST_F(ExternalStoresTest, FileOfWrongSizeIsReportedAndSkipped) {
  const std::string path = temporary.write("place/sha256-" + hex, bytes);
  EXPECT_THAT(found_in(ExternalStores({temporary.path("place")}), 999), IsEmpty());
  EXPECT_THAT(wrong, ElementsAre(path + ": has 1000 bytes, not 999"));
  EXPECT_THAT(found_in(ExternalStores({temporary.path("place")}), 1000), SizeIs(1));
}

TEST_F(ExternalStoresTest, UnprintableNameIsEscapedInReports) {
  temporary.write("place/models--\n\033[2J/blobs/" + hex, bytes);
  EXPECT_THAT(found_in(ExternalStores({temporary.path("place")}), 999), IsEmpty());
  EXPECT_THAT(wrong, ElementsAre(Not(HasSubstr("\033"))));
  EXPECT_THAT(wrong, ElementsAre(Not(HasSubstr("\n"))));
}

TEST_F(ExternalStoresTest, SymlinksAreFollowedAndDuplicatesReturnedOnce) {
  temporary.write("store/bytes", bytes);
  std::filesystem::create_directories(temporary.path("place/blobs"));
  std::filesystem::create_symlink(temporary.path("store/bytes"), temporary.path("place/" + hex));
  std::filesystem::create_hard_link(temporary.path("store/bytes"), temporary.path("place/blobs/sha256-" + hex));
  std::filesystem::create_symlink("nowhere", temporary.path("place/sha256:" + hex));
  std::filesystem::create_symlink("sha256-" + hex, temporary.path("place/sha256-" + hex));  // to itself
  EXPECT_THAT(found_in("place"), ElementsAre("place/" + hex));
  EXPECT_THAT(wrong, IsEmpty());
}

// Opening a FIFO would wait for a writer.
TEST_F(ExternalStoresTest, OpensOnlyRegularFiles) {
  std::filesystem::create_directories(temporary.path("place/" + hex));
  ASSERT_EQ(::mkfifo(temporary.path("place/sha256-" + hex).c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", temporary.path("place/sha256:" + hex));
  EXPECT_THAT(found_in("place"), IsEmpty());
}

TEST_F(ExternalStoresTest, UserDirectoriesAreSearchedFirstInOrder) {
  const std::vector<std::string> places = {"mine/" + hex,
                                           "ollama/blobs/sha256-" + hex,
                                           "home/.ollama/models/blobs/sha256-" + hex,
                                           "carton/files/" + hex + "/file",
                                           "home/.carton/cache/files/" + hex + "/file",
                                           "hub/models--a/blobs/" + hex,
                                           "hf/hub/models--a/blobs/" + hex,
                                           "xdg/huggingface/hub/models--a/blobs/" + hex,
                                           "home/.cache/huggingface/hub/models--a/blobs/" + hex};
  for (const std::string& place : places) temporary.write(place, bytes);
  ::setenv("HOME", temporary.path("home").c_str(), 1);
  ::setenv("OLLAMA_MODELS", temporary.path("ollama").c_str(), 1);
  ::setenv("CARTON_CACHE_DIR", temporary.path("carton").c_str(), 1);
  ::setenv("HF_HUB_CACHE", temporary.path("hub").c_str(), 1);
  ::setenv("HF_HOME", temporary.path("hf").c_str(), 1);
  ::setenv("XDG_CACHE_HOME", temporary.path("xdg").c_str(), 1);
  EXPECT_EQ(found_in(ExternalStores({temporary.path("mine")})), places);
}

TEST_F(ExternalStoresTest, UsesAbsolutePathsOfEnvironmentReadOnce) {
  temporary.write("home/.ollama/models/blobs/sha256-" + hex, bytes);
  ::setenv("HOME", temporary.path("home").c_str(), 1);
  const ExternalStores well_known_stores({});
  ::setenv("HOME", "/nonexistent", 1);
  EXPECT_THAT(found_in(well_known_stores), SizeIs(1));
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(temporary.path(""));
  ::setenv("HOME", "home", 1);
  EXPECT_THAT(ExternalStores({}).find(digest, {}, wrong), IsEmpty());
  // Directories of the user may be relative to the working directory.
  const ExternalStores relative({"home/.ollama/models"});
  std::filesystem::current_path(here);
  EXPECT_THAT(relative.find(digest, {}, wrong), SizeIs(1));
}

TEST_F(ExternalStoresTest, NewFilesAreFoundAfterRescan) {
  std::filesystem::create_directories(temporary.path("hub"));
  const ExternalStores well_known_stores({temporary.path("hub")}, quick_clock());
  EXPECT_THAT(found_in(well_known_stores), IsEmpty());
  for (int i = 0; i < 50; ++i) {
    const std::string path = fmt::format("hub/models--{}/blobs/{}", i, hex);
    temporary.write(path, bytes);
    EXPECT_THAT(found_in(well_known_stores), ElementsAre(path));
    std::filesystem::remove_all(temporary.path(fmt::format("hub/models--{}", i)));
    EXPECT_THAT(found_in(well_known_stores), IsEmpty());
  }
}

// A new blob in an existing repository does not change the directory of the hub.
TEST_F(ExternalStoresTest, RepositoryListingIsCachedWhileDirectoryIsUnchanged) {
  temporary.write("hub/models--old/refs/main", "");
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, temporary.path("hub").c_str(), times, 0), 0);
  const ExternalStores well_known_stores({temporary.path("hub")}, quick_clock());
  EXPECT_THAT(found_in(well_known_stores), IsEmpty());
  temporary.write("hub/models--new/blobs/" + hex, bytes);
  ASSERT_EQ(::utimensat(AT_FDCWD, temporary.path("hub").c_str(), times, 0), 0);  // hides the change
  EXPECT_THAT(found_in(well_known_stores), IsEmpty());
  const std::string path = "hub/models--old/blobs/" + hex;
  temporary.write(path, bytes);
  EXPECT_THAT(found_in(well_known_stores), ElementsAre(path));
}

// With a coarse clock two changes can have one time: recently changed directories are listed each time.
TEST_F(ExternalStoresTest, ListingOfRecentlyChangedDirectoryIsNotCached) {
  std::filesystem::create_directories(temporary.path("hub"));
  const timespec times[2] = {{::time(nullptr) + 1000, 0}, {::time(nullptr) + 1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, temporary.path("hub").c_str(), times, 0), 0);
  const ExternalStores well_known_stores({temporary.path("hub")}, quick_clock());
  EXPECT_THAT(found_in(well_known_stores), IsEmpty());
  temporary.write("hub/models--new/blobs/" + hex, bytes);
  ASSERT_EQ(::utimensat(AT_FDCWD, temporary.path("hub").c_str(), times, 0), 0);
  EXPECT_THAT(found_in(well_known_stores), SizeIs(1));
}

TEST_F(ExternalStoresTest, ManyMissesListDirectoryOnce) {
  temporary.write("store/blobs/sha256-" + hex, bytes);
  const auto hide_changes = [this] {
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    for (const char* directory : {"store", "store/blobs"})
      ASSERT_EQ(::utimensat(AT_FDCWD, temporary.path(directory).c_str(), times, 0), 0);
  };
  hide_changes();
  const ExternalStores well_known_stores({temporary.path("store")}, [this] { return now; });
  EXPECT_THAT(found_in(well_known_stores), SizeIs(1));
  for (const char* directory : {"store", "store/blobs"})
    temporary.write(fmt::format("{}/{}", directory, sha256("0").hex()), "written later");
  hide_changes();
  for (int i = 0; i < 10'000; ++i) EXPECT_THAT(well_known_stores.find(sha256(std::to_string(i)), {}, wrong), IsEmpty());
  now += std::chrono::seconds(10);
  EXPECT_THAT(well_known_stores.find(sha256("0"), {}, wrong), IsEmpty());
  EXPECT_THAT(found_in(well_known_stores), SizeIs(1));
}

TEST_F(ExternalStoresTest, UnlistableDirectoryIsSearchedByName) {
  temporary.write("place/blobs/sha256-" + hex, bytes);
  std::filesystem::permissions(temporary.path("place/blobs"), std::filesystem::perms(0711));
  std::filesystem::permissions(temporary.path("place"), std::filesystem::perms(0711));
  std::filesystem::permissions(temporary.path(""), std::filesystem::perms(0755));
  Child child([&] {
    if (::geteuid() != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) return kSkip;
    return found_in("place").size() == 1 ? kPass : 1;
  });
  const int status = child.wait();
  if (status == kSkip) GTEST_SKIP() << "this process cannot become another user";
  EXPECT_EQ(status, kPass);
}

TEST_F(ExternalStoresTest, IsThreadSafe) {
  for (int i = 0; i < 100; ++i) temporary.write(fmt::format("hub/models--{}/blobs/{}", i, hex), bytes);
  const ExternalStores well_known_stores({temporary.path("hub")});
  std::atomic<size_t> found = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      std::vector<std::string> own;
      for (int turn = 0; turn < 5; ++turn) found += well_known_stores.find(digest, {}, own).size();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, 4U * 5U * 100U);
}

TEST_F(ExternalStoresTest, UnreadableFileIsReported) {
  const std::string path = temporary.write("place/" + hex, bytes);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  std::filesystem::permissions(temporary.path(""), std::filesystem::perms(0755));
  Child child([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return kSkip;
    if (!found_in("place").empty() || wrong.size() != 1) return 1;
    return wrong[0].starts_with(path + ": ") ? kPass : 2;
  });
  const int status = child.wait();
  if (status == kSkip) GTEST_SKIP() << "this process cannot become another user";
  EXPECT_EQ(status, kPass);
}

// Mounts, in a mount namespace of the child, a file system whose server never replies: access blocks until killed.
int with_hung_mount(const std::string& point, const std::function<int()>& work) {
  const Descriptor server(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (server.number() < 0 || ::unshare(CLONE_NEWNS) != 0) return kSkip;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kSkip;
  const std::string options =
      fmt::format("fd={},rootmode=40000,user_id={},group_id={}", server.number(), ::getuid(), ::getgid());
  if (::mount("weightfs", point.c_str(), "fuse.weightfs", MS_RDONLY, options.c_str()) != 0) return kSkip;
  ::alarm(30);
  return work();
}

TEST_F(ExternalStoresTest, WeightfsMountsAreSkipped) {
  std::filesystem::create_directories(temporary.path("a mount/other/cache"));
  temporary.write("place/" + hex, bytes);
  Child child([&] {
    return with_hung_mount(temporary.path("a mount"), [&] {
      const ExternalStores well_known_stores(
          {temporary.path("a mount"), temporary.path("a mount/below"), temporary.path("place")});
      if (found_in(well_known_stores) != std::vector<std::string>{"place/" + hex}) return 1;
      if (check_not_in_a_mount(temporary.path("a mount"))) return 2;
      if (check_not_in_a_mount(temporary.path("a mount/deep/cache"))) return 3;
      if (!check_not_in_a_mount(temporary.path("a mount beside"))) return 4;
      if (!check_not_in_a_mount(temporary.path("place"))) return 5;
      return kPass;
    });
  });
  const int status = child.wait();
  if (status == kSkip) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(status, kPass);
}

// A mount over a weightfs mount covers it.
TEST_F(ExternalStoresTest, LastMountOnPathDecides) {
  std::filesystem::create_directories(temporary.path("point"));
  Child child([&] {
    return with_hung_mount(temporary.path("point"), [&] {
      if (check_not_in_a_mount(temporary.path("point/cache"))) return 1;
      if (::mount("tmpfs", temporary.path("").c_str(), "tmpfs", 0, "size=1m") != 0) return kSkip;
      return check_not_in_a_mount(temporary.path("point/cache")) ? kPass : 2;
    });
  });
  const int status = child.wait();
  if (status == kSkip) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(status, kPass);
}

}  // namespace
}  // namespace weightfs::test::external_stores_test
