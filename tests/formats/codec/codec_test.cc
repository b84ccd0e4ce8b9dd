#include "formats/codec/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/support/codec_reading.h"
#include "tests/support/compressed.h"
#include "tests/support/temporary.h"

namespace weightfs::codec_test {
namespace {

using namespace codec;
using namespace test;
using testing::HasSubstr;
using testing::StartsWith;

// The environment variable TMPDIR, as it was again at the end.
class TemporaryFilesIn {
 public:
  explicit TemporaryFilesIn(const std::string& directory) {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", directory.c_str(), 1);
  }
  ~TemporaryFilesIn() { before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR"); }
  TemporaryFilesIn(const TemporaryFilesIn&) = delete;
  TemporaryFilesIn& operator=(const TemporaryFilesIn&) = delete;

 private:
  std::optional<std::string> before_;
};

std::string memory_map() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

// Fails the test on a read beyond its end.
class Ending final : public Source {
 public:
  explicit Ending(std::string bytes) : bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    EXPECT_LE(offset, size());
    EXPECT_LE(out.size(), size() - std::min(offset, size()));
    return bytes_->read(offset, out);
  }

 private:
  SourcePtr bytes_;
};

// A source that fails from offset `good` on.
class Failing final : public Source {
 public:
  explicit Failing(std::string bytes, uint64_t good) : bytes_(in_memory(std::move(bytes))), good_(good) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= good_) return failure(Code::io, "the disk is gone");
    return bytes_->read(offset, out.first(std::min<size_t>(out.size(), good_ - offset)));
  }

 private:
  SourcePtr bytes_;
  uint64_t good_;
};

TEST(Codec, DecodesOutputOfUsualCompressors) {
  for (const size_t step : {1U, 7U, 100U, 4096U, 1U << 20}) {
    EXPECT_EQ(decode_all(inflate_stream, sample_deflate(), step).bytes, sample_text());
    EXPECT_EQ(decode_all(gunzip_stream, sample_gzip(), step).bytes, sample_text());
    EXPECT_EQ(decode_all(xz_stream, sample_xz(), step).bytes, sample_text());
    EXPECT_EQ(decode_all(zstd_stream, sample_zstd(), step).bytes, sample_text());
  }
}

TEST(Codec, DecodesStoredBlocks) {
  const std::string bytes(200'000, 'b');
  EXPECT_EQ(decode_all(inflate_stream, deflate_stored(bytes)).bytes, bytes);
  EXPECT_EQ(decode_all(inflate_stream, deflate_stored("")).bytes, "");
  EXPECT_EQ(decode_all(inflate_stream, deflate_stored("")).message(), "no error");
  EXPECT_EQ(decode_all(zstd_stream, zstd::frame(zstd::raw_block("one ", false) + zstd::raw_block("two"))).bytes,
            "one two");
}

TEST(Codec, DecodesIncompressibleData) {
  const Read deflate = decode_all(inflate_stream, deflate_bomb(100'000), 1 << 16);
  EXPECT_EQ(deflate.message(), "no error");
  EXPECT_EQ(deflate.bytes, std::string(1 + 258 * 100'000, 'x'));
  EXPECT_EQ(decode_all(zstd_stream, zstd::bomb(100)).bytes, std::string(100 << 17, 'x'));
}

TEST(Codec, DeflateEndsAtItsFinalBlock) {
  const Read read = decode_all(inflate_stream, sample_deflate() + "something else");
  EXPECT_EQ(read.bytes, sample_text());
  EXPECT_EQ(read.message(), "no error");
}

TEST(Codec, TruncatedOrInvalidDeflateIsRefused) {
  const std::string whole = sample_deflate();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Read read = decode_all(inflate_stream, whole.substr(0, size));
    ASSERT_TRUE(read.error) << size;
    EXPECT_EQ(read.error->code, Code::corrupt);
    EXPECT_THAT(read.error->message, StartsWith("deflate: "));
    EXPECT_THAT(sample_text(), StartsWith(read.bytes));
  }
  EXPECT_THAT(decode_all(inflate_stream, "\7").message(), HasSubstr("invalid code"));  // block type 3
  EXPECT_THAT(decode_all(inflate_stream, std::string("\1\5\0\0\0hello", 10)).message(),
              HasSubstr("invalid code"));  // LEN, ~LEN
  EXPECT_THAT(decode_all(inflate_stream, std::string("\x03\x02\x00", 3)).message(), HasSubstr("invalid distance"));
}

// Deflate has no checksum: the output may be wrong, but decoding ends.
TEST(Codec, DeflateWithFlippedBitTerminates) {
  for (size_t bit = 0; bit < sample_deflate().size() * 8; ++bit) {
    std::string bytes = sample_deflate();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_LT(decode_all(inflate_stream, bytes, 100).bytes.size(), bytes.size() * 1032);
  }
}

// xz.

TEST(Codec, DecodesSeveralXzStreams) {
  const std::string one = xz::stream("one ");
  EXPECT_EQ(decode_all(xz_stream, one + xz::stream("two")).bytes, "one two");
  // Between streams and behind them may be zeros, four at a time.
  EXPECT_EQ(decode_all(xz_stream, one + std::string(8, '\0') + sample_xz() + std::string(4, '\0'), 1).bytes,
            "one " + sample_text());
  for (const std::string& behind : {std::string(3, '\0'), std::string("garbage behind it")}) {
    const Read read = decode_all(xz_stream, one + behind);
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, Code::corrupt);
  }
}

TEST(Codec, XzStreamsMaySpanBuffers) {
  std::string compressed, bytes;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = std::to_string(i);
    compressed += xz::stream(text);
    bytes += text;
  }
  for (const size_t step : {3U, 4096U}) EXPECT_EQ(decode_all(xz_stream, compressed, step).bytes, bytes);
}

TEST(Codec, TruncatedXzIsRefused) {
  const std::string one = xz::stream("one ");
  const std::string whole = one + sample_xz();
  for (size_t size = 0; size < whole.size(); ++size) {
    if (size == one.size()) continue;
    const Read read = decode_all(xz_stream, whole.substr(0, size));
    ASSERT_TRUE(read.error) << size;
    EXPECT_EQ(read.error->code, Code::corrupt) << read.message();
    EXPECT_THAT(read.message(), StartsWith("xz: "));
    EXPECT_THAT("one " + sample_text(), StartsWith(read.bytes));
  }
  EXPECT_EQ(decode_all(xz_stream, one.substr(0, 20)).message(), "xz: truncated at byte 20");
}

TEST(Codec, XzWithFlippedBitIsRefused) {
  for (size_t bit = 0; bit < sample_xz().size() * 8; ++bit)
    EXPECT_TRUE(decode_all(xz_stream, flipped(sample_xz(), bit), 100).error) << bit;
  const Read read = decode_all(xz_stream, xz::stream("wrong", crc_of("right")));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::corrupt);
  EXPECT_THAT(read.message(), StartsWith("xz: invalid data near byte "));
}

TEST(Codec, XzDictionaryBeyondLimitIsUnsupported) {
  EXPECT_EQ(decode_all(xz_stream, xz::stream("x", crc_of("x"), 28)).bytes, "x");  // 64 MiB: xz -9
  for (const char dictionary : {'\x1D', '\x28'}) {                                // 96 MiB, 4 GiB
    const Read read = decode_all(xz_stream, xz::stream_header() + xz::block_header(dictionary));
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, Code::unsupported);
    EXPECT_THAT(read.message(), StartsWith("xz: the dictionary is too large: "));
    EXPECT_THAT(read.message(), HasSubstr("at most 80.0 MiB are used"));
  }
}

TEST(Codec, UnknownXzCheckOrFilterIsUnsupported) {
  for (const std::string& xz : {xz::stream_header(2), xz::stream_header() + xz::block_header(0, 0x22)}) {
    const Read read = decode_all(xz_stream, xz + std::string(100, '\0'));
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, Code::unsupported) << read.message();
    EXPECT_THAT(read.message(), HasSubstr("unknown"));
  }
}

// Zstandard.

TEST(Codec, DecodesSeveralZstdFrames) {
  const std::string one = zstd::sized_frame("one ");
  const std::string two = zstd::frame(zstd::raw_block("two"));
  EXPECT_EQ(decode_all(zstd_stream, one + zstd::skippable("not this") + two).bytes, "one two");
  EXPECT_EQ(decode_all(zstd_stream, zstd::skippable("") + one + zstd::skippable(std::string(300'000, 's'))).bytes,
            "one ");
  EXPECT_EQ(decode_all(zstd_stream, one + zstd::frame(zstd::raw_block("")) + sample_zstd(), 1).bytes,
            "one " + sample_text());
  for (const std::string& nothing : {std::string(), zstd::skippable("nothing")}) {
    EXPECT_EQ(decode_all(zstd_stream, nothing).bytes, "");
    EXPECT_EQ(decode_all(zstd_stream, nothing).message(), "no error");
  }
}

TEST(Codec, ZstdFramesMaySpanBuffers) {
  std::string compressed, bytes;
  for (int i = 0; i < 40'000; ++i) {
    const std::string text = std::to_string(i);
    compressed += zstd::sized_frame(text);
    bytes += text;
  }
  EXPECT_EQ(decode_all(zstd_stream, compressed).bytes, bytes);
}

TEST(Codec, TruncatedOrTrailingZstdIsRefused) {
  const std::string whole = sample_zstd();
  for (size_t size = 1; size < whole.size(); ++size) {
    const Read read = decode_all(zstd_stream, whole.substr(0, size));
    ASSERT_TRUE(read.error) << size;
    EXPECT_EQ(read.error->code, Code::corrupt);
    EXPECT_THAT(read.error->message, StartsWith("zstd: "));
    EXPECT_THAT(sample_text(), StartsWith(read.bytes));
  }
  for (const char* more : {"x", "more", "much more"}) {
    const Read read = decode_all(zstd_stream, whole + more);
    EXPECT_EQ(read.bytes, sample_text());
    EXPECT_EQ(read.message(), "zstd: no frame at byte 148");
  }
}

TEST(Codec, ZstdWithFlippedBitIsRefused) {
  for (size_t bit = 0; bit < sample_zstd().size() * 8; ++bit) {
    std::string bytes = sample_zstd();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    const Read read = decode_all(zstd_stream, bytes, 100);
    // A longer window, or a bit of the header that means nothing, makes no other bytes.
    EXPECT_TRUE(read.error || read.bytes == sample_text()) << bit;
  }
  std::string checksum = sample_zstd();
  checksum.back() = static_cast<char>(checksum.back() ^ 1);
  EXPECT_THAT(decode_all(zstd_stream, checksum).message(), HasSubstr("checksum"));
}

// libzstd decodes them too, with memory that it does not request from our allocator.
TEST(Codec, LegacyZstdFramesAreRefused) {
  for (const uint32_t version : {0xFD2FB525U, 0xFD2FB526U, 0xFD2FB527U})
    EXPECT_EQ(decode_all(zstd_stream, le(version, 4) + std::string(100, '\0')).message(), "zstd: no frame at byte 0");
}

TEST(Codec, ZstdFrameWithDictionaryIsUnsupported) {
  const Read read = decode_all(zstd_stream, le(zstd::kMagic, 4) + "\x21\x07\x01" + zstd::raw_block("x"));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::unsupported) << read.message();
}

TEST(Codec, LongWindowIsKeptInUnnamedFile) {
  const TemporaryDirectory directory;
  const TemporaryFilesIn there(directory.path(""));
  const std::string large = zstd::frame(zstd::raw_block("far ", false) + zstd::raw_block("away"), 27);
  const auto stream = zstd_stream(in_memory(large));
  ASSERT_TRUE(stream);
  std::byte first[4];
  ASSERT_EQ((*stream)->next(first).value_or(0), 4u);
  EXPECT_THAT(memory_map(), HasSubstr(directory.path("")));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path("")));
  EXPECT_EQ(read_from(**stream, 10).bytes, "away");
}

TEST(Codec, LongWindowWithoutDiskSpaceFails) {
  const TemporaryDirectory directory;
  const TemporaryFilesIn nowhere(directory.path("is not there"));
  const auto frame = [](int window_log) { return zstd::frame(zstd::raw_block("x"), window_log); };
  const Read read = decode_all(zstd_stream, frame(27));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::io);
  EXPECT_THAT(read.message(), HasSubstr("is not there: No such file or directory"));
  EXPECT_EQ(decode_all(zstd_stream, frame(23)).bytes, "x");
}

TEST(Codec, WindowBeyondLimitIsUnsupported) {
  const Read read = decode_all(zstd_stream, zstd::frame(zstd::raw_block("x"), 28));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::unsupported);
  EXPECT_THAT(read.message(), HasSubstr("windows of up to 128 MiB are read"));
}

TEST(Codec, SourceErrorIsPassedThrough) {
  for (const auto& [codec, bytes] :
       {std::pair<Codec, std::string>{inflate_stream, deflate_stored(std::string(500'000, 'x'))},
        {gunzip_stream, gzip_stored(std::string(500'000, 'x'))},
        {xz_stream, xz::stream("x") + std::string(500'000, '\0')},
        {zstd_stream, zstd::sized_frame("x") + zstd::skippable(std::string(500'000, 'x'))}}) {
    const auto stream = codec(std::make_shared<Failing>(bytes, 200'000));
    ASSERT_TRUE(stream);
    const Read read = read_from(**stream, 1000);
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, Code::io);
    EXPECT_EQ(read.message(), "the disk is gone");
  }
}

TEST(Codec, DecodersDoNotReadBeyondEnd) {
  for (const size_t more : {0U, 100'000U, 200'000U})
    for (const auto& [codec, bytes] :
         {std::pair<Codec, std::string>{inflate_stream, deflate_stored(std::string(more, 'x')) + sample_deflate()},
          {gunzip_stream, gzip_stored(std::string(more, 'x')) + sample_gzip()},
          {xz_stream, sample_xz() + std::string(more, '\0') + sample_xz()},
          {zstd_stream, zstd::skippable(std::string(more, 'x')) + sample_zstd()}}) {
      const auto stream = codec(std::make_shared<Ending>(bytes));
      ASSERT_TRUE(stream);
      EXPECT_EQ(read_from(**stream, 1000).message(), "no error");
      const auto cut = codec(std::make_shared<Ending>(bytes.substr(0, bytes.size() / 2)));
      ASSERT_TRUE(cut);
      read_from(**cut, 1000);
    }
}

}  // namespace
}  // namespace weightfs::codec_test
