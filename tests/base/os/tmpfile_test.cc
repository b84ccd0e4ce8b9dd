#include "base/os/tmpfile.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/support/temporary.h"

namespace weightfs::tmpfile_test {
namespace {

using testing::HasSubstr;

TEST(ScratchFile, TakesDiskSpaceAsItGrows) {
  auto file = ScratchFile::create(3'000'000);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->size(), 3'000'000U);
  EXPECT_EQ(ScratchFile::total(), 0U);
  ASSERT_TRUE((*file)->grow(1'000'000));
  ASSERT_TRUE((*file)->grow(500'000));
  EXPECT_EQ(ScratchFile::total(), 1'000'000U);
  (*file)->data()[999'999] = std::byte{7};
  (*file)->drop_pages();
  EXPECT_EQ((*file)->data()[999'999], std::byte{7});
  file->reset();
  EXPECT_EQ(ScratchFile::total(), 0U);
}

TEST(ScratchFile, AllTogetherAreLimitedToAQuarterOfTheFileSystem) {
  const auto file = ScratchFile::create(uint64_t{1} << 43);
  ASSERT_TRUE(file) << file.error().message;
  const auto grown = (*file)->grow(uint64_t{1} << 43);
  ASSERT_FALSE(grown);
  EXPECT_EQ(grown.error().code, Code::resource);
  EXPECT_THAT(grown.error().message, HasSubstr("temporary files are limited to "));
  EXPECT_EQ(ScratchFile::total(), 0U);
}

TEST(ScratchFile, MissingDirectoryIsAnError) {
  const TemporaryDirectory temporary;
  ::setenv("TMPDIR", temporary.path("missing").c_str(), 1);
  const auto file = ScratchFile::create(10);
  ::unsetenv("TMPDIR");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::io);
  EXPECT_THAT(file.error().message, HasSubstr("no temporary file of 10 bytes in "));
}

}  // namespace
}  // namespace weightfs::tmpfile_test
