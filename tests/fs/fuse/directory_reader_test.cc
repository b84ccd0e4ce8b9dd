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
  std::vector<std::string> read(const std::string& directory, bool ahead) {
    return read(reader, forest.resolve(directory).value(), ahead);
  }
  std::vector<std::string> read(DirectoryReader& from, Ino directory, bool ahead) {
    std::vector<std::string> parts;
    DirectoryPart part{directory, 0, kSize};
    for (;;) {
      const auto entries = from.read(part);
      if (!entries) return {entries.error().message};
      const auto bytes = entries->bytes();
      if (bytes.empty()) return parts;
      parts.emplace_back(bytes.data(), bytes.size());
      if (ahead) from.read_next(part, *entries);
      part.offset = entries->end();
    }
  }
  // How many of the entries of a part have attributes.
  size_t attributes_in(DirectoryReader& from, Ino directory, off_t offset) {
    const size_t before = entries_with_attributes;
    EXPECT_TRUE(from.read({directory, offset, kSize}).has_value());
    return entries_with_attributes - before;
  }

  DirectoryReader::EntryOf entries() {
    return [this](Ino ino, const Attributes& attributes) { return entry_of(ino, attributes); };
  }
  std::atomic<size_t> entries_with_attributes = 0;
  Forest forest{tree_of_directories()};
  DirectoryReader reader{forest, entries()};
  DirectoryReader of_large{forest, entries(), kCount - 1};  // all directories but the root are large
  const Ino a = forest.resolve("a").value(), b = forest.resolve("b").value();
};

TEST_F(DirectoryReaderTest, PartsMadeAheadAreTheSame) {
  for (DirectoryReader* const from : {&reader, &of_large}) {
    const auto parts = read(*from, a, false);
    EXPECT_GT(parts.size(), 5u);
    EXPECT_EQ(read(*from, a, true), parts);
  }
}

TEST_F(DirectoryReaderTest, PartsHaveAllNamesOnce) {
  std::string all;
  for (const std::string& part : read("b", true)) all += part;
  for (size_t i = 0; i < kCount; ++i) {
    const std::string name = fmt::format("b{:04}", i);
    const size_t at = all.find(name);
    ASSERT_NE(at, all.npos) << name;
    EXPECT_EQ(all.find(name, at + 1), all.npos) << name;
  }
}

TEST_F(DirectoryReaderTest, NextPartIsMadeBeforeItIsRequested) {
  const DirectoryPart first{a, 1, kSize};
  const auto entries = reader.read(first).value();
  EXPECT_TRUE(entries.is_full());
  reader.read_next(first, entries);
  EXPECT_EQ(attributes_in(reader, a, entries.end()), 0u);
  EXPECT_GT(attributes_in(reader, a, entries.end()), 0u) << "a part is kept for one request";
}

TEST_F(DirectoryReaderTest, OtherPartThanTheNextIsMade) {
  const DirectoryPart first{a, 1, kSize};
  const auto entries = reader.read(first).value();
  reader.read_next(first, entries);
  const std::string_view expected = "b0000";
  const auto in_b = reader.read({b, 2, kSize}).value();
  EXPECT_NE(std::string_view(in_b.bytes().data(), in_b.bytes().size()).find(expected), expected.npos);
  const auto smaller = reader.read({a, entries.end(), kSize / 2}).value();
  EXPECT_LE(smaller.bytes().size(), kSize / 2);
}

TEST_F(DirectoryReaderTest, AllPartsHaveAttributes) {
  const size_t parts = read("a", false).size();
  EXPECT_GE(entries_with_attributes, kCount);
  EXPECT_LE(entries_with_attributes, kCount + parts) << "the last of each part did not fit";
}

// The kernel makes an inode for each entry with attributes.
TEST_F(DirectoryReaderTest, LargeDirectoryHasAttributesWhileItsFilesAreLookedUp) {
  EXPECT_EQ(attributes_in(of_large, a, 0), 0u);
  EXPECT_EQ(attributes_in(of_large, a, 100), 0u);
  of_large.looked_up(b);
  EXPECT_EQ(attributes_in(of_large, a, 0), 0u) << "b was not listed";
  of_large.looked_up(a);
  EXPECT_GT(attributes_in(of_large, a, 0), 10u);
  EXPECT_GT(attributes_in(of_large, a, 100), 10u);
  EXPECT_EQ(attributes_in(of_large, b, 0), 0u);
  EXPECT_EQ(attributes_in(of_large, a, 0), 0u) << "b was listed after it";
}

TEST_F(DirectoryReaderTest, PartThatWasMadeBeforeTheFirstLookupIsMadeAgain) {
  const DirectoryPart first{a, 0, kSize};
  const auto entries = of_large.read(first).value();
  of_large.read_next(first, entries);
  of_large.looked_up(a);
  EXPECT_GT(attributes_in(of_large, a, entries.end()), 10u);
}

TEST_F(DirectoryReaderTest, LookupIsForgotten) {
  DirectoryReader forgetful{forest, entries(), kCount - 1, std::chrono::milliseconds(0)};
  EXPECT_EQ(attributes_in(forgetful, a, 0), 0u);
  EXPECT_FALSE(forgetful.looked_up(a));
  EXPECT_EQ(attributes_in(forgetful, a, 0), 0u);
}

TEST_F(DirectoryReaderTest, ListingIsForgottenAfterManyLookupsAndTheNextHasAttributes) {
  DirectoryReader forgetful{forest, entries(), kCount - 1, std::chrono::milliseconds(0)};
  read(forgetful, a, false);
  EXPECT_EQ(entries_with_attributes, 0u);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(forgetful.looked_up(a), i == 64) << i;
  read(forgetful, a, false);
  EXPECT_GE(entries_with_attributes, kCount);
}

// As ls(1) does.
TEST_F(DirectoryReaderTest, ListingIsKeptIfFilesAreLookedUpAfterTheFirstPart) {
  EXPECT_EQ(attributes_in(of_large, a, 0), 0u);
  for (int i = 1; i <= 100; ++i) EXPECT_FALSE(of_large.looked_up(a)) << i;
  EXPECT_GT(attributes_in(of_large, a, 100), 10u);
}

TEST_F(DirectoryReaderTest, SmallDirectoryHasNoNextPart) {
  const DirectoryPart root{Forest::kRoot, 0, kSize};
  const auto entries = reader.read(root).value();
  EXPECT_FALSE(entries.is_full());
  const size_t before = entries_with_attributes;
  reader.read_next(root, entries);
  EXPECT_EQ(entries_with_attributes, before);
}

TEST_F(DirectoryReaderTest, ThreadsReadWholeDirectoriesAtOnce) {
  const auto of_a = read("a", false);
  const auto of_b = read("b", false);
  std::vector<std::thread> threads;
  std::atomic<size_t> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        if (read("a", true) != of_a) ++wrong;
        if (read("b", true) != of_b) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace weightfs::test::directory_reader_test
