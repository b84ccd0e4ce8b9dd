#include "protocols/s3/stated_hash.h"

#include <gtest/gtest.h>

#include <string>

#include "base/source.h"
#include "tests/support/counted_source.h"

namespace weightfs::s3::stated_hash_test {
namespace {

std::span<const std::byte> octets(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string sample(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

http::Response with_hashes(std::vector<std::string> values) {
  http::Response response;
  for (std::string& value : values) response.headers.emplace_back("x-goog-hash", std::move(value));
  return response;
}

// The check value of CRC-32C, and the MD5 of the same digits.
TEST(StatedHash, IsReadFromOneHeaderOrSeveral) {
  const std::string digits = "123456789", crc = "crc32c=4waSgw==", md5 = "md5=JfnnlDI7RTiF9RgfG2JNCw==";
  for (const auto& values : {std::vector{crc + "," + md5}, std::vector{md5, crc}}) {
    const StatedHash stated = stated_hash(with_hashes(values));
    EXPECT_EQ(stated.crc32c, 0xE3069283U);
    EXPECT_TRUE(stated.md5);
    EXPECT_TRUE(stated.is_of(digits));
    EXPECT_FALSE(stated.is_of("123456780"));
  }
  EXPECT_FALSE(stated_hash(with_hashes({md5})).is_of("123456780"));
  EXPECT_TRUE(stated_hash(with_hashes({crc, "md5=AAAAAAAAAAAAAAAAAAAAAA=="})).is_of(digits)) << "needs no MD5";
}

TEST(StatedHash, InvalidOrOfOtherBytesIsNone) {
  EXPECT_TRUE(stated_hash({}).is_empty());
  EXPECT_TRUE(stated_hash(with_hashes({"crc32c=AAAA", "md5=AAAA", "sha1=AAAA", "crc32c", "crc32c=!"})).is_empty());
  http::Response compressed = with_hashes({"crc32c=4waSgw=="});
  compressed.headers.emplace_back("x-goog-stored-content-encoding", "gzip");
  EXPECT_TRUE(stated_hash(compressed).is_empty());
}

TEST(CrcOfRanges, OrderAndOverlapsDoNotMatter) {
  const std::string text = sample(10'000);
  const uint32_t right = crc32c(octets(text));
  for (const size_t step : {1UL, 7UL, 999UL, 3000UL, 10'000UL}) {
    CrcOfRanges forward(text.size()), backward(text.size()), mixed(text.size());
    const size_t pieces = (text.size() + step - 1) / step;
    for (size_t i = 0; i < pieces; ++i) {
      EXPECT_EQ(forward.whole(), std::nullopt);
      forward.add(i * step, octets(text).subspan(i * step, std::min(step, text.size() - i * step)));
      const size_t at = (pieces - 1 - i) * step;
      backward.add(at, octets(text).subspan(at, std::min(step + 5, text.size() - at)));
      const size_t other = (i * 7919 % pieces) * step;
      mixed.add(other, octets(text).subspan(other, std::min(step, text.size() - other)));
    }
    EXPECT_EQ(forward.whole(), right) << step;
    EXPECT_EQ(backward.whole(), right) << step;
    mixed.add(0, octets(text));
    EXPECT_EQ(mixed.whole(), right) << step;
  }
}

TEST(CrcOfRanges, RunsAreBounded) {
  const std::string text = sample(4 * CrcOfRanges::kMaxRuns);
  CrcOfRanges crc(text.size());
  for (size_t at = 0; at < text.size(); at += 2) crc.add(at, octets(text).subspan(at, 1));
  EXPECT_EQ(crc.whole(), std::nullopt);
  crc.add(0, octets(text));
  EXPECT_EQ(crc.whole(), crc32c(octets(text)));
}

TEST(ComparedSource, FailsWhenAllWasRead) {
  const std::string text = sample(1000);
  std::string buffer(text.size(), '\0');
  const auto out = std::as_writable_bytes(std::span(buffer));
  int mismatches = 0;
  const auto count = [&] { ++mismatches; };
  const auto right = compared(in_memory(text), {.crc32c = crc32c(octets(text))}, "gs://b/k", count);
  EXPECT_EQ(right->read(0, out).value(), text.size());
  EXPECT_EQ(buffer, text);
  EXPECT_EQ(mismatches, 0);
  for (const bool is_prefetched : {false, true}) {
    mismatches = 0;
    const auto bytes = std::make_shared<test::CountedSource>(text);
    const auto wrong = compared(bytes, {.crc32c = crc32c(octets(text)) ^ 1}, "gs://b/k", count);
    EXPECT_TRUE(wrong->read(0, out.first(400)));
    EXPECT_NE(wrong->verification(), VerifiedBy::mismatch);
    if (is_prefetched)
      EXPECT_EQ(wrong->prefetch({0, 1000}).error().code, Code::mismatch);
    else
      EXPECT_EQ(wrong->read(400, out.subspan(400)).error().code, Code::mismatch);
    const uint64_t before = bytes->bytes_read;
    EXPECT_EQ(wrong->read(0, out.first(1)).error().code, Code::mismatch);
    EXPECT_EQ(wrong->prefetch({0, 1}).error().code, Code::mismatch);
    EXPECT_EQ(bytes->bytes_read, before);
    EXPECT_EQ(mismatches, 1);
    EXPECT_EQ(wrong->verification(), VerifiedBy::mismatch);
  }
}

}  // namespace
}  // namespace weightfs::s3::stated_hash_test
