#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/support/codec_reading.h"
#include "tests/support/compressed.h"

namespace weightfs::gzip_test {
namespace {

using namespace codec;
using namespace test;
using testing::StartsWith;

TEST(CodecGzip, DecodesSeveralMembers) {
  const std::string one = gzip_stored("one ");
  const std::string empty = gzip_stored("");
  EXPECT_EQ(decode_all(gunzip_stream, one + gzip_stored("two")).bytes, "one two");
  EXPECT_EQ(decode_all(gunzip_stream, empty + one + empty + sample_gzip() + empty, 1).bytes, "one " + sample_text());
  EXPECT_EQ(decode_all(gunzip_stream, empty).bytes, "");
  EXPECT_EQ(decode_all(gunzip_stream, empty).message(), "no error");
}

TEST(CodecGzip, MembersMaySpanBuffers) {
  std::string compressed, bytes;
  for (int i = 0; i < 40'000; ++i) {
    const std::string text = std::to_string(i);
    compressed += gzip_stored(text, i % 3 == 0 ? 8 : 0, i % 3 == 0 ? std::string_view("name", 5) : "");
    bytes += text;
  }
  for (const size_t step : {3U, 4096U}) EXPECT_EQ(decode_all(gunzip_stream, compressed, step).bytes, bytes);
}

TEST(CodecGzip, EveryMemberIsVerified) {
  const std::string right = gzip_stored("right");
  const std::string wrong_sum = gzip_member(deflate_stored("wrong"), crc_of("right"), 5);
  const std::string wrong_size = gzip_member(deflate_stored("wrong"), crc_of("wrong"), 6);
  const std::string wrong_high_size = gzip_member(deflate_stored("wrong"), crc_of("wrong"), 5 + (1 << 24));
  for (const std::string& wrong : {wrong_sum, wrong_size, wrong_high_size})
    for (const std::string& gzip : {wrong, wrong + right, right + wrong, right + wrong + right})
      for (const size_t step : {1U, 5U, 4096U}) {
        const Read read = decode_all(gunzip_stream, gzip, step);
        ASSERT_TRUE(read.error);
        EXPECT_EQ(read.error->code, Code::corrupt);
        EXPECT_THAT(read.message(), StartsWith("gzip: CRC-32 or size mismatch near byte "));
      }
}

// As gzip(1) has it: tapes and disks have blocks that are filled up.
TEST(CodecGzip, TrailingDataAreIgnored) {
  for (const std::string& behind : {std::string(1, '\0'), std::string(300'000, '\0'), std::string("garbage"),
                                    std::string("\x1Fgarbage"), std::string(3, '\0') + sample_gzip()}) {
    const Read read = decode_all(gunzip_stream, sample_gzip() + behind);
    EXPECT_EQ(read.bytes, sample_text());
    EXPECT_EQ(read.message(), "no error");
  }
  EXPECT_EQ(decode_all(gunzip_stream, std::string(1, '\0') + sample_gzip()).message(), "gzip: no member at byte 0");
}

TEST(CodecGzip, TruncatedDataAreRefused) {
  const std::string one = gzip_stored("one ", 8, std::string_view("name", 5));
  const std::string whole = one + sample_gzip();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Read read = decode_all(gunzip_stream, whole.substr(0, size));
    EXPECT_THAT("one " + sample_text(), StartsWith(read.bytes));
    if (size == one.size()) continue;
    ASSERT_TRUE(read.error) << size;
    EXPECT_EQ(read.error->code, Code::corrupt);
    EXPECT_THAT(read.message(), StartsWith("gzip: truncated "));
  }
}

TEST(CodecGzip, FlippedBitIsRefused) {
  for (size_t bit = 0; bit < sample_gzip().size() * 8; ++bit) {
    const Read read = decode_all(gunzip_stream, flipped(sample_gzip(), bit), 100);
    // Time, system and the padding bits of the Deflate data do not affect the output.
    EXPECT_TRUE(read.error || read.bytes == sample_text()) << bit;
  }
}

// Optional parts of a header, with the flags that announce them.
constexpr char kHeaderSum = 2, kExtra = 4, kName = 8, kComment = 16;

std::string with_header_sum(char flags, std::string_view announced) {
  const std::string header = gzip_member("", "", 0, flags, announced).substr(0, 10 + announced.size());
  return gzip_stored("hello", flags, std::string(announced) + crc_of(header).substr(0, 2));
}

TEST(CodecGzip, AcceptsAllHeaderFields) {
  const std::string extra("\3\0xyz", 5), name("name\0", 5), comment("comment\0", 8);
  for (const std::string& gzip :
       {gzip_stored("hello", 1), gzip_stored("hello", kExtra, extra), gzip_stored("hello", kName, name),
        gzip_stored("hello", kComment, comment),
        gzip_stored("hello", kExtra | kName | kComment, extra + name + comment), with_header_sum(kHeaderSum, ""),
        with_header_sum(kHeaderSum | kExtra | kName | kComment, extra + name + comment),
        gzip_stored("hello", kExtra, le(65'535, 2) + std::string(65'535, 'x')),
        gzip_stored("hello", kName, std::string(120'000, 'n') + '\0')}) {
    EXPECT_EQ(decode_all(gunzip_stream, gzip).bytes, "hello");
    EXPECT_EQ(decode_all(gunzip_stream, sample_gzip() + gzip).bytes, sample_text() + "hello");
    EXPECT_EQ(decode_all(gunzip_stream, gzip).message(), "no error");
  }
}

TEST(CodecGzip, HeaderIsBoundedAndVerified) {
  EXPECT_EQ(decode_all(gunzip_stream, flipped(with_header_sum(kHeaderSum, ""), 80)).message(),
            "gzip: a header that does not match its checksum at byte 0");
  const Read read =
      decode_all(gunzip_stream, gzip_stored("x") + gzip_stored("x", kName, std::string(1 << 20, 'n') + '\0'));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::unsupported);
  EXPECT_EQ(read.message(), "gzip: a header of more than 131072 bytes at byte 24");
  for (const int flag : {0x20, 0x40, 0x80}) {
    const Read reserved = decode_all(gunzip_stream, gzip_stored("x", static_cast<char>(flag)));
    ASSERT_TRUE(reserved.error);
    EXPECT_EQ(reserved.error->code, Code::unsupported);
    EXPECT_EQ(reserved.message(), fmt::format("gzip: reserved flags in {} at byte 0", flag));
  }
  std::string method = gzip_stored("x");
  method[2] = 7;
  EXPECT_EQ(decode_all(gunzip_stream, method).message(),
            "gzip: compression method 7, only Deflate (8) is read at byte 0");
}

}  // namespace
}  // namespace weightfs::gzip_test
