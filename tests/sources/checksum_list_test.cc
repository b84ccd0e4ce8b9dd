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
    out.push_back(line.path + "=" + hex_of(line.digest.sum.value()));
  }
  return out;
}

using Lines = std::vector<std::string>;

TEST(ChecksumList, LinesOfSha256sumAreRead) {
  EXPECT_EQ(lines_of(kHex + "  model.gguf\n" + kHex + " *b.gguf\n"), (Lines{"model.gguf=" + kHex, "b.gguf=" + kHex}));
  EXPECT_EQ(lines_of(kHex + "  ./sub/a b.gguf\r\n"), (Lines{"sub/a b.gguf=" + kHex}));
  EXPECT_EQ(lines_of("\\" + kHex + "  a\\\\b\\nc\n"), (Lines{"a\\b\nc=" + kHex}));
}

TEST(ChecksumList, NamesOfWindowsHaveSlashes) {
  EXPECT_EQ(lines_of(kHex + "  .\\unet\\model.gguf\r\n"), (Lines{"unet/model.gguf=" + kHex}));
}

// As PowerShell writes text, and the same for other machines.
TEST(ChecksumList, Utf16IsRead) {
  const std::string name = "m\u00e9\u4e2d\U0001F600.gguf";  // of one to four bytes
  const std::u16string text =
      u"\uFEFF" + std::u16string(kHex.begin(), kHex.end()) + u"  m\u00e9\u4e2d\U0001F600.gguf\r\n";
  std::string little, big;
  for (const char16_t unit : text) {
    little += {static_cast<char>(unit & 0xFF), static_cast<char>(unit >> 8)};
    big += {static_cast<char>(unit >> 8), static_cast<char>(unit & 0xFF)};
  }
  EXPECT_EQ(lines_of(little), (Lines{name + "=" + kHex}));
  EXPECT_EQ(lines_of(big), (Lines{name + "=" + kHex}));
  EXPECT_EQ(lines_of(little + "x"), (Lines{name + "=" + kHex}));
  EXPECT_EQ(lines_of("\xFF\xFE"), Lines{});
}

TEST(ChecksumList, OtherKindsAreNotSupported) {
  for (const std::string& hex : {std::string(128, 'a'), std::string(96, 'F')})
    for (const std::string& text : {hex + "  a.gguf", "SHA512 (a.gguf) = " + hex, "BLAKE2b (a.gguf) = " + hex}) {
      const auto lines = parse_checksum_list(text);
      ASSERT_EQ(lines.size(), 1u) << text;
      EXPECT_EQ(lines[0].path, "a.gguf");
      EXPECT_FALSE(lines[0].digest.is_supported());
    }
  EXPECT_TRUE(parse_checksum_list(std::string(128, 'g') + "  a.gguf").empty());
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
