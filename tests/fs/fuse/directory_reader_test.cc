// The parts of a directory, as the kernel requests them one after the other.
#include "fs/fuse/directory_reader.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fs/fuse/operations.h"

namespace weightfs::test::directory_reader_test {
namespace {

using fuse::DirectoryPart;
using fuse::DirectoryReader;
using fuse::EntryForm;

constexpr size_t kCount = 1000;  // files of each directory
constexpr size_t kSize = 4096;   // bytes of a part

TreePtr tree_of_directories() {
  TreeBuilder builder(nullptr);
  for (const char* const directory : {"a", "b"})
    for (size_t i = 0; i < kCount; ++i)
      builder.add_file(builder.keep(fmt::format("{}/{}{:04}", directory, directory, i)),
                       Later<SourcePtr>::of(in_memory("x")));
  return std::move(builder).freeze();
}

class DirectoryReaderTest : public testing::Test {
 protected:
  fuse_entry_param entry_of(Ino ino, const Attributes& attributes) {
    ++entries_with_attributes;
    fuse_entry_param entry{};
    entry.ino = ino;
    entry.attr.st_size = static_cast<off_t>(attributes.size);
    return entry;
  }
  // The replies to the requests for a whole directory; `ahead`: each part is made before it is requested.
  std::vector<std::string> read(const std::string& directory, EntryForm form, bool ahead) {
    std::vector<std::string> parts;
    DirectoryPart part{forest.resolve(directory).value(), 0, kSize, form};
    for (;;) {
      const auto entries = reader.read(part);
      if (!entries) return {entries.error().message};
      const auto bytes = entries->bytes();
      if (bytes.empty()) return parts;
      parts.emplace_back(bytes.data(), bytes.size());
      if (ahead) reader.read_next(part, *entries);
      part.offset = entries->end();
    }
  }

  size_t attributes_in_first_part(const std::string& directory) { return attributes_in_first_part(reader, directory); }
  size_t attributes_in_first_part(DirectoryReader& from, const std::string& directory) {
    const size_t before = entries_with_attributes;
    EXPECT_TRUE(from.read({forest.resolve(directory).value(), 0, kSize, EntryForm::attributes}).has_value());
    return entries_with_attributes - before;
  }

  std::atomic<size_t> entries_with_attributes = 0;
  Forest forest{tree_of_directories()};
  DirectoryReader reader{forest, [this](Ino ino, const Attributes& attributes) { return entry_of(ino, attributes); }};
};

TEST_F(DirectoryReaderTest, PartsMadeAheadAreTheSame) {
  for (const EntryForm form : {EntryForm::names, EntryForm::attributes}) {
    read("b", form, false);
    const auto parts = read("a", form, false);
    EXPECT_GT(parts.size(), 5u);
    EXPECT_EQ(read("a", form, true), parts);
  }
}

TEST_F(DirectoryReaderTest, PartsHaveAllNamesOnce) {
  std::string all;
  for (const std::string& part : read("b", EntryForm::names, true)) all += part;
  for (size_t i = 0; i < kCount; ++i) {
    const std::string name = fmt::format("b{:04}", i);
    const size_t at = all.find(name);
    ASSERT_NE(at, all.npos) << name;
    EXPECT_EQ(all.find(name, at + 1), all.npos) << name;
  }
}

TEST_F(DirectoryReaderTest, NextPartIsMadeBeforeItIsRequested) {
  const DirectoryPart first{forest.resolve("a").value(), 1, kSize, EntryForm::attributes};
  const auto entries = reader.read(first).value();
  EXPECT_TRUE(entries.is_full());
  reader.read_next(first, entries);
  const size_t before = entries_with_attributes;
  EXPECT_FALSE(reader.read({first.directory, entries.end(), kSize, EntryForm::attributes})->bytes().empty());
  EXPECT_EQ(entries_with_attributes, before);
  EXPECT_FALSE(reader.read({first.directory, entries.end(), kSize, EntryForm::attributes})->bytes().empty());
  EXPECT_GT(entries_with_attributes, before) << "a part is kept for one request";
}

TEST_F(DirectoryReaderTest, OtherPartThanTheNextIsMade) {
  const DirectoryPart first{forest.resolve("a").value(), 1, kSize, EntryForm::names};
  const auto entries = reader.read(first).value();
  reader.read_next(first, entries);
  const Ino other = forest.resolve("b").value();
  const std::string_view expected = "b0000";
  const auto in_b = reader.read({other, 2, kSize, EntryForm::names}).value();
  EXPECT_NE(std::string_view(in_b.bytes().data(), in_b.bytes().size()).find(expected), expected.npos);
  const auto smaller = reader.read({first.directory, entries.end(), kSize / 2, EntryForm::names}).value();
  EXPECT_LE(smaller.bytes().size(), kSize / 2);
}

// The kernel requests the first part with attributes, the others as the reader uses the names.
TEST_F(DirectoryReaderTest, SecondPartHasTheFormOfTheLastOne) {
  read("b", EntryForm::attributes, false);
  const DirectoryPart first{forest.resolve("a").value(), 0, kSize, EntryForm::attributes};
  auto entries = reader.read(first).value();
  reader.read_next(first, entries);
  size_t before = entries_with_attributes;
  EXPECT_TRUE(reader.read({first.directory, entries.end(), kSize, EntryForm::attributes}).has_value());
  EXPECT_EQ(entries_with_attributes, before) << "was made";
  EXPECT_TRUE(reader.read({first.directory, 500, kSize, EntryForm::names}).has_value());
  entries = reader.read(first).value();
  before = entries_with_attributes;
  reader.read_next(first, entries);
  EXPECT_EQ(entries_with_attributes, before) << "names only";
}

// The kernel makes an inode for each entry with attributes.
TEST_F(DirectoryReaderTest, FilesHaveAttributesInTheFirstPartIfNamesOfTheLastDirectoryWereLookedUp) {
  EXPECT_EQ(attributes_in_first_part("a"), 0u);
  EXPECT_EQ(attributes_in_first_part("b"), 0u);
  reader.looked_up(forest.resolve("a").value());
  EXPECT_EQ(attributes_in_first_part("b"), 0u) << "a was not listed last";
  reader.looked_up(forest.resolve("b").value());
  EXPECT_GT(attributes_in_first_part("a"), 10u);
  EXPECT_GT(attributes_in_first_part("b"), 10u) << "nothing is looked up any more";
}

// Some readers list a whole directory before they use its names.
TEST_F(DirectoryReaderTest, LaterPartCanShowThatAttributesAreUsedButNotThatTheyAreNot) {
  const Ino a = forest.resolve("a").value();
  EXPECT_TRUE(reader.read({a, 100, kSize, EntryForm::names}).has_value());
  EXPECT_EQ(attributes_in_first_part("b"), 0u);
  EXPECT_TRUE(reader.read({a, 100, kSize, EntryForm::attributes}).has_value());
  EXPECT_GT(attributes_in_first_part("b"), 10u);
  EXPECT_TRUE(reader.read({a, 100, kSize, EntryForm::names}).has_value());
  EXPECT_GT(attributes_in_first_part("b"), 10u);
}

TEST_F(DirectoryReaderTest, UseOfAttributesIsForgotten) {
  DirectoryReader forgetful{forest, [this](Ino ino, const Attributes& attributes) { return entry_of(ino, attributes); },
                            std::chrono::milliseconds(0)};
  EXPECT_EQ(attributes_in_first_part(forgetful, "a"), 0u);
  forgetful.looked_up(forest.resolve("a").value());
  EXPECT_EQ(attributes_in_first_part(forgetful, "b"), 0u);
}

TEST_F(DirectoryReaderTest, DirectoriesAlwaysHaveAttributes) { EXPECT_EQ(attributes_in_first_part(""), 2u); }

TEST_F(DirectoryReaderTest, SmallDirectoryHasNoNextPart) {
  const DirectoryPart root{Forest::kRoot, 0, kSize, EntryForm::attributes};
  const auto entries = reader.read(root).value();
  EXPECT_FALSE(entries.is_full());
  const size_t before = entries_with_attributes;
  reader.read_next(root, entries);
  EXPECT_EQ(entries_with_attributes, before);
}

TEST_F(DirectoryReaderTest, ThreadsReadWholeDirectoriesAtOnce) {
  const auto a = read("a", EntryForm::names, false);
  const auto b = read("b", EntryForm::names, false);
  std::vector<std::thread> threads;
  std::atomic<size_t> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        if (read("a", EntryForm::names, true) != a) ++wrong;
        if (read("b", EntryForm::names, true) != b) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace weightfs::test::directory_reader_test
