// Blobs that are produced again for each reader, and not cached.
#include "base/blobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/text.h"

namespace weightfs::blobs_test {
namespace {

using testing::HasSubstr;

// Gives `text` in bites of three, then fails or ends.
class Bites final : public Stream {
 public:
  Bites(std::string text, bool fails) : text_(std::move(text)), fails_(fails) {}
  Result<size_t> next(std::span<std::byte> out) override {
    if (at_ == text_.size() && fails_) return failure(Code::corrupt, "bad checksum");
    const size_t count = std::min({out.size(), size_t{3}, text_.size() - at_});
    std::memcpy(out.data(), text_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  std::string text_;
  bool fails_;
  size_t at_ = 0;
};

class UncachedBlobs : public testing::Test {
 protected:
  BlobProducer producer(const std::string& text, uint64_t size) {
    BlobProducer out{.name = "m", .size = size, .digest = {}, .key = "key", .start = nullptr};
    out.start = [this, text]() -> Result<StreamPtr> {
      ++starts_;
      return std::make_unique<Bites>(text, fails_);
    };
    return out;
  }
  std::string read(const Source& source, uint64_t offset, size_t size) {
    std::string out(size, '?');
    const auto got = source.read(offset, std::as_writable_bytes(std::span(out)));
    return got ? out.substr(0, *got) : "error: " + got.error().message;
  }

  int starts_ = 0;
  bool fails_ = false;
};

TEST_F(UncachedBlobs, SequentialReadsContinueTheStream) {
  const auto blob = uncached_blobs()->blob(producer("0123456789", 10));
  EXPECT_EQ(starts_, 0);
  EXPECT_EQ(read(*blob, 0, 4), "0123");
  EXPECT_EQ(read(*blob, 4, 2), "45");
  EXPECT_EQ(read(*blob, 7, 9), "789");
  EXPECT_EQ(starts_, 1);
  EXPECT_EQ(read(*blob, 1, 3), "123");
  EXPECT_EQ(starts_, 2);
  EXPECT_EQ(read(*blob, 10, 5), "");
  EXPECT_EQ(blob->identity(), "key");
}

TEST_F(UncachedBlobs, LastByteOfCorruptStreamIsNotServed) {
  EXPECT_THAT(read(*uncached_blobs()->blob(producer("0123", 10)), 0, 10), HasSubstr("m: ends at byte 4 of 10"));
  EXPECT_THAT(read(*uncached_blobs()->blob(producer("0123456789", 4)), 0, 4),
              HasSubstr("m: longer than the 4 declared bytes"));
  fails_ = true;
  const auto blob = uncached_blobs()->blob(producer("0123456789", 10));
  EXPECT_EQ(read(*blob, 0, 9), "012345678");
  EXPECT_EQ(read(*blob, 0, 10), "error: bad checksum");
}

TEST_F(UncachedBlobs, VerifiesDigest) {
  BlobProducer right = producer("0123456789", 10);
  right.digest = sha256("0123456789");
  EXPECT_EQ(read(*uncached_blobs()->blob(right), 0, 10), "0123456789");
  BlobProducer wrong = producer("0123456789", 10);
  wrong.digest = sha256("x");
  const auto blob = uncached_blobs()->blob(wrong);
  EXPECT_EQ(read(*blob, 0, 9), "012345678");
  EXPECT_THAT(read(*blob, 9, 1), HasSubstr("m: digest mismatch: found "));
}

TEST_F(UncachedBlobs, MeasuresBlobOfUnknownSize) {
  BlobProducer unmeasured = producer("0123456789", 0);
  unmeasured.size.reset();
  const auto blob = uncached_blobs()->materialize(unmeasured);
  ASSERT_TRUE(blob);
  EXPECT_EQ((*blob)->size(), 10U);
  EXPECT_EQ(read(**blob, 2, 3), "234");
  fails_ = true;
  EXPECT_EQ(uncached_blobs()->materialize(unmeasured).error().message, "bad checksum");
}

TEST(DigestText, IsParsedOrRejected) {
  const Digest digest = sha256("a");
  std::string hex = digest.hex();
  EXPECT_EQ(digest_of_hex(hex), digest);
  for (char& c : hex) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(digest_of_hex(hex), digest);
  EXPECT_EQ(digest_of_hex(hex.substr(1)), std::nullopt);
  hex[63] = 'g';
  EXPECT_EQ(digest_of_hex(hex), std::nullopt);
  EXPECT_EQ(md5_of_hex("d41d8cd98f00b204e9800998ecf8427e"), Md5Sum().finish());
}

TEST(Crc32, MatchesZipAndIsIncremental) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(crc32(0, bytes("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32(crc32(0, bytes("1234")), bytes("56789")), 0xCBF43926U);
  EXPECT_EQ(crc32(7, {}), 7U);
}

// The values of RFC 3720, section B.4.
TEST(Crc32c, IsCastagnoli) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c(bytes(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(crc32c(bytes(std::string(32, '\xFF'))), 0x62A8AB43U);
  EXPECT_EQ(crc32c(crc32c(bytes("1234")), bytes("56789")), 0xE3069283U);
}

}  // namespace
}  // namespace weightfs::blobs_test
