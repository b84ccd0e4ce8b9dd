#include "formats/checksums/checksum.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/model.h"

namespace weightfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> lines_of(const FileChecksums& sums) {
  std::vector<std::string> lines;
  for (const Checksum& sum : sums.all()) lines.push_back(fmt::format("{} {}", name_of(sum), hex_of(sum)));
  return lines;
}

TEST(FileChecksums, HasOneOfEachKindInTheOrderOfTheKinds) {
  FileChecksums sums;
  EXPECT_TRUE(sums.empty());
  EXPECT_THAT(lines_of(sums), IsEmpty());
  sums.set(Crc32{0xABC});
  sums.set(Md5());
  sums.set(sha256("a"));
  sums.set(GitId{git_blob_id("")});
  sums.set(Crc32{0xDEF});
  sums.set(sha256("b"));
  EXPECT_THAT(lines_of(sums),
              ElementsAre("SHA-256 " + sha256("b").hex(), "Git object id e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
                          "MD5 " + std::string(32, '0'), "CRC-32 00000def"));
  EXPECT_EQ(sums.get<Sha1>(), nullptr);
  EXPECT_EQ(sums.get<Crc32>()->value, 0xDEFU);
}

TEST(FileChecksums, CopyIsIndependent) {
  FileChecksums sums(Crc32{1});
  sums.set(Md5());
  FileChecksums copy = sums;
  copy.set(Crc32{2});
  EXPECT_EQ(sums.get<Crc32>()->value, 1U);
  EXPECT_EQ(copy.get<Crc32>()->value, 2U);
  sums = copy;
  EXPECT_EQ(sums.get<Crc32>()->value, 2U);
}

// Archives have up to two million members.
TEST(FileChecksums, OneTakesLittleMemory) {
  EXPECT_LE(sizeof(FileChecksums), 48U);
  EXPECT_LE(sizeof(Part), 144U);
  EXPECT_LE(sizeof(FileCheck), 160U);
}

}  // namespace
}  // namespace weightfs
