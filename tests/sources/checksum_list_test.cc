// Lists of checksums as programs write them, and as hostile files have them.
#include "sources/disk/checksum_list.h"

#include <gtest/gtest.h>

namespace weightfs::checksum_list_test {
namespace {

const std::string kHex = sha256("a").hex();
const std::string kSha1(40, 'b');
const std::string kMd5(32, 'c');

// "PATH=HEX" of each line.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  for (const ListedDigest& line : parse_checksum_list(text)) {
    const FileDigest& digest = line.digest;
    out.push_back(line.path + "=" +
                  (digest.sha256 ? digest.sha256->hex()
                   : digest.sha1 ? digest.sha1->hex()
                                 : digest.md5->hex()));
  }
  return out;
}

using Lines = std::vector<std::string>;

TEST(ChecksumList, LinesOfSha256sumAreRead) {
  EXPECT_EQ(lines_of(kHex + "  model.gguf\n" + kHex + " *b.gguf\n"), (Lines{"model.gguf=" + kHex, "b.gguf=" + kHex}));
  EXPECT_EQ(lines_of(kHex + "  ./sub/a b.gguf\r\n"), (Lines{"sub/a b.gguf=" + kHex}));
  EXPECT_EQ(lines_of("\\" + kHex + "  a\\\\b\\nc\n"), (Lines{"a\\b\nc=" + kHex}));
}

TEST(ChecksumList, BareDigestHasNoName) {
  for (const std::string& text :
       {kHex, kHex + "\n", " " + kHex + " \n", "sha256:" + kHex, kHex + "  -\n", "\xEF\xBB\xBF" + kHex})
    EXPECT_EQ(lines_of(text), (Lines{"=" + kHex})) << text;
}

TEST(ChecksumList, TaggedLinesOfBsdAndOpensslAreRead) {
  EXPECT_EQ(lines_of("SHA256 (m (1).gguf) = " + kHex), (Lines{"m (1).gguf=" + kHex}));
  EXPECT_EQ(lines_of("SHA2-256(m.gguf)= " + kHex), (Lines{"m.gguf=" + kHex}));
}

TEST(ChecksumList, LengthTellsTheKind) {
  EXPECT_EQ(lines_of(kSha1 + "  a\n" + kMd5 + "  b\n"), (Lines{"a=" + kSha1, "b=" + kMd5}));
}

TEST(ChecksumList, OtherLinesAreLeftOut) {
  const std::string text = "# comment\n\n" + kHex.substr(1) + "  short\nSHA512 (x) = " + kHex + "\n)(\nSHA256 (x) " +
                           kHex + "\n" + std::string("\0\xff", 2) + "\n" + kHex + "  last";
  EXPECT_EQ(lines_of(text), (Lines{"last=" + kHex}));
  EXPECT_EQ(lines_of(""), Lines{});
}

}  // namespace
}  // namespace weightfs::checksum_list_test
