// A file of a command that gets its name when it is complete.
#include "cli/sandbox/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/support/temporary.h"

namespace weightfs::sandbox::output_file_test {
namespace {

class OutputFileTest : public testing::Test {
 protected:
  // Every file in the directory, "name=content"; a temporary file without its name.
  std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path(""))) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string name = entry.path().filename();
      out.insert((name.starts_with(".weightfs-") ? "" : name) + "=" +
                 std::string(std::istreambuf_iterator<char>(file), {}));
    }
    return out;
  }

  static void write(const OutputFile& file, uint64_t offset, std::string_view text) {
    ASSERT_TRUE(file.write(offset, std::as_bytes(std::span(text))).has_value());
  }

  using Files = std::set<std::string>;
  const TemporaryDirectory directory;
  const std::string path = directory.path("out");
};

TEST_F(OutputFileTest, FileGetsItsNameWhenItIsPublished) {
  const auto file = OutputFile::create(path).value();
  write(*file, 3, "def");
  write(*file, 0, "abc");
  EXPECT_EQ(files(), (Files{"=abcdef"}));
  ASSERT_TRUE(file->publish().has_value());
  EXPECT_EQ(files(), (Files{"out=abcdef"}));
  EXPECT_FALSE(file->publish().has_value()) << "a second time";
}

TEST_F(OutputFileTest, ExistingFileIsReplaced) {
  directory.write("out", "old and long");
  const auto file = OutputFile::create(path).value();
  write(*file, 0, "new");
  EXPECT_EQ(files(), (Files{"=new", "out=old and long"}));
  ASSERT_TRUE(file->publish().has_value());
  EXPECT_EQ(files(), (Files{"out=new"}));
}

TEST_F(OutputFileTest, UnpublishedFileIsRemoved) {
  directory.write("out", "old");
  OutputFile::create(path).value();
  EXPECT_EQ(files(), (Files{"out=old"}));
}

TEST_F(OutputFileTest, BrokerPublishesTheFile) {
  const auto file = OutputFile::create(path).value();
  {
    const auto broker = Broker::start([&](const Broker::Request& request) { return file->reply(request); }).value();
    file->use_broker(*broker);
    write(*file, 0, "abc");
    ASSERT_TRUE(file->publish().has_value());
    EXPECT_EQ(files(), (Files{"out=abc"}));
    EXPECT_EQ(file->publish().error().message, path + ": Invalid argument") << "a second time";
  }
  EXPECT_EQ(files(), (Files{"out=abc"}));
}

TEST_F(OutputFileTest, BrokerRemovesAnUnpublishedFile) {
  const auto file = OutputFile::create(path).value();
  {
    const auto broker = Broker::start([&](const Broker::Request& request) { return file->reply(request); }).value();
    file->use_broker(*broker);
    EXPECT_EQ(files(), (Files{"="}));
  }
  EXPECT_EQ(files(), Files());
}

TEST_F(OutputFileTest, KeptFileIsNotReplaced) {
  directory.write("out", "old");
  EXPECT_EQ(OutputFile::create(path, Existing::kept).error().message, path + ": exists; use --force to replace it");
  std::filesystem::remove(path);
  const auto file = OutputFile::create(path, Existing::kept).value();
  directory.write("out", "created meanwhile");
  EXPECT_EQ(file->publish().error().message, path + ": File exists");
  EXPECT_EQ(files(), (Files{"=", "out=created meanwhile"}));
  std::filesystem::remove(path);
  ASSERT_TRUE(file->publish().has_value());
  EXPECT_EQ(files(), (Files{"out="}));
}

TEST_F(OutputFileTest, OnlyRegularFilesAreReplaced) {
  const auto error = [](const std::string& name) { return OutputFile::create(name).error().message; };
  ASSERT_EQ(::mkfifo(directory.path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", directory.path("link"));
  EXPECT_EQ(error(directory.path("fifo")), directory.path("fifo") + ": not a regular file");
  EXPECT_EQ(error(directory.path("link")), directory.path("link") + ": not a regular file");
  EXPECT_EQ(error("/"), "/: not a regular file");
  EXPECT_EQ(error(path + "/"), path + "/: not a regular file");
  EXPECT_EQ(error(directory.path("missing/out")), directory.path("missing/out") + ": No such file or directory");
}

class OutputDirectoryTest : public testing::Test {
 protected:
  // The paths of all files and directories; a temporary directory is "?".
  std::set<std::string> paths() const {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path(""))) {
      std::string below = std::filesystem::relative(entry.path(), directory.path(""));
      if (below.starts_with(".weightfs-")) below.replace(0, std::min(below.find('/'), below.size()), "?");
      out.insert(below);
    }
    return out;
  }

  using Paths = std::set<std::string>;
  const TemporaryDirectory directory;
  const std::string path = directory.path("out");
};

TEST_F(OutputDirectoryTest, DirectoryGetsItsNameWhenItIsPublished) {
  const auto made = OutputDirectory::create(path + "/").value();
  ASSERT_TRUE(made->create_file("a").has_value());
  ASSERT_TRUE(made->create_file("b/c/d").has_value());
  ASSERT_TRUE(made->create_file("b/c/e").has_value());
  EXPECT_EQ(paths(), (Paths{"?", "?/a", "?/b", "?/b/c", "?/b/c/d", "?/b/c/e"}));
  ASSERT_TRUE(made->publish().has_value());
  EXPECT_EQ(paths(), (Paths{"out", "out/a", "out/b", "out/b/c", "out/b/c/d", "out/b/c/e"}));
}

TEST_F(OutputDirectoryTest, UnpublishedDirectoryIsRemovedWithItsFiles) {
  ASSERT_TRUE(OutputDirectory::create(path).value()->create_file("b/c").has_value());
  EXPECT_EQ(paths(), Paths());
}

TEST_F(OutputDirectoryTest, BrokerRemovesAnUnpublishedDirectory) {
  const auto made = OutputDirectory::create(path).value();
  {
    const auto broker = Broker::start([&](const Broker::Request& request) { return made->reply(request); }).value();
    made->use_broker(*broker);
    ASSERT_TRUE(made->create_file("b/c").has_value());
  }
  EXPECT_EQ(paths(), Paths());
}

TEST_F(OutputDirectoryTest, OnlyAnEmptyDirectoryIsReplaced) {
  const auto refused = path + ": exists and is not an empty directory";
  directory.write("out", "file");
  EXPECT_EQ(OutputDirectory::create(path).error().message, refused);
  std::filesystem::remove(path);
  directory.write("out/file", "");
  EXPECT_EQ(OutputDirectory::create(path).error().message, refused);
  std::filesystem::remove(directory.path("out/file"));
  const auto made = OutputDirectory::create(path).value();
  directory.write("out/file", "created meanwhile");
  EXPECT_FALSE(made->publish().has_value());
  std::filesystem::remove(directory.path("out/file"));
  EXPECT_TRUE(made->publish().has_value());
  EXPECT_EQ(paths(), (Paths{"out"}));
}

TEST_F(OutputDirectoryTest, LinksOnThePathAreNotWrittenThrough) {
  const auto made = OutputDirectory::create(path).value();
  std::filesystem::create_symlink(directory.path("elsewhere"), made->writable_directory() + "/link");
  EXPECT_FALSE(made->create_file("link").has_value());
  EXPECT_FALSE(std::filesystem::exists(directory.path("elsewhere")));
}

}  // namespace
}  // namespace weightfs::sandbox::output_file_test
