#include "fs/living/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/eventually.h"
#include "tests/support/may_open.h"
#include "tests/support/temporary.h"

namespace weightfs::follower_test {
namespace {

using std::chrono::milliseconds;
using test::eventually;
using testing::Contains;

// A safetensors file with one tensor.
std::string model(char value) {
  const std::string header = R"({"w":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + value;
}

class FollowerTest : public testing::Test {
 protected:
  void follow(FollowOptions options) {
    directory.write("models/a.safetensors", model(1));
    directory.write("models/b.safetensors", model(2));
    const std::vector<std::string> names = {directory.path("models")};
    sources = std::make_unique<SourceTrees>(names, names, OpenOptions(), TestProcess::may_open(), ModelFileOptions());
    forest = std::make_unique<Forest>(sources->open().value());
    follower = std::make_unique<Follower>(*forest, *sources, std::move(options));
    follower->start([this](const Changes& changes) {
      const std::scoped_lock lock(mutex);
      for (const Changes::Name& name : changes.names) notified.push_back(name.name);
    });
  }

  bool shows(const std::string& path) const { return forest->resolve(path).has_value(); }

  TemporaryDirectory directory;
  std::mutex mutex;  // guards `notified`
  std::vector<std::string> notified;
  std::unique_ptr<SourceTrees> sources;
  std::unique_ptr<Forest> forest;
  std::unique_ptr<Follower> follower;
};

TEST_F(FollowerTest, ListsAndNotifiesAfterAChange) {
  follow({});
  EXPECT_TRUE(eventually([&] { return follower->status().watched == 1; }));
  EXPECT_EQ(follower->status().compared, 0u);
  directory.write("models/c.safetensors", model(3));
  EXPECT_TRUE(eventually([&] { return shows("c.safetensors/tensors/w"); }));
  EXPECT_TRUE(eventually([&] {
    const std::scoped_lock lock(mutex);
    return std::ranges::count(notified, "c.safetensors") > 0;
  }));
  EXPECT_GT(follower->status().listed, 0);
}

TEST_F(FollowerTest, DirectoriesWithoutAWatchAreCompared) {
  follow({.max_watches = 0, .compares = milliseconds(50)});
  EXPECT_TRUE(eventually([&] { return follower->status().compared == 1; }));
  EXPECT_EQ(follower->status().watched, 0u);
  directory.write("models/c.safetensors", model(3));
  EXPECT_TRUE(eventually([&] { return shows("c.safetensors"); }));
  std::filesystem::remove(directory.path("models/b.safetensors"));
  EXPECT_TRUE(eventually([&] { return !shows("b.safetensors"); }));
}

TEST_F(FollowerTest, FailedReadOfAComparedFileHasItListedAgain) {
  follow({.max_watches = 0, .compares = milliseconds(50)});
  const Ino old = forest->resolve("a.safetensors").value();
  ASSERT_TRUE(forest->list(old));
  directory.write("models/a.safetensors", model(7) + "longer");  // in place: the directory has no new time
  EXPECT_FALSE(eventually([&] { return forest->resolve("a.safetensors").value() != old; }, milliseconds(200)));
  follower->check(old, {Code::corrupt, ""});
  EXPECT_TRUE(eventually([&] { return forest->resolve("a.safetensors").value_or(old) != old; }));
}

TEST_F(FollowerTest, RefreshListsWithoutAnEvent) {
  follow({.max_watches = 0, .compares = std::chrono::hours(1)});
  directory.write("models/c.safetensors", model(3));
  follower->refresh();
  EXPECT_TRUE(eventually([&] { return follower->status().refreshes == 1; }));
  EXPECT_TRUE(shows("c.safetensors"));
  EXPECT_EQ(follower->status().changed, 1u);
  EXPECT_FALSE(follower->status().error);
}

TEST_F(FollowerTest, NothingIsNotifiedAfterStop) {
  follow({});
  follower->stop();
  directory.write("models/c.safetensors", model(3));
  const auto is_notified = [&] {
    const std::scoped_lock lock(mutex);
    return !notified.empty();
  };
  EXPECT_FALSE(eventually(is_notified, milliseconds(100)));
}

TEST_F(FollowerTest, RemovedDirectoryIsNotFollowedAnyMore) {
  directory.write("models/sub/a.safetensors", model(1));
  directory.write("models/sub/b.safetensors", model(2));
  follow({});
  ASSERT_TRUE(shows("sub/a.safetensors"));
  EXPECT_TRUE(eventually([&] { return follower->status().watched == 2; }));
  std::filesystem::remove_all(directory.path("models/sub"));
  EXPECT_TRUE(eventually([&] { return !shows("sub"); }));
  EXPECT_TRUE(eventually([&] { return follower->status().watched == 1; }));
}

}  // namespace
}  // namespace weightfs::follower_test
