// The infrastructure of the fuzz targets: costs are measured, limits abort, and structure-aware mutations keep the
// structure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "formats/archive/archive.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tests/support/small_disk.h"
#include "tests/support/small_models.h"

namespace weightfs::test::fuzzing_test {
namespace {

constexpr size_t kMegabyte = 1'000'000;

void use_new(std::string_view) { EXPECT_EQ(std::string(3 * kMegabyte, 'x').size(), 3 * kMegabyte); }

void use_malloc(std::string_view) {
  void* block = std::malloc(kMegabyte);
  block = std::realloc(block, 3 * kMegabyte);
  EXPECT_NE(block, nullptr);
  std::free(block);
}

void use_one_after_the_other(std::string_view input) {
  use_new(input);
  use_new(input);
}

Target target_of(void (*run)(std::string_view), uint64_t memory) {
  return {.name = "t", .run = run, .limits = {.memory = memory, .memory_per_byte = 0, .read_per_byte = 0}};
}

TEST(FuzzTarget, PeakOfAllocationsIsMeasured) {
  for (const auto run : {use_new, use_malloc, use_one_after_the_other}) {
    const uint64_t peak = run_checked(target_of(run, 10 * kMegabyte), "").memory;
    EXPECT_GE(peak, 3 * kMegabyte);
    EXPECT_LT(peak, 5 * kMegabyte);
  }
}

TEST(FuzzTarget, MoreMemoryThanTheLimitAborts) {
  EXPECT_DEATH(run_checked(target_of(use_new, kMegabyte), ""), "t: 0 bytes allocate 3");
}

TEST(FuzzTarget, MoreBytesReadThanTheLimitAborts) {
  const auto read_again = [](std::string_view) {
    const SourcePtr source = counted_source(std::string(kMegabyte, 'x'));
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(read_text(*source, 0, source->size()));
  };
  EXPECT_DEATH(run_checked(target_of(read_again, 100 * kMegabyte), ""), "bytes read as");
}

TEST(FuzzTarget, ReadBeyondTheEndAborts) {
  std::byte byte;
  EXPECT_DEATH((void)counted_source("abc")->read(3, std::span(&byte, 1)), "1 bytes read at 3 of 3");
}

// A chain of 101 keys takes a mutation, not a million.
TEST(FuzzMutation, TextIsNestedDeeperThanTheLimit) {
  size_t deepest = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::string input = "a.b = 1\n";
    Random random(seed);
    mutate_text(input, 4096, random);
    EXPECT_LE(input.size(), 4096U);
    deepest = std::max(deepest, static_cast<size_t>(std::count(input.begin(), input.end(), '.')));
  }
  EXPECT_GT(deepest, 100U);
}

size_t members_of(const std::string& zip) {
  const auto archive =
      archive::zip_members({.name = "m.zip", .bytes = in_memory(zip), .blobs = std::make_shared<SmallDisk>()});
  return archive ? archive->parts.size() + archive->warnings.size() : 0;
}

TEST(FuzzMutation, RepairedZipIsRead) {
  std::string zip = small_zip();
  const size_t members = members_of(zip);
  ASSERT_GT(members, 0U);
  zip.insert(0, "in front of it");
  zip[zip.find("plain", zip.find("plain") + 9)] = 'P';
  repair_zip(zip);
  EXPECT_GE(members_of(zip), members);
}

TEST(FuzzMutation, MutatedZipsAreMostlyRead) {
  size_t read = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::string zip = small_zip();
    Random random(seed);
    mutate_zip(zip, 4096, random);
    repair_zip(zip);
    EXPECT_LE(zip.size(), 4096U);
    if (members_of(zip) > 0) ++read;
  }
  EXPECT_GT(read, 50U);
}

TEST(FuzzMutation, RepairedTarIsRead) {
  std::string tar = tars::small_tar();
  tar.replace(0, 1, "Q");
  repair_tar(tar);
  const auto archive =
      archive::tar_members({.name = "m.tar", .bytes = in_memory(tar), .blobs = std::make_shared<SmallDisk>()});
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_TRUE(archive->parts[0].path.starts_with('Q') || archive->directories[0].starts_with('Q'));
}

// The length of a header that is shorter than 64 KiB.
size_t header_length(const std::string& file) {
  return static_cast<uint8_t>(file[0]) + size_t{256} * static_cast<uint8_t>(file[1]);
}

TEST(FuzzMutation, LengthOfAHeaderFollowsIt) {
  const std::string original = small_safetensors();
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::string file = original;
    Random random(seed);
    mutate_headed(file, 4096, random);
    EXPECT_EQ(file.size() - header_length(file), original.size() - header_length(original));
  }
}

}  // namespace
}  // namespace weightfs::test::fuzzing_test
