#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "tests/support/libarchive.h"
#include "tests/support/tar_reading.h"

namespace weightfs::tar_test {
namespace {

using namespace archive;
using namespace test::tars;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

// Plain tars.

TEST(Tar, ListsMembers) {
  const Archive archive = read_well(small_tar());
  EXPECT_THAT(listing(archive), ElementsAre("a.bin = aaaa", "d/empty = ", "l -> a.bin", "h = aaaa",
                                            std::string(120, 'n') + " = long", "ü/ß = pax"));
  EXPECT_THAT(warnings_of(archive), IsEmpty());
  EXPECT_THAT(warnings_of(small_tar()), IsEmpty());
}

TEST(Tar, IsNotCopied) {
  const auto tar = std::make_shared<const Disk>(TarBuilder().file("a", "hello").file("b", "you").build());
  const auto archive = members(tar);
  ASSERT_TRUE(archive && archive->parts.size() == 2);
  const SourcePtr b = *archive->parts[1].source.get();
  const auto* const slice = dynamic_cast<const Slice*>(b.get());
  ASSERT_NE(slice, nullptr);
  EXPECT_EQ(slice->whole(), tar);
  EXPECT_EQ(slice->offset(), 1536u);
  EXPECT_EQ(slice->size(), 3u);
}

TEST(Tar, ReadsEveryDialect) {
  const std::string prefix = "some/where";
  EXPECT_THAT(listing_of(TarBuilder()
                             .member({.name = "v7", .type = '\0', .size = 1, .magic = kV7}, "1")
                             .member({.name = "gnu", .size = 1, .magic = kGnu}, "2")
                             .member({.name = "posix", .size = 1, .rest = prefix}, "3")
                             .member({.name = "contiguous", .type = '7', .size = 1}, "4")
                             .build()),
              ElementsAre("v7 = 1", "gnu = 2", "some/where/posix = 3", "contiguous = 4"));
}

TEST(Tar, FilesThatSomeProgramsWriteThroughLinksAreRefused) {
  const auto is_refused = testing::HasSubstr("programs differ in what they write");
  EXPECT_THAT(error_of(TarBuilder().file("b", "1").link("a", "b").file("a", "2").build()), is_refused);
  EXPECT_THAT(error_of(TarBuilder().file("b", "1").hard_link("a", "b").file("a", "2").build()), is_refused);
  EXPECT_THAT(error_of(TarBuilder().file("b", "1").hard_link("a", "b").file("b", "2").build()), is_refused);
  EXPECT_THAT(error_of(TarBuilder().file("b", "1").link("d", ".").file("d/b", "2").build()), is_refused);
  EXPECT_THAT(listing_of(TarBuilder().file("b", "1").file("b", "2").hard_link("a", "b").build()),
              ElementsAre("b = 2", "a = 2"));
}

TEST(Tar, NamesThatProgramsReadDifferentlyAreRefused) {
  const std::string record = pax_record("path", "b");
  const TarHeader global{.name = "g", .type = 'g', .size = record.size()};
  EXPECT_THAT(error_of(TarBuilder().member(global, record).file("a", "1").build()),
              testing::AnyOf(HasSubstr("a global header"), HasSubstr("global extended header")));
  EXPECT_THAT(error_of(TarBuilder().gnu_long('L', "c").pax(record).file("a", "1").build()),
              HasSubstr("a name of GNU tar and one of PAX"));
  EXPECT_THAT(error_of(TarBuilder().member({.name = "a", .size = 1, .magic = kV7, .rest = "d"}, "1").build()),
              HasSubstr("a header of the old format with a part of a name"));
  EXPECT_THAT(error_of(TarBuilder().file("a", "1").file("d/../a", "2").build()), HasSubstr("are one file"));
  const TarHeader with_times{.name = "a", .size = 1, .magic = kGnu, .rest = "14370000000"};
  EXPECT_THAT(listing_of(TarBuilder().member(with_times, "1").build()), ElementsAre("a = 1"));
  EXPECT_THAT(error_of(TarBuilder().file("a", "2").member(with_times, "1").build()), HasSubstr("times of GNU tar"));
}

TEST(Tar, ReadsLongNamesOfGnuAndPax) {
  const std::string deep = fmt::format("{}/{}", std::string(200, 'a'), std::string(300, 'b'));
  EXPECT_THAT(listing_of(TarBuilder()
                             .gnu_long('L', deep)
                             .file("short", "1")
                             .pax(pax_record("path", deep + "2"))
                             .file("short", "2")
                             .gnu_long('K', deep)
                             .hard_link("k", "short")
                             .pax(pax_record("linkpath", deep))
                             .hard_link("x", "short")
                             .build()),
              ElementsAre(deep + " = 1", deep + "2 = 2", "k = 1", "x = 1"));
}

// The size in PAX takes precedence over the header, where writers put 0 if the size does not fit.
TEST(Tar, ReadsSizeFromPax) {
  EXPECT_THAT(listing_of(TarBuilder()
                             .pax(pax_record("size", "600"))
                             .member({.name = "a", .size = 0}, std::string(600, 'x'))
                             .file("b", "2")
                             .build()),
              ElementsAre("a = " + std::string(600, 'x'), "b = 2"));
}

TEST(Tar, ReadsBinarySize) {
  std::string header = tar_block({.name = "a"});
  header.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\5", 12));
  EXPECT_THAT(listing_of(TarBuilder().raw(tar_checked(header) + tar_padded("hello")).file("b", "2").build()),
              ElementsAre("a = hello", "b = 2"));
}

TEST(Tar, EndBlocksAreOptional) {
  EXPECT_THAT(listing_of(TarBuilder().file("a", "hello").without_end()), ElementsAre("a = hello"));
  EXPECT_THAT(warnings_of(TarBuilder().file("a", "hello").without_end()), IsEmpty());
  const std::string block = TarBuilder().file("a", "hello").build().substr(0, 1024 + 512);
  EXPECT_THAT(warnings_of(block), IsEmpty());
}

TEST(Tar, CutPaddingMakesTheArchiveIncomplete) {
  const std::string whole = TarBuilder().file("a", "hello").file("b", "1").without_end();
  for (const size_t size : std::initializer_list<size_t>{512 + 5, 1023, 1024 + 512 + 1, 2 * 1024 - 1}) {
    Archive archive = read_well(whole.substr(0, size));
    EXPECT_EQ(listing(archive).back(), size < 1024 ? "a = hello" : "b = 1");
    Model model;
    std::move(archive.warnings).move_to(model);
    EXPECT_EQ(to_sentence(completeness_of(model)),
              fmt::format("the model is incomplete: the archive ends in the padding behind the member \"{}\"",
                          size < 1024 ? "a" : "b"));
  }
}

TEST(Tar, EndsAtZeroBlock) {
  EXPECT_THAT(listing_of(TarBuilder().file("a", "1").build() + TarBuilder().file("b", "2").build()),
              ElementsAre("a = 1"));
  EXPECT_THAT(listing_of(std::string(512, '\0')), IsEmpty());
  EXPECT_THAT(listing_of(std::string(10240, '\0')), IsEmpty());
}

// An overwritten header; not what follows the end of a tar, which may be another tar or a signature.
TEST(Tar, SingleZeroBlockBeforeDataMakesTheArchiveIncomplete) {
  std::string tar = TarBuilder().file("a", "1").file("b", "2").build();
  tar.replace(1024, 512, 512, '\0');
  Archive archive = read_well(tar);
  EXPECT_THAT(listing(archive), ElementsAre("a = 1"));
  Model model;
  std::move(archive.warnings).move_to(model);
  EXPECT_THAT(to_sentence(completeness_of(model)),
              StartsWith("1 file cannot be read: at byte 1024, after 1 members: a single block of zeros, and "));
  const std::string whole = TarBuilder().file("a", "1").build();
  EXPECT_THAT(warnings_of(whole + whole), IsEmpty());
  EXPECT_THAT(warnings_of(whole + "signature"), IsEmpty());
  EXPECT_THAT(warnings_of(TarBuilder().file("a", "1").without_end() + std::string(512 + 100, '\0')), IsEmpty());
}

TEST(Tar, LastOfDuplicateMembersWins) {
  const std::string tar = TarBuilder().file("a", "old").file("./a", "new").build();
  EXPECT_THAT(listing_of(tar), ElementsAre("a = new"));
  EXPECT_THAT(warnings_of(tar), ElementsAre(HasSubstr("duplicate path")));
}

TEST(Tar, FileAndDirectoryMayShareAName) {
  const Archive archive = read_well(TarBuilder().file("a", "1").directory("a/").file("a/b", "2").build());
  EXPECT_THAT(listing(archive), ElementsAre("a = 1", "a/b = 2"));
  EXPECT_THAT(archive.directories, ElementsAre("a"));
}

TEST(Tar, LeavesOutDevicesAndFifos) {
  const std::string tar = TarBuilder()
                              .member({.name = "tty", .type = '3'})
                              .member({.name = "sda", .type = '4'})
                              .member({.name = "pipe", .type = '6'})
                              .file("a", "1")
                              .build();
  EXPECT_THAT(listing_of(tar), ElementsAre("a = 1"));
  EXPECT_THAT(warnings_of(tar), ElementsAre(R"(member "tty": omitted: device)", R"(member "sda": omitted: device)",
                                            R"(member "pipe": omitted: FIFO)"));
}

// Other PAX records and Apple's metadata are not members; a file with a similar name is one.
TEST(Tar, IgnoresOtherHeaderFields) {
  const std::string global = pax_record("comment", "0123456789abcdef");
  EXPECT_THAT(listing_of(TarBuilder()
                             .member({.name = "pax_global_header", .type = 'g', .size = global.size()}, global)
                             .pax(pax_record("mtime", "1.5") + pax_record("SCHILY.xattr.user.x", "y"))
                             .file("._a", "1")
                             .build()),
              ElementsAre("._a = 1"));
}

// Names.

TEST(Tar, KeepsNamesAsBytes) {
  const std::string odd = "\xFF\xFE/\xC3\xA9";
  const std::string decomposed = "e\xCC\x81";
  EXPECT_THAT(listing_of(TarBuilder()
                             .file("é", "ustar")
                             .file(odd, "ustar")
                             .gnu_long('L', "é2")
                             .file("x", "gnu")
                             .pax(pax_record("path", "é3"))
                             .file("x", "pax")
                             .pax(pax_record("path", decomposed))
                             .file("x", "pax")
                             .pax(pax_record("path", odd + "4"))
                             .file("x", "pax")
                             .pax(pax_record("hdrcharset", "BINARY") + pax_record("path", odd + "5"))
                             .file("x", "pax")
                             .build()),
              ElementsAre("é = ustar", odd + " = ustar", "é2 = gnu", "é3 = pax", decomposed + " = pax", odd + "4 = pax",
                          odd + "5 = pax"));
}

TEST(Tar, AcceptsNonAsciiNamesWithoutWarning) {
  EXPECT_THAT(warnings_of(TarBuilder().pax(pax_record("path", "é")).file("x", "").file("ü", "").build()), IsEmpty());
}

TEST(Tar, KeepsHostileNamesAsData) {
  const std::string long_one(300, 'n');
  EXPECT_THAT(listing_of(TarBuilder()
                             .file("../../etc/passwd", "1")
                             .file("/etc/shadow", "2")
                             .gnu_long('L', long_one)
                             .file("x", "3")
                             .build()),
              ElementsAre("../../etc/passwd = 1", "etc/shadow = 2", long_one + " = 3"));
}

TEST(Tar, NameEndsAtNul) {
  EXPECT_THAT(listing_of(TarBuilder().file(std::string_view("a\0b", 3), "1").build()), ElementsAre("a = 1"));
  EXPECT_THAT(listing_of(TarBuilder().gnu_long('L', std::string_view("c\0d", 3)).file("x", "1").build()),
              ElementsAre("c = 1"));
  EXPECT_THAT(listing_of(TarBuilder().pax(pax_record("path", std::string_view("e\0f", 3))).file("x", "1").build()),
              ElementsAre("e = 1"));
}

TEST(Tar, ReportsHeaderErrors) {
  const std::string tar = TarBuilder().pax("99 path=e\n").file("x", "1").build();
  EXPECT_THAT(listing_of(tar), ElementsAre("x = 1"));
  EXPECT_THAT(warnings_of(tar), ElementsAre(StartsWith("member \"x\": Ignoring malformed pax ")));
}

TEST(Tar, SkipsMemberWithoutName) {
  const std::string tar = TarBuilder().file("", "1").file("a", "2").build();
  EXPECT_THAT(listing_of(tar), ElementsAre("a = 2"));
  EXPECT_THAT(warnings_of(tar), ElementsAre("member 1: omitted: its name has 0 bytes, 1 to 65535 are possible"));
}

TEST(Tar, BoundsTheLengthOfNames) {
  const std::string longest(65'535, 'n');
  EXPECT_THAT(listing_of(TarBuilder().gnu_long('L', longest).file("x", "1").build()), ElementsAre(longest + " = 1"));
  const std::string tar = TarBuilder().gnu_long('L', longest + "n").file("x", "1").file("a", "2").build();
  EXPECT_THAT(listing_of(tar), ElementsAre("a = 2"));
  EXPECT_THAT(warnings_of(tar), ElementsAre(HasSubstr("its name has 65536 bytes")));
}

// Links.

TEST(Tar, EscapingLinksAreShownAsText) {
  const std::string tar =
      TarBuilder().link("a", "/etc/passwd").link("b", "../../x").link("c", "").link("d/e", "../f").build();
  EXPECT_THAT(listing_of(tar), ElementsAre("a = /etc/passwd", "b = ../../x", "c = ", "d/e -> ../f"));
  constexpr auto kShown = "; shown as a text file with its target";
  EXPECT_THAT(warnings_of(tar),
              ElementsAre(fmt::format(R"(symbolic link "a" to "/etc/passwd" may lead out of the archive{})", kShown),
                          fmt::format(R"(symbolic link "b" to "../../x" may lead out of the archive{})", kShown),
                          fmt::format(R"(symbolic link "c" to "" has an invalid target{})", kShown)));
}

TEST(Tar, LinksMayLoop) {
  const Archive archive = read_well(TarBuilder().link("a", "b").link("b", "a").hard_link("c", "c").build());
  EXPECT_THAT(listing(archive), ElementsAre("a -> b", "b -> a", "c = "));
  EXPECT_EQ(archive.resolve("a"), nullptr);
}

TEST(Tar, HardLinkHasBytesOfTarget) {
  EXPECT_THAT(listing_of(TarBuilder().hard_link("later", "a").file("a", "1").hard_link("h", "./a").build()),
              ElementsAre("later = 1", "a = 1", "h = 1"));
  const std::string tar = TarBuilder().hard_link("h", "nowhere").file("a", "1").build();
  EXPECT_THAT(listing_of(tar), ElementsAre("h = ", "a = 1"));
  EXPECT_THAT(warnings_of(tar), ElementsAre(HasSubstr("nowhere")));
}

// In PAX a hard link may have its own bytes; after the size of a hard link of older writers there are none.
TEST(Tar, HardLinkMayHaveOwnBytes) {
  EXPECT_THAT(listing_of(TarBuilder()
                             .file("a", "1")
                             .pax(pax_record("mtime", "1"))
                             .member({.name = "h", .type = '1', .size = 3, .link = "a"}, "own")
                             .file("b", "2")
                             .build()),
              ElementsAre("a = 1", "h = own", "b = 2"));
  EXPECT_THAT(listing_of(TarBuilder()
                             .member({.name = "a", .size = 1, .magic = kGnu}, "1")
                             .member({.name = "h", .type = '1', .size = 1, .link = "a", .magic = kGnu})
                             .file("b", "2")
                             .build()),
              ElementsAre("a = 1", "h = 1", "b = 2"));
}

// What is broken.

TEST(Tar, EmptyFileIsNotATar) {
  EXPECT_EQ(error_of(""), "corrupt: 0 bytes, not a tar");
  EXPECT_THAT(error_of("hello"), StartsWith("corrupt: "));
  EXPECT_THAT(error_of(std::string(5000, 'x')), StartsWith("corrupt: "));
}

TEST(Tar, TruncatedMemberIsListedButUnreadable) {
  const std::string tar = TarBuilder().file("a", "1").file("b", std::string(1000, 'b')).build().substr(0, 1600);
  const Archive archive = read_well(tar);
  ASSERT_THAT(archive.parts, SizeIs(2));
  const SourcePtr b = *archive.parts[1].source.get();
  EXPECT_EQ(b->size(), 1000u);
  EXPECT_THAT(listing(archive), ElementsAre("a = 1", HasSubstr("b ! \"b\": cut: the archive ends ")));
  const auto bytes = read_text(*b, 0, 1);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::corrupt);
  EXPECT_THAT(warnings_of(tar), ElementsAre(HasSubstr("member \"b\": cut: the archive ends ")));
}

TEST(Tar, MemberWithHugeSizeIsTruncated) {
  std::string header = tar_block({.name = "a"});
  header.replace(124, 12, "\x80\0\0\0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFE", 12);
  const std::string tar = TarBuilder().file("b", "1").raw(tar_checked(header)).build();
  if (libarchive_skips_records()) {
    EXPECT_THAT(listing_of(tar), ElementsAre("b = 1"));
    EXPECT_THAT(warnings_of(tar), ElementsAre(HasSubstr("later members are not shown")));
  } else {
    EXPECT_THAT(listing_of(tar), ElementsAre("b = 1", HasSubstr("a ! \"a\": cut: the archive ends ")));
  }
  header.replace(124, 12, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE", 12);  // -2
  EXPECT_THAT(warnings_of(TarBuilder().file("b", "1").raw(tar_checked(header)).build()), Contains(HasSubstr("size")));
}

TEST(Tar, CorruptHeaderEndsListing) {
  std::string tar = TarBuilder().file("a", "1").file("b", "2").file("c", "3").build();
  tar[1024 + 3] = 'x';
  EXPECT_THAT(listing_of(tar), ElementsAre("a = 1"));
  EXPECT_THAT(warnings_of(tar), ElementsAre(AllOf(HasSubstr("at byte 1024, after 1 members: "),
                                                  HasSubstr("later members are not shown"))));
  tar[3] = 'x';
  EXPECT_THAT(error_of(tar), StartsWith("corrupt: "));
}

TEST(Tar, TruncatedHeaderEndsListing) {
  const std::string tar = TarBuilder().file("a", "1").file("b", "2").build().substr(0, 1024 + 100);
  EXPECT_THAT(listing_of(tar), ElementsAre("a = 1"));
  EXPECT_THAT(warnings_of(tar), ElementsAre(AllOf(HasSubstr("at byte 1"), HasSubstr("later members are not shown"))));
  EXPECT_THAT(error_of(tar.substr(0, 100)), StartsWith("corrupt: "));
  // A name for nothing.
  EXPECT_THAT(warnings_of(TarBuilder().file("a", "1").gnu_long('L', "b").without_end()), SizeIs(1));
}

TEST(Tar, BoundsTheHeadersOfAMember) {
  const std::string comment = pax_record("comment", std::string(900'000, 'c'));
  const std::string tar = TarBuilder().file("a", "1").pax(comment).file("b", "2").build();
  if (libarchive_skips_records()) {
    EXPECT_THAT(listing_of(tar), ElementsAre("a = 1", "b = 2"));
  } else {
    EXPECT_THAT(listing_of(tar), ElementsAre("a = 1"));
    EXPECT_THAT(warnings_of(tar), ElementsAre(HasSubstr("more than 81920 bytes of headers")));
    EXPECT_EQ(error_of(TarBuilder().pax(comment).file("b", "2").build()), "corrupt: more than 81920 bytes of headers");
  }
  // Many small ones are as bad.
  TarBuilder b;
  b.file("a", "1");
  for (int i = 0; i < 1000; ++i) b.pax(pax_record("comment", "c"));
  EXPECT_THAT(listing_of(b.file("b", "2").build()), ElementsAre("a = 1"));
  EXPECT_THAT(warnings_of(b.build()), Contains(HasSubstr("later members are not shown")));
  // A header that claims a gigabyte allocates nothing.
  EXPECT_THAT(warnings_of(TarBuilder().file("a", "1").member({.name = "x", .type = 'x', .size = 1 << 30}).build()),
              SizeIs(1));
}

// libarchive would need a second per megabyte of these. Its errors for invalid ones would show that it parsed them.
TEST(Tar, AccessControlListsAreNotParsed) {
  const std::string bad = "nobody knows what this is";
  const std::string two = pax_record("SCHILY.acl.access", bad) + pax_record("SCHILY.acl.default", bad);
  // The key may begin at any offset of a read.
  for (size_t at = 16'384 - 600; at < 16'384; at += 7) {
    const std::string tar = TarBuilder()
                                .file("pad", std::string(14'000, 'p'))
                                .pax(pax_record("comment", std::string(at - 15'600, 'c')) + two)
                                .file("a", "1")
                                .build();
    EXPECT_THAT(warnings_of(tar), IsEmpty()) << at;
  }
  const std::string solaris =
      TarBuilder().member({.name = "acl", .type = 'A', .size = 3}, "777").file("a", "1").build();
  EXPECT_THAT(listing_of(solaris), ElementsAre("a = 1"));
  EXPECT_THAT(warnings_of(solaris), ElementsAre(HasSubstr("malformed pax ")));
  // Names and bytes are unchanged.
  const std::string key = "1 SCHILY.acl.access=";
  EXPECT_THAT(listing_of(TarBuilder().file(key, key).build()), ElementsAre(fmt::format("{} = {}", key, key)));
}

TEST(Tar, ManyMembersTakeFewReads) {
  TarBuilder b;
  for (int i = 0; i < 10'000; ++i) b.file(fmt::format("m{}", i), "x");
  const auto tar = std::make_shared<const Disk>(b.build());
  const auto archive = members(tar);
  ASSERT_TRUE(archive);
  EXPECT_THAT(archive->parts, SizeIs(10'000));
  EXPECT_LE(tar->reads, tar->size() / (16 * 1024) + 2);
}

TEST(Tar, LargeMembersAreSkippedWithoutReading) {
  TarBuilder b;
  for (int i = 0; i < 10; ++i) b.file(fmt::format("m{}", i), std::string(1'000'000, 'x'));
  const auto tar = std::make_shared<const Disk>(b.build());
  ASSERT_TRUE(members(tar));
  EXPECT_LE(tar->reads, 12u);
}

TEST(Tar, SourceErrorIsNotReportedAsCorrupt) {
  TarBuilder b;
  for (int i = 0; i < 100; ++i) b.file(fmt::format("m{}", i), std::string(1000, 'x'));
  for (const std::string& tar : {b.build(), gzip_stored(b.build())})
    for (const uint64_t broken_from : {uint64_t{0}, uint64_t{40'000}}) {
      const auto archive = members(std::make_shared<const Disk>(tar, broken_from));
      ASSERT_FALSE(archive);
      EXPECT_EQ(archive.error().code, Code::io);
      EXPECT_EQ(archive.error().message, "the disk is on fire");
    }
}

// Sparse members.

std::string gnu_hole(uint64_t begin, uint64_t size) { return tar_octal(begin, 12) + tar_octal(size, 12); }

// GNU's old way: up to four pieces in the header, 41 bytes behind byte 345, and the real size behind them.
std::string gnu_sparse(std::string_view name, std::vector<std::pair<uint64_t, uint64_t>> pieces, uint64_t real,
                       std::string_view stored) {
  std::string rest(41, '\0');
  for (const auto& [begin, size] : pieces) rest += gnu_hole(begin, size);
  rest.resize(41 + 4 * 24 + 1);
  rest += tar_octal(real, 12);
  return TarBuilder()
      .member({.name = name, .type = 'S', .size = stored.size(), .magic = kGnu, .rest = rest}, stored)
      .without_end();
}

const std::string kTwoPieces = fmt::format("{}{}{}tail{}", std::string(512, '\0'), std::string(512, 'x'),
                                           std::string(1024, '\0'), std::string(96, '\0'));

std::string two_pieces() {
  return gnu_sparse("s", {{512, 512}, {2048, 4}, {2148, 0}}, 2148, std::string(512, 'x') + "tail");
}

TEST(Tar, SparseMemberIsReadInPlace) {
  const auto blobs = std::make_shared<RecordingBlobs>();
  const auto tar = std::make_shared<const Disk>(TarBuilder().file("a", "1").raw(two_pieces()).file("b", "2").build());
  const auto archive = members(tar, blobs);
  ASSERT_TRUE(archive);
  EXPECT_THAT(listing(*archive), ElementsAre("a = 1", "s = " + kTwoPieces, "b = 2"));
  EXPECT_THAT(blobs->recipes, IsEmpty());
  const SourcePtr sparse = *archive->parts[1].source.get();
  EXPECT_EQ(sparse->identity(), "disk 7 sparse member at 1024");
  EXPECT_EQ(sparse->occupied(), 516u);
  const size_t before = tar->reads;
  EXPECT_EQ(*read_text(*sparse, 1024, 1024), std::string(1024, '\0'));
  EXPECT_EQ(*read_text(*sparse, 2052, 96), std::string(96, '\0'));
  EXPECT_EQ(tar->reads, before);
  for (uint64_t offset = 0; offset < sparse->size(); offset += 7)
    EXPECT_EQ(*read_text(*sparse, offset, std::min<uint64_t>(600, sparse->size() - offset)),
              kTwoPieces.substr(offset, 600));
}

TEST(Tar, SourceWithoutIdentityHasNoBlobKey) {
  const auto blobs = std::make_shared<RecordingBlobs>();
  const auto archive = members(in_memory(two_pieces()), blobs);
  ASSERT_TRUE(archive);
  EXPECT_EQ((*archive->parts[0].source.get())->identity(), "");
  ASSERT_TRUE(members(in_memory(gzip_stored(small_tar())), blobs));
  ASSERT_THAT(blobs->recipes, SizeIs(1));
  EXPECT_EQ(blobs->recipes[0].key, "");
}

TEST(Tar, ReadsPaxSparseMaps) {
  const std::string stored = std::string(512, 'x') + "tail";
  const std::string v1 = tar_padded("3\n512\n512\n2048\n4\n2148\n0\n") + stored;
  EXPECT_THAT(listing_of(TarBuilder()
                             .pax(pax_record("GNU.sparse.major", "1") + pax_record("GNU.sparse.minor", "0") +
                                  pax_record("GNU.sparse.name", "v1") + pax_record("GNU.sparse.realsize", "2148"))
                             .file("GNUSparseFile.0/v1", v1)
                             .pax(pax_record("GNU.sparse.size", "2148") + pax_record("GNU.sparse.numblocks", "3") +
                                  pax_record("GNU.sparse.map", "512,512,2048,4,2148,0"))
                             .file("v01", stored)
                             .build()),
              ElementsAre("v1 = " + kTwoPieces, "v01 = " + kTwoPieces));
}

TEST(Tar, MemberMayBeOneHole) {
  EXPECT_THAT(listing_of(gnu_sparse("s", {{3000, 0}}, 3000, "")), ElementsAre("s = " + std::string(3000, '\0')));
}

TEST(Tar, SparseMemberMayBeTruncated) {
  const std::string tar = two_pieces().substr(0, 512 + 300);
  EXPECT_THAT(warnings_of(tar), ElementsAre("member \"s\": cut by the end of the archive"));
  EXPECT_THAT(listing_of(tar), ElementsAre(StartsWith("s ! ")));
}

TEST(Tar, InvalidSparseMapIsUnreadable) {
  // Pieces that overlap, that end behind the end, that are not stored.
  for (const std::string& tar : {gnu_sparse("s", {{0, 10}, {5, 10}, {900, 2}}, 1000, std::string(22, 'x')),
                                 gnu_sparse("s", {{0, 10}, {995, 10}}, 1000, std::string(20, 'x')),
                                 gnu_sparse("s", {{10, 20}, {500, 20}}, 1000, "").substr(0, 512)}) {
    const auto archive = members(tar);
    if (!archive && libarchive_skips_records()) continue;  // it refuses the header
    ASSERT_TRUE(archive);
    ASSERT_THAT(archive->parts, SizeIs(1));
    const auto bytes = read_text(**archive->parts[0].source.get(), 0, 1000);
    EXPECT_TRUE(bytes || bytes.error().code == Code::corrupt);
  }
  const auto short_of_bytes = members(gnu_sparse("s", {{0, 10}, {500, 490}}, 1000, std::string(1000, 'x')));
  EXPECT_FALSE(read_text(**short_of_bytes->parts[0].source.get(), 0, 1000));
}

// With a header whose size differs from the stored size, bytes of the next member would be shown.
TEST(Tar, SizeThatDiffersFromStoredSizeIsRefused) {
  const std::string tar = TarBuilder()
                              .pax(pax_record("GNU.sparse.realsize", "1000"))
                              .file("a", "1")
                              .file("b", std::string(2000, 'b'))
                              .build();
  EXPECT_THAT(listing_of(tar), ElementsAre(HasSubstr("a ! \"a\": a size of 1000, but 512 bytes are stored"),
                                           "b = " + std::string(2000, 'b')));
  EXPECT_THAT(warnings_of(tar), SizeIs(1));
}

// Recognition.

TEST(Tar, IsDetectedByFirstHeader) {
  EXPECT_EQ(match(small_tar()), Match::yes);
  EXPECT_EQ(match(TarBuilder().member({.name = "a", .magic = kGnu}).build()), Match::yes);
  EXPECT_EQ(match(TarBuilder().member({.name = "a", .magic = kV7}).build()), Match::yes);
  EXPECT_EQ(match(TarBuilder().pax(pax_record("path", "a")).build()), Match::yes);
  EXPECT_EQ(match(TarBuilder()
                      .member({.name = "\x7F"
                                       "ELF",
                               .magic = kV7})
                      .build()),
            Match::no);
  std::string broken = small_tar();
  broken[0] ^= 1;
  EXPECT_EQ(match(broken), Match::no);
  for (const std::string& bytes : {std::string(), std::string("a"), std::string(511, 'a'), std::string(5000, '\0'),
                                   std::string(5000, ' '), std::string(5000, '0')})
    EXPECT_EQ(match(bytes), Match::no);
}

// Writers of the first years summed bytes as signed.
TEST(Tar, IsDetectedWithSignedChecksum) {
  std::string header = tar_block({.name = "\xC3\xA9"});
  uint64_t sum = 0;
  for (size_t i = 0; i < 512; ++i)
    sum += static_cast<uint64_t>(i >= 148 && i < 156 ? ' ' : static_cast<int8_t>(header[i]));
  header.replace(148, 8, tar_octal(sum, 7) + ' ');
  EXPECT_EQ(match(header), Match::yes);
  EXPECT_THAT(listing_of(header), ElementsAre("é = "));
}

std::string everything() { return TarBuilder().raw(two_pieces()).raw(small_tar()).without_end(); }

TEST(Tar, EveryTruncationIsRefusedOrRead) {
  const std::string whole = everything();
  for (size_t size = 0; size < whole.size(); ++size) read_or_refuse(whole.substr(0, size));
}

TEST(Tar, EveryFlippedByteIsRefusedOrRead) {
  const std::string whole = everything();
  for (size_t i = 0; i < whole.size(); ++i)
    for (const char flip : {'\x01', '\xFF'}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      read_or_refuse(bytes);
    }
}

// Bytes behind a checksum that is right, so that more than the checksum is tried.
TEST(Tar, EveryFlippedHeaderByteWithFixedChecksumIsRefusedOrRead) {
  const std::string whole = everything();
  for (size_t block = 0; block < whole.size(); block += 512)
    for (size_t i = 0; i < 512; ++i)
      for (const char flip : {'\x01', '\xFF'}) {
        std::string header = whole.substr(block, 512);
        header[i] = static_cast<char>(header[i] ^ flip);
        std::string bytes = whole;
        read_or_refuse(bytes.replace(block, 512, tar_checked(header)));
      }
}

}  // namespace
}  // namespace weightfs::tar_test
