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

namespace weightfs {
namespace {

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

// Fails the test when bytes beyond its end are asked for.
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

// A source whose bytes from `good` on cannot be had.
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

TEST(Codec, UndoesWhatTheUsualCompressorsMake) {
  for (const size_t step : {1U, 7U, 100U, 4096U, 1U << 20}) {
    EXPECT_EQ(undo(inflated, sample_deflate(), step).bytes, sample_text());
    EXPECT_EQ(undo(gunzipped, sample_gzip(), step).bytes, sample_text());
    EXPECT_EQ(undo(decompressed_xz, sample_xz(), step).bytes, sample_text());
    EXPECT_EQ(undo(decompressed_zstd, sample_zstd(), step).bytes, sample_text());
  }
}

TEST(Codec, UndoesBlocksThatHoldBytesAsTheyAre) {
  const std::string bytes(200'000, 'b');
  EXPECT_EQ(undo(inflated, deflate_stored(bytes)).bytes, bytes);
  EXPECT_EQ(undo(inflated, deflate_stored("")).bytes, "");
  EXPECT_EQ(undo(inflated, deflate_stored("")).message(), "no error");
  EXPECT_EQ(undo(decompressed_zstd, zstd::frame(zstd::raw_block("one ", false) + zstd::raw_block("two"))).bytes,
            "one two");
}

TEST(Codec, UndoesWhatSwells) {
  const Read deflate = undo(inflated, deflate_bomb(100'000), 1 << 16);
  EXPECT_EQ(deflate.message(), "no error");
  EXPECT_EQ(deflate.bytes, std::string(1 + 258 * 100'000, 'x'));
  EXPECT_EQ(undo(decompressed_zstd, zstd::bomb(100)).bytes, std::string(100 << 17, 'x'));
}

TEST(Codec, DeflateDataEndWhereTheySay) {
  const Read read = undo(inflated, sample_deflate() + "something else");
  EXPECT_EQ(read.bytes, sample_text());
  EXPECT_EQ(read.message(), "no error");
}

TEST(Codec, DeflateDataThatAreCutOrWrongAreRefused) {
  const std::string whole = sample_deflate();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Read read = undo(inflated, whole.substr(0, size));
    ASSERT_TRUE(read.error) << size;
    EXPECT_EQ(read.error->code, Code::corrupt);
    EXPECT_THAT(read.error->message, StartsWith("deflate: "));
    EXPECT_THAT(sample_text(), StartsWith(read.bytes));
  }
  EXPECT_THAT(undo(inflated, "\7").message(), HasSubstr("an invalid code"));  // block type 3
  EXPECT_THAT(undo(inflated, std::string("\1\5\0\0\0hello", 10)).message(), HasSubstr("an invalid code"));  // LEN, ~LEN
  EXPECT_THAT(undo(inflated, std::string("\x03\x02\x00", 3)).message(), HasSubstr("too far back"));
}

// There is no checksum in Deflate: wrong bytes may come out, but an end does.
TEST(Codec, DeflateDataWithAFlippedBitComeToAnEnd) {
  for (size_t bit = 0; bit < sample_deflate().size() * 8; ++bit) {
    std::string bytes = sample_deflate();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_LT(undo(inflated, bytes, 100).bytes.size(), bytes.size() * 1032);
  }
}

// xz.

TEST(Codec, TakesAnyNumberOfXzStreams) {
  const std::string one = xz::stream("one ");
  EXPECT_EQ(undo(decompressed_xz, one + xz::stream("two")).bytes, "one two");
  // Between streams and behind them may be zeros, four at a time.
  EXPECT_EQ(undo(decompressed_xz, one + std::string(8, '\0') + sample_xz() + std::string(4, '\0'), 1).bytes,
            "one " + sample_text());
  for (const std::string& behind : {std::string(3, '\0'), std::string("garbage behind it")}) {
    const Read read = undo(decompressed_xz, one + behind);
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, Code::corrupt);
  }
}

TEST(Codec, ManyXzStreamsLieAcrossBuffersAsTheyLike) {
  std::string compressed, bytes;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = std::to_string(i);
    compressed += xz::stream(text);
    bytes += text;
  }
  for (const size_t step : {3U, 4096U}) EXPECT_EQ(undo(decompressed_xz, compressed, step).bytes, bytes);
}

TEST(Codec, XzDataThatAreCutAreRefused) {
  const std::string one = xz::stream("one ");
  const std::string whole = one + sample_xz();
  for (size_t size = 0; size < whole.size(); ++size) {
    if (size == one.size()) continue;
    const Read read = undo(decompressed_xz, whole.substr(0, size));
    ASSERT_TRUE(read.error) << size;
    EXPECT_EQ(read.error->code, Code::corrupt) << read.message();
    EXPECT_THAT(read.message(), StartsWith("xz: "));
    EXPECT_THAT("one " + sample_text(), StartsWith(read.bytes));
  }
  EXPECT_EQ(undo(decompressed_xz, one.substr(0, 20)).message(), "xz: cut short before byte 20");
}

TEST(Codec, XzDataWithAFlippedBitAreRefused) {
  for (size_t bit = 0; bit < sample_xz().size() * 8; ++bit)
    EXPECT_TRUE(undo(decompressed_xz, flipped(sample_xz(), bit), 100).error) << bit;
  const Read read = undo(decompressed_xz, xz::stream("wrong", crc_of("right")));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::corrupt);
  EXPECT_THAT(read.message(), StartsWith("xz: broken before byte "));
}

TEST(Codec, AnXzDictionaryBeyondTheLimitIsUnsupported) {
  EXPECT_EQ(undo(decompressed_xz, xz::stream("x", crc_of("x"), 28)).bytes, "x");  // 64 MiB: xz -9
  for (const char dictionary : {'\x1D', '\x28'}) {                                // 96 MiB, 4 GiB
    const Read read = undo(decompressed_xz, xz::stream_header() + xz::block_header(dictionary));
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, Code::unsupported);
    EXPECT_THAT(read.message(), StartsWith("xz: the dictionary is too large: "));
    EXPECT_THAT(read.message(), HasSubstr("at most 80.0 MiB are used"));
  }
}

TEST(Codec, ACheckOrAFilterOfXzThatNobodyKnowsIsUnsupported) {
  for (const std::string& xz : {xz::stream_header(2), xz::stream_header() + xz::block_header(0, 0x22)}) {
    const Read read = undo(decompressed_xz, xz + std::string(100, '\0'));
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, Code::unsupported) << read.message();
    EXPECT_THAT(read.message(), HasSubstr("that is not known"));
  }
}

// Zstandard.

TEST(Codec, TakesAnyNumberOfZstandardFrames) {
  const std::string one = zstd::sized_frame("one ");
  const std::string two = zstd::frame(zstd::raw_block("two"));
  EXPECT_EQ(undo(decompressed_zstd, one + zstd::skippable("not this") + two).bytes, "one two");
  EXPECT_EQ(undo(decompressed_zstd, zstd::skippable("") + one + zstd::skippable(std::string(300'000, 's'))).bytes,
            "one ");
  EXPECT_EQ(undo(decompressed_zstd, one + zstd::frame(zstd::raw_block("")) + sample_zstd(), 1).bytes,
            "one " + sample_text());
  for (const std::string& nothing : {std::string(), zstd::skippable("nothing")}) {
    EXPECT_EQ(undo(decompressed_zstd, nothing).bytes, "");
    EXPECT_EQ(undo(decompressed_zstd, nothing).message(), "no error");
  }
}

TEST(Codec, ManyFramesLieAcrossBuffersAsTheyLike) {
  std::string compressed, bytes;
  for (int i = 0; i < 40'000; ++i) {
    const std::string text = std::to_string(i);
    compressed += zstd::sized_frame(text);
    bytes += text;
  }
  EXPECT_EQ(undo(decompressed_zstd, compressed).bytes, bytes);
}

TEST(Codec, ZstandardDataThatAreCutOrGoOnAreRefused) {
  const std::string whole = sample_zstd();
  for (size_t size = 1; size < whole.size(); ++size) {
    const Read read = undo(decompressed_zstd, whole.substr(0, size));
    ASSERT_TRUE(read.error) << size;
    EXPECT_EQ(read.error->code, Code::corrupt);
    EXPECT_THAT(read.error->message, StartsWith("zstd: "));
    EXPECT_THAT(sample_text(), StartsWith(read.bytes));
  }
  for (const char* more : {"x", "more", "much more"}) {
    const Read read = undo(decompressed_zstd, whole + more);
    EXPECT_EQ(read.bytes, sample_text());
    EXPECT_EQ(read.message(), "zstd: no frame at byte 148");
  }
}

TEST(Codec, ZstandardDataWithAFlippedBitAreRefused) {
  for (size_t bit = 0; bit < sample_zstd().size() * 8; ++bit) {
    std::string bytes = sample_zstd();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    const Read read = undo(decompressed_zstd, bytes, 100);
    // A longer window, or a bit of the header that means nothing, makes no other bytes.
    EXPECT_TRUE(read.error || read.bytes == sample_text()) << bit;
  }
  std::string checksum = sample_zstd();
  checksum.back() = static_cast<char>(checksum.back() ^ 1);
  EXPECT_THAT(undo(decompressed_zstd, checksum).message(), HasSubstr("checksum"));
}

// libzstd decodes them too, with memory that it does not ask us for.
TEST(Codec, FramesOfZstandardsFirstFormatsAreRefused) {
  for (const uint32_t version : {0xFD2FB525U, 0xFD2FB526U, 0xFD2FB527U})
    EXPECT_EQ(undo(decompressed_zstd, le(version, 4) + std::string(100, '\0')).message(), "zstd: no frame at byte 0");
}

TEST(Codec, FramesThatNeedADictionaryAreUnsupported) {
  const Read read = undo(decompressed_zstd, le(zstd::kMagic, 4) + "\x21\x07\x01" + zstd::raw_block("x"));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::unsupported) << read.message();
}

TEST(Codec, ALongWindowLiesInAFileWithoutAName) {
  const TemporaryDirectory directory;
  const TemporaryFilesIn there(directory.path(""));
  const std::string large = zstd::frame(zstd::raw_block("far ", false) + zstd::raw_block("away"), 27);
  const auto stream = decompressed_zstd(in_memory(large));
  ASSERT_TRUE(stream);
  std::byte first[4];
  ASSERT_EQ((*stream)->next(first).value_or(0), 4u);
  EXPECT_THAT(memory_map(), HasSubstr(directory.path("")));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path("")));
  EXPECT_EQ(read_from(**stream, 10).bytes, "away");
}

TEST(Codec, WithoutRoomForALongWindowReadingFails) {
  const TemporaryDirectory directory;
  const TemporaryFilesIn nowhere(directory.path("is not there"));
  const auto frame = [](int window_log) { return zstd::frame(zstd::raw_block("x"), window_log); };
  const Read read = undo(decompressed_zstd, frame(27));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::io);
  EXPECT_THAT(read.message(), HasSubstr("is not there: No such file or directory"));
  EXPECT_EQ(undo(decompressed_zstd, frame(23)).bytes, "x");
}

TEST(Codec, AWindowBeyondTheLimitIsUnsupported) {
  const Read read = undo(decompressed_zstd, zstd::frame(zstd::raw_block("x"), 28));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->code, Code::unsupported);
  EXPECT_THAT(read.message(), HasSubstr("windows of up to 128 MiB are read"));
}

TEST(Codec, AnErrorOfTheSourceStaysWhatItIs) {
  for (const auto& [codec, bytes] :
       {std::pair<Codec, std::string>{inflated, deflate_stored(std::string(500'000, 'x'))},
        {gunzipped, gzip_stored(std::string(500'000, 'x'))},
        {decompressed_xz, xz::stream("x") + std::string(500'000, '\0')},
        {decompressed_zstd, zstd::sized_frame("x") + zstd::skippable(std::string(500'000, 'x'))}}) {
    const auto stream = codec(std::make_shared<Failing>(bytes, 200'000));
    ASSERT_TRUE(stream);
    const Read read = read_from(**stream, 1000);
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, Code::io);
    EXPECT_EQ(read.message(), "the disk is gone");
  }
}

TEST(Codec, NoDecoderAsksForBytesBeyondTheEnd) {
  for (const size_t more : {0U, 100'000U, 200'000U})
    for (const auto& [codec, bytes] :
         {std::pair<Codec, std::string>{inflated, deflate_stored(std::string(more, 'x')) + sample_deflate()},
          {gunzipped, gzip_stored(std::string(more, 'x')) + sample_gzip()},
          {decompressed_xz, sample_xz() + std::string(more, '\0') + sample_xz()},
          {decompressed_zstd, zstd::skippable(std::string(more, 'x')) + sample_zstd()}}) {
      const auto stream = codec(std::make_shared<Ending>(bytes));
      ASSERT_TRUE(stream);
      EXPECT_EQ(read_from(**stream, 1000).message(), "no error");
      const auto cut = codec(std::make_shared<Ending>(bytes.substr(0, bytes.size() / 2)));
      ASSERT_TRUE(cut);
      read_from(**cut, 1000);
    }
}

}  // namespace
}  // namespace weightfs
