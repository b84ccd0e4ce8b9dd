#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tar_reading.h"

namespace weightfs::tar_compressed_test {
namespace {

using namespace test;
using namespace test::tars;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

std::string unhex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

// A tar of one member, compressed by xz, zstd and bzip2.
std::string one_tar() { return TarBuilder().file("a", "hello").build(); }
std::string one_xz() {
  return unhex(
      "fd377a585a000004e6d6b4460200210116000000742fe5a3e007ff003c5d00308033501868898301dce26e2105573538564d"
      "56f6b4b033cdd6cf455242850cdd764dae4facc60e72d4ca15b868867f1821788e2252c48d76def10000166ecaf57bd63b80"
      "00015880100000004ab977c2b1c467fb020000000004595a");
}
std::string one_zstd() {
  return unhex(
      "28b52ffd640007c50100b282080fb06b0ce409cd4b5ea4f532c2004d012684ccf15585ade6407120ef8e7fefc8bf25072070"
      "1ff7fd658e3a60f2844b0486f393c3024a98d2d9");
}
std::string one_bzip2() {
  return unhex(
      "425a6839314159265359afbf47f100002adb80c98040006f000000e2449e000808200054440000193d412453234c27a8018c"
      "ce3e448415eaf4316d7428c93835dc4ec221d1b650d5786bc893a0d08c01352be2ee48a70a1215f7e8fe20");
}
std::string twice_bzip2() {
  return unhex(
      "425a6839314159265359ea2634df0000147fffe05012206dd8226374c54c30004a84404404080140c081009061620c105124"
      "812000547311934c8c4c869a0184c9918866a6d431e527a189a301326026981304c134f41309a6134c785b4e3eb8045ac24d"
      "408551cc068a2ed644ec9080871ed557fe019bfdc71b13cbfafd62d3097b6bdbbbc10ac2250d833070042cfbee211b03f3e4"
      "1ac6d9db030f5b8c81af177245385090ea2634df");
}
std::vector<std::string> compressed() { return {gzip_stored(one_tar()), one_xz(), one_zstd(), one_bzip2()}; }

TEST(TarCompressed, IsReadCompressed) {
  for (const std::string& bytes : compressed()) {
    EXPECT_THAT(listing_of(bytes), ElementsAre("a = hello"));
    EXPECT_THAT(warnings_of(bytes), IsEmpty());
  }
  EXPECT_THAT(listing_of(gzip_stored(small_tar())), SizeIs(6));
}

TEST(TarCompressed, IsDecodedOnceIntoOneBlob) {
  const auto blobs = std::make_shared<RecordingBlobs>();
  const auto archive = members(std::make_shared<const Disk>(gzip_stored(small_tar())), blobs);
  ASSERT_TRUE(archive);
  ASSERT_THAT(blobs->recipes, SizeIs(1));
  const BlobProducer& recipe = blobs->recipes[0];
  EXPECT_EQ(recipe.name, "m.tar");
  EXPECT_EQ(recipe.size, std::nullopt);
  EXPECT_EQ(recipe.key, "disk 7 decoded from gzip");
  for (const Part& part : archive->parts)
    if (part.link_target.empty()) {
      const SourcePtr source = *part.source.get();
      const auto* const slice = dynamic_cast<const Slice*>(source.get());
      ASSERT_NE(slice, nullptr) << part.path;
      EXPECT_EQ(slice->whole()->size(), small_tar().size());
    }
}

TEST(TarCompressed, BlobKeyNamesItsSource) {
  const auto blobs = std::make_shared<RecordingBlobs>();
  for (const std::string& bytes : compressed()) ASSERT_TRUE(members(std::make_shared<const Disk>(bytes), blobs));
  std::vector<std::string> keys;
  for (const BlobProducer& recipe : blobs->recipes) keys.push_back(recipe.key);
  EXPECT_THAT(keys, ElementsAre("disk 7 decoded from gzip", "disk 7 decoded from xz", "disk 7 decoded from zstd",
                                "disk 7 decoded from bzip2"));
}

// Keeps what it decodes.
class DecodedBlobs final : public Blobs {
 public:
  SourcePtr blob(BlobProducer recipe) override { return uncached_blobs()->blob(std::move(recipe)); }
  Result<SourcePtr> materialize(BlobProducer recipe) override {
    if (is_decoded(recipe)) return kept_;
    key_ = recipe.key;
    return kept_ = TRY(uncached_blobs()->materialize(std::move(recipe)));
  }
  bool is_decoded(const BlobProducer& recipe) override { return !key_.empty() && recipe.key == key_; }
  void release_ranges(const std::string& identity) override { released.push_back(identity); }

  std::vector<std::string> released;

 private:
  std::string key_;
  SourcePtr kept_;
};

TEST(TarCompressed, IsReleasedWhenItIsDecodedAndNotReadAgain) {
  const auto blobs = std::make_shared<DecodedBlobs>();
  const std::string bytes = gzip_stored(small_tar());
  ASSERT_TRUE(members(std::make_shared<const Disk>(bytes), blobs));
  EXPECT_THAT(blobs->released, ElementsAre("disk 7"));
  ASSERT_TRUE(members(std::make_shared<const Disk>(bytes, 600), blobs));  // its first bytes tell the compression
  EXPECT_THAT(blobs->released, SizeIs(1));
}

// They are a file of the mount.
TEST(TarCompressed, IsKeptInAnotherContainerAndWhereItsDecodedFormIsNotCached) {
  const auto blobs = std::make_shared<DecodedBlobs>();
  Container inner{"m.tar", std::make_shared<const Disk>(gzip_stored(small_tar())), nullptr, blobs};
  inner.depth = 1;
  ASSERT_TRUE(archive::tar_members(inner));
  EXPECT_THAT(blobs->released, IsEmpty());
  const auto other = std::make_shared<DecodedBlobs>();
  ASSERT_TRUE(members(in_memory(gzip_stored(small_tar())), other));  // without an identity
  EXPECT_THAT(other->released, IsEmpty());
}

TEST(TarCompressed, GzipWithSeveralMembersAndTrailerIsRead) {
  const std::string tar = one_tar();
  const std::string two = gzip_stored(tar.substr(0, 700)) + gzip_stored(tar.substr(700));
  EXPECT_THAT(listing_of(two), ElementsAre("a = hello"));
  EXPECT_THAT(listing_of(gzip_stored("") + two + gzip_stored("")), ElementsAre("a = hello"));
  EXPECT_THAT(listing_of(gzip_stored(tar) + std::string(100, '\0')), ElementsAre("a = hello"));
  EXPECT_THAT(listing_of(two + "garbage behind it"), ElementsAre("a = hello"));
}

TEST(TarCompressed, XzWithSeveralStreamsIsRead) {
  std::string pieces;
  for (size_t at = 0; at < one_tar().size(); at += 64) pieces += xz::stream(one_tar().substr(at, 64));
  EXPECT_THAT(listing_of(pieces), ElementsAre("a = hello"));
  EXPECT_EQ(match(pieces), Match::yes);
  pieces.replace(pieces.size() - 24, 4, "oops");  // the last check, before the index and the footer
  EXPECT_THAT(error_of(pieces), StartsWith("corrupt: xz: invalid data"));
}

TEST(TarCompressed, GzipMemberAcrossReadsIsFound) {
  const std::string large = TarBuilder().file("a", std::string(65'500, 'x')).file("b", "2").build();
  for (size_t at = 65'480; at < 65'560; at += 3)
    EXPECT_THAT(listing_of(gzip_stored(large.substr(0, at)) + gzip_stored(large.substr(at))), SizeIs(2)) << at;
}

TEST(TarCompressed, WrongChecksumIsDetected) {
  std::string gzip = gzip_stored(one_tar());
  gzip[10 + 5 + 512] = 'H';  // of "hello"
  EXPECT_THAT(error_of(gzip), StartsWith("corrupt: gzip: CRC-32 or size mismatch"));
  gzip = gzip_stored(one_tar());
  gzip.back() = 1;
  EXPECT_THAT(error_of(gzip), StartsWith("corrupt: gzip: CRC-32 or size mismatch"));
  std::string xz = one_xz();
  xz[xz.size() - 12 - 12 - 1] ^= 1;  // before the index and the footer
  EXPECT_THAT(error_of(xz), StartsWith("corrupt: xz: invalid data"));
  std::string zstd = one_zstd();
  zstd.back() ^= 1;
  EXPECT_THAT(error_of(zstd), StartsWith("corrupt: zstd: "));
  std::string bzip2 = one_bzip2();
  bzip2[4 + 6] ^= 1;  // behind the magic numbers of the stream and of the block
  EXPECT_THAT(error_of(bzip2), StartsWith("corrupt: bzip2: "));
}

TEST(TarCompressed, InnerGzipMemberIsVerified) {
  const std::string tar = one_tar();
  const std::string first = gzip_stored(tar.substr(0, 700));
  for (const size_t from_end : {1U, 8U}) {  // its size, its CRC-32
    std::string wrong = first;
    wrong[wrong.size() - from_end] = static_cast<char>(wrong[wrong.size() - from_end] ^ 1);
    EXPECT_THAT(error_of(wrong + gzip_stored(tar.substr(700))), StartsWith("corrupt: gzip: CRC-32 or size mismatch"));
  }
}

TEST(TarCompressed, TooLargeDictionaryOrWindowIsUnsupported) {
  EXPECT_THAT(error_of(xz::stream_header() + xz::block_header(40)), StartsWith("xz: the dictionary is too large"));
  EXPECT_THAT(error_of(zstd::frame(zstd::raw_block(one_tar()), 28)), HasSubstr("windows of up to 128 MiB are read"));
}

TEST(TarCompressed, CompressedNonTarIsNotDecodedToItsEnd) {
  const auto blobs = std::make_shared<RecordingBlobs>();
  const auto archive = members(in_memory(gzip_stored(std::string(100'000, 'x'))), blobs);
  ASSERT_FALSE(archive);
  EXPECT_EQ(archive.error().code, Code::unsupported);
  EXPECT_EQ(archive.error().message, "gzip data, but not of a tar");
  EXPECT_THAT(blobs->recipes, IsEmpty());
  EXPECT_EQ(error_of(gzip_stored("")), "corrupt: gzip: 0 bytes, not a tar");
  EXPECT_EQ(error_of(gzip_stored(gzip_stored(one_tar()))), "gzip data, but not of a tar");
  EXPECT_EQ(error_of(twice_bzip2()), "bzip2: compressed more than once");
  EXPECT_THAT(listing_of(gzip_stored(std::string(1024, '\0'))), IsEmpty());
}

// Recognition.

TEST(TarCompressed, IsDetected) {
  for (const std::string& bytes : compressed()) EXPECT_EQ(match(bytes), Match::yes);
  // gzip is detected from a truncated head; the others only if a block fits.
  EXPECT_EQ(match(gzip_stored(TarBuilder().file("a", std::string(100'000, 'x')).build())), Match::yes);
  EXPECT_EQ(match(one_bzip2().substr(0, 60)), Match::maybe);
  EXPECT_EQ(match(one_zstd().substr(0, 60)), Match::maybe);
  EXPECT_EQ(match(one_xz().substr(0, 60)), Match::maybe);
}

TEST(TarCompressed, IsDetectedAfterAnyGzipHeader) {
  constexpr char kAll = 2 | 4 | 8 | 16;
  std::string announced("\3\0xyzname\0comment\0", 18);
  announced += crc_of(gzip_stored("", kAll, announced).substr(0, 10 + announced.size())).substr(0, 2);
  EXPECT_EQ(match(gzip_stored(one_tar(), kAll, announced)), Match::yes);
  EXPECT_THAT(listing_of(gzip_stored(one_tar(), kAll, announced)), ElementsAre("a = hello"));
  EXPECT_EQ(match(gzip_stored(one_tar(), 8, std::string(5000, 'n') + '\0')), Match::maybe);
  EXPECT_EQ(match(gzip_stored(one_tar(), 4, std::string("\xFF\xFF", 2))), Match::maybe);
}

TEST(TarCompressed, OtherCompressedFilesAreNotDetected) {
  EXPECT_EQ(match(gzip_stored("hello")), Match::no);
  EXPECT_EQ(match(gzip_stored("")), Match::no);
  EXPECT_EQ(match(gzip_stored(std::string(10'000, '\0'))), Match::no);
  EXPECT_EQ(match("\x1F\x8B"), Match::maybe);
}

// A truncated stream has no valid end.
TEST(TarCompressed, EveryTruncationIsRefused) {
  for (const std::string& whole : compressed())
    for (size_t size = 0; size < whole.size(); ++size) {
      match(whole.substr(0, size));
      EXPECT_FALSE(members(whole.substr(0, size))) << size << " of " << whole.size();
    }
}

TEST(TarCompressed, EveryFlippedByteIsRefusedOrRead) {
  for (const std::string& whole : compressed())
    for (size_t i = 0; i < whole.size(); ++i)
      for (const char flip : {'\x01', '\xFF'}) {
        std::string bytes = whole;
        bytes[i] = static_cast<char>(bytes[i] ^ flip);
        read_or_refuse(bytes);
      }
}

}  // namespace
}  // namespace weightfs::tar_compressed_test
