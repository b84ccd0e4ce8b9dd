// Archives of exports, read by the reader of tars.
#include "report/export/tar.h"

#include <gtest/gtest.h>

namespace weightfs::exporting::tar_test {
namespace {

TEST(TarExport, HeaderHasNameSizeAndChecksum) {
  const std::string header = tar_header("a/b", 1234, Time{1'700'000'000} * 1'000'000'000);
  ASSERT_EQ(header.size(), 512u);
  EXPECT_EQ(header.substr(0, 4), std::string("a/b\0", 4));
  EXPECT_EQ(header.substr(124, 11), "00000002322");
  EXPECT_EQ(header.substr(136, 11), "14524770400");
  EXPECT_EQ(header.substr(257, 8), std::string("ustar\0"
                                               "00",
                                               8));
  std::string without = header;
  without.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char byte : without) sum += static_cast<unsigned char>(byte);
  EXPECT_EQ(std::stoul(header.substr(148, 6), nullptr, 8), sum);
}

TEST(TarExport, LongNameAndLargeSizeAreInTheExtendedHeader) {
  EXPECT_EQ(tar_header(std::string(100, 'n'), 8'589'934'591, 0).size(), 512u);
  const std::string header = tar_header(std::string(101, 'n'), 8'589'934'592, 0);
  ASSERT_EQ(header.size(), 3 * 512u);
  EXPECT_EQ(header[156], 'x');
  EXPECT_EQ(header.substr(512),
            "111 path=" + std::string(101, 'n') + "\n19 size=8589934592\n" + header.substr(512 + 130));
  EXPECT_EQ(header.substr(124, 11), "00000000202") << "130 bytes of records";
}

TEST(TarExport, LengthOfARecordCountsItsOwnDigits) {
  for (const size_t size : {size_t{101}, size_t{985}, size_t{986}, size_t{987}, size_t{988}, size_t{989}, size_t{990},
                            size_t{991}, size_t{4000}}) {
    const std::string records = tar_header(std::string(size, 'n'), 1, 0).substr(512);
    const size_t length = std::stoul(records);
    EXPECT_EQ(records[length - 1], '\n') << size;
    EXPECT_EQ(length, std::to_string(length).size() + size + 7) << size;
  }
}

TEST(TarExport, FilesArePaddedToRecords) {
  EXPECT_EQ(tar_padding(0).size(), 0u);
  EXPECT_EQ(tar_padding(1).size(), 511u);
  EXPECT_EQ(tar_padding(512).size(), 0u);
  EXPECT_EQ(tar_end(), std::string(1024, '\0'));
}

}  // namespace
}  // namespace weightfs::exporting::tar_test
