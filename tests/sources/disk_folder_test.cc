// The files on disk that a container refers to.
#include "sources/disk_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files/leaf.h"
#include "tests/support/temporary.h"

namespace weightfs::disk_folder_test {
namespace {

namespace stdfs = std::filesystem;

// A directory of models, with one in a subdirectory.
class ReferredFileTest : public testing::Test {
 protected:
  void SetUp() override {
    here.write("models/m/model.onnx", "model");
    here.write("models/m/data.bin", "data");
    here.write("models/m/sub/deep.bin", "deep");
    here.write("models/other.bin", "other");
    here.write("secret.bin", "secret");
  }

  // Its bytes, or the error.
  std::string read(std::string_view path, std::string_view referrer = "model.onnx") const {
    Confinement rules;
    rules.follow_links = follow_links;
    const auto root = std::make_shared<const ConfinedDirectory>(
        Descriptor(::open(here.path("models").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), here.path("models"), rules);
    const auto file = DiskFolder(Location{root, "m"}).open_below(path, referrer);
    if (!file) return file.error().message.substr(file.error().message.rfind(": ") + 2);
    return read_text(**file, 0, (*file)->size()).value();
  }
  void link(const std::string& target, const std::string& name) const {
    stdfs::create_symlink(target, here.path("models/m/" + name));
  }

  static constexpr const char* kNotFollowed =
      "a symbolic link out of the model's directory is not followed; use --follow-links";
  TemporaryDirectory here;
  bool follow_links = false;
};

TEST_F(ReferredFileTest, OpensFilesInTheDirectoryAndBelow) {
  EXPECT_EQ(read("data.bin"), "data");
  EXPECT_EQ(read("sub/deep.bin"), "deep");
  EXPECT_EQ(read("none.bin"), "No such file or directory");
}

TEST_F(ReferredFileTest, FollowsLinksThatStayInTheDirectory) {
  link("data.bin", "link");
  link("../data.bin", "sub/up");
  link("sub", "directory");
  EXPECT_EQ(read("link"), "data");
  EXPECT_EQ(read("sub/up"), "data");
  EXPECT_EQ(read("directory/deep.bin"), "deep");
}

// The mounting user owns all of these links and their targets.
TEST_F(ReferredFileTest, RefusesLinksOutOfTheDirectory) {
  link("../../secret.bin", "secret");
  link(here.path("secret.bin"), "absolute");
  link("../other.bin", "other");
  link("..", "sub/up");
  link("../..", "directory");
  for (const char* path : {"secret", "absolute", "other", "directory/secret.bin", "directory/none"})
    EXPECT_EQ(read(path), kNotFollowed) << path;
  EXPECT_EQ(read("sub/up/data.bin"), "data");
  follow_links = true;
  EXPECT_EQ(read("secret"), "secret");
}

// The cache of Hugging Face: snapshots/REVISION/NAME are links into blobs/.
TEST_F(ReferredFileTest, FollowsLinkIntoTheDirectoryOfTheModelItself) {
  here.write("blobs/1", "model");
  here.write("blobs/2", "data");
  link("../../blobs/1", "linked.onnx");
  link("../../blobs/2", "linked.data");
  link("../../secret.bin", "secret");
  EXPECT_EQ(read("linked.data", "linked.onnx"), "data");
  EXPECT_EQ(read("linked.data", "model.onnx"), kNotFollowed);
  EXPECT_EQ(read("secret", "linked.onnx"), kNotFollowed);
}

TEST_F(ReferredFileTest, RefusesFilesThatAreNotRegular) {
  ASSERT_EQ(::mkfifo(here.path("models/m/fifo").c_str(), 0600), 0);
  EXPECT_EQ(read("fifo"), "not a regular file");
  EXPECT_EQ(read("sub"), "not a regular file");
}

TEST(ListedFile, IsReadyAndOpenedOnlyWhenItMayBe) {
  const TemporaryDirectory here;
  const std::string path = here.write("model", "0123456789");
  struct stat listed {};
  ASSERT_EQ(::stat(path.c_str(), &listed), 0);
  const auto root = std::make_shared<const ConfinedDirectory>(
      Descriptor(::open(here.path("").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), here.path(""), Confinement{});
  const SourcePtr file = listed_file(Location{root, "model"}, listed);
  const SourcePtr removed = listed_file(Location{root, "model"}, listed);
  const auto before = file->place(4, Opens::nothing);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->leaf, nullptr);
  EXPECT_EQ(before->length, 6U);
  EXPECT_TRUE(is_ready(*file));
  ASSERT_TRUE(file->place(4, Opens::files));
  const auto after = file->place(4, Opens::nothing);
  ASSERT_TRUE(after);
  EXPECT_NE(after->leaf, nullptr);
  EXPECT_EQ(after->offset, 4U);
  stdfs::remove(path);
  EXPECT_TRUE(is_ready(*removed));
  EXPECT_FALSE(removed->place(0, Opens::files));
  EXPECT_FALSE(open_whole_file(*removed));
}

}  // namespace
}  // namespace weightfs::disk_folder_test
