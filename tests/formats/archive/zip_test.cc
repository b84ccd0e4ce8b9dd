#include "formats/archive/zip.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/files/file_source.h"
#include "base/files/leaf.h"
#include "base/text.h"
#include "formats/archive/archive.h"
#include "formats/flat_formats.h"
#include "tests/builders/zip_builder.h"
#include "tests/support/reading.h"
#include "tests/support/temporary.h"

namespace weightfs::archive_zip_test {
namespace {

using namespace archive;
using namespace test;
using namespace std::string_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

Container container(std::string zip) { return Container{"m.zip", in_memory(std::move(zip))}; }

// The members, or none and a failed test.
Archive members(const Container& container) { return well(zip_members(container)); }
Archive members(const std::string& zip) { return members(container(zip)); }

// The bytes, or the error.
std::string text_of(const Result<std::string>& text) { return text ? *text : "error: " + text.error().message; }
std::string text_of(const Part& part) {
  const SourcePtr source = part.source.get().value();
  return text_of(read_text(*source, 0, source->size()));
}
std::string text_at(const Archive& archive, std::string_view path) {
  const Part* part = archive.find(path);
  return part == nullptr ? "missing" : text_of(*part);
}

// One line per member: its path, and its bytes or link target.
std::vector<std::string> listing(const Archive& archive) {
  std::vector<std::string> lines;
  for (const Part& part : archive.parts)
    lines.push_back(part.link_target.empty() ? fmt::format("{}: {}", part.path, text_of(part))
                                             : fmt::format("{} -> {}", part.path, part.link_target));
  return lines;
}
std::vector<std::string> warnings(const Archive& archive) { return archive.warnings.lines(); }

Error error_of(const Result<Archive>& archive) { return archive ? Error{Code::io, "no error"} : archive.error(); }
Error error_of(const std::string& zip) { return error_of(zip_members(container(zip))); }

// The error of reading all of the only member.
Error error_of_member(const ZipBuilder& zip) {
  const Archive archive = members(zip.build());
  if (archive.parts.size() != 1) return {Code::io, "not one member"};
  const SourcePtr source = archive.parts[0].source.get().value();
  const auto text = read_text(*source, 0, std::min<uint64_t>(source->size(), 1 << 24));
  return text ? Error{Code::io, "no error"} : text.error();
}

// Decodes like uncached_blobs(), and records the requests.
class Recording final : public Blobs {
 public:
  SourcePtr blob(BlobProducer recipe) override {
    const std::scoped_lock lock(mutex_);
    recipes.push_back(recipe);
    return uncached_blobs()->blob(std::move(recipe));
  }
  Result<SourcePtr> materialize(BlobProducer recipe) override {
    return uncached_blobs()->materialize(std::move(recipe));
  }

  std::vector<BlobProducer> recipes;

 private:
  std::mutex mutex_;
};

Match match(std::string_view file) {
  const size_t shown = std::min(file.size(), kHeadSize);
  return matches_zip({"m", file.substr(0, shown), file.substr(file.size() - shown), file.size()});
}

ZipBuilder of_all_methods() {
  ZipBuilder zip;
  zip.stored("stored", "as it is");
  zip.deflated("deflated", "in blocks");
  zip.packed("deflated more", 8, sample_deflate(), sample_text());
  zip.zstandard("zstd", "in a frame");
  zip.packed("zstd more", 93, sample_zstd(), sample_text());
  return zip;
}

const std::vector<std::string>& listing_of_all_methods() {
  static const std::vector<std::string> lines = {"stored: as it is", "deflated: in blocks",
                                                 "deflated more: " + sample_text(), "zstd: in a frame",
                                                 "zstd more: " + sample_text()};
  return lines;
}

TEST(Zip, ReadsMembersOfEveryMethod) {
  const Archive archive = members(of_all_methods().build());
  EXPECT_EQ(listing(archive), listing_of_all_methods());
  EXPECT_EQ(archive.parts[0].checksums.get<Crc32>()->value, crc32(0, std::as_bytes(std::span("as it is", 8))));
  EXPECT_THAT(archive.directories, IsEmpty());
  EXPECT_THAT(warnings(archive), IsEmpty());
}

TEST(Zip, ReadsEmptyMembers) {
  ZipBuilder zip;
  zip.stored("stored", "");
  zip.deflated("deflated", "");
  zip.zstandard("zstd", "");
  zip.packed("nothing at all", 93, "", "");
  EXPECT_THAT(listing(members(zip.build())), ElementsAre("stored: ", "deflated: ", "zstd: ", "nothing at all: "));
}

TEST(Zip, AcceptsZstdVariantsOfWriters) {
  ZipBuilder zip;
  zip.packed("frames", 93, zstd::sized_frame("one ") + zstd::skippable("not this") + zstd::sized_frame("two"),
             "one two");
  zip.packed("no size", 93, zstd::frame(zstd::raw_block("bytes")), "bytes");
  zip.packed("checksum", 93, "\x28\xB5\x2F\xFD\x04\x68\x39\x00\x00\x63\x68\x65\x63\x6B\x65\x64\x14\x3E\x30\x83"s,
             "checked");
  zip.packed("long window", 93, zstd::frame(zstd::raw_block("far"), 27), "far");
  EXPECT_THAT(listing(members(zip.build())),
              ElementsAre("frames: one two", "no size: bytes", "checksum: checked", "long window: far"));
}

TEST(Zip, AcceptsHeaderVariantsOfWriters) {
  ZipBuilder zip;
  zip.stored("early packager", "1").attributes = 0;
  zip.stored("no date", "2").time = 0;
  zip.deflated("descriptor", "3").flags = kDescriptorFlag;
  zip.stored("stored descriptor", "4").flags = kDescriptorFlag;
  zip.stored("other local name", "5").local_name = "longer than in the directory";
  zip.zstandard("local extra", "6").local_extra = le(0xCAFE, 2) + le(3, 2) + "abc";
  zip.stored("from DOS", "7").made_by = 0x0014;
  zip.stored("large", "8").zip64 = true;
  zip.zstandard("large too", "9").zip64 = true;
  for (const std::string& file : {zip.build(), zip.zip64().build()}) {
    const Archive archive = members(file);
    EXPECT_THAT(listing(archive),
                ElementsAre("early packager: 1", "no date: 2", "descriptor: 3", "stored descriptor: 4",
                            "other local name: 5", "local extra: 6", "from DOS: 7", "large: 8", "large too: 9"));
    EXPECT_THAT(warnings(archive), IsEmpty());
  }
}

TEST(Zip, StoredMembersAreExtentsOfTheFile) {
  const TemporaryDirectory directory;
  ZipBuilder zip;
  zip.stored("a", "first");
  zip.stored("b", "second").local_extra = le(0xCAFE, 2) + le(3, 2) + "abc";
  zip.deflated("c", "third");
  const std::string file = zip.junk("in front").build();
  const SourcePtr bytes = open_file(directory.write("m.zip", file)).value();
  const Archive archive = members(Container{"m.zip", bytes});
  for (const std::string text : {"first", "second"}) {
    const SourcePtr member = archive.parts[text == "first" ? 0 : 1].source.get().value();
    const auto extent = extent_of(*member);
    ASSERT_TRUE(extent);
    EXPECT_EQ(extent->fd, extent_of(*bytes)->fd);
    EXPECT_EQ(extent->offset, file.find(text));
    EXPECT_EQ(extent->size, text.size());
    EXPECT_EQ(member->identity(), fmt::format("{} [{}+{}]", bytes->identity(), file.find(text), text.size()));
  }
  EXPECT_FALSE(extent_of(*archive.parts[2].source.get().value()));
}

// Reads fail while `broken`, and are counted.
class Disk final : public Source {
 public:
  explicit Disk(std::string bytes) : bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    if (offset + out.size() > broken_from) return failure(Code::io, "the disk is gone");
    return bytes_->read(offset, out);
  }

  std::atomic<uint64_t> broken_from = UINT64_MAX;
  mutable std::atomic<int> reads = 0;

 private:
  SourcePtr bytes_;
};

// Reads of a zip on a server wait.
TEST(Zip, OnlyMembersThatAreNotDecodedAreReady) {
  ZipBuilder zip;
  zip.stored("a", "small");
  zip.deflated("b", "small");
  zip.stored("c", std::string(100'000, 'x'));
  zip.deflated("d", std::string(100'000, 'x'));
  const auto ready = [](const Archive& archive) {
    std::string paths;
    for (const Part& part : archive.parts)
      if (is_ready(*part.source.get().value())) paths += part.path;
    return paths;
  };
  const std::string bytes = zip.build();
  const Archive local = members(bytes);
  EXPECT_EQ(ready(local), "abc");
  EXPECT_THAT(listing(local), SizeIs(4));
  EXPECT_EQ(ready(local), "abc") << "they are open";
  const auto disk = std::make_shared<Disk>(bytes);
  const Archive remote = members(Container{"m.zip", disk});
  const int reads = disk->reads;
  EXPECT_EQ(ready(remote), "");
  EXPECT_EQ(disk->reads, reads) << "they must not be opened for this";
}

// Its blobs note that they are kept.
class Keeping final : public Blobs {
 public:
  class Kept final : public Source {
   public:
    Kept(uint64_t size, int& times) : size_(size), times_(times) {}
    uint64_t size() const override { return size_; }
    Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "not read"); }
    std::shared_ptr<const void> keep_cached() const override { return std::make_shared<int>(++times_); }

   private:
    const uint64_t size_;
    int& times_;
  };
  SourcePtr blob(BlobProducer producer) override { return std::make_shared<Kept>(*producer.size, times); }
  Result<SourcePtr> materialize(BlobProducer) override { return failure(Code::io, "not used"); }

  int times = 0;
};

TEST(Zip, OpenFileOfALargeMemberKeepsItsDecoding) {
  ZipBuilder zip;
  zip.deflated("large", std::string(100'000, 'x'));
  zip.deflated("small", "decoded at each read");
  const auto blobs = std::make_shared<Keeping>();
  Container file{"m.zip", in_memory(zip.build())};
  file.blobs = blobs;
  const Archive archive = members(file);
  EXPECT_NE(archive.parts[0].source.get().value()->keep_cached(), nullptr);
  EXPECT_EQ(archive.parts[1].source.get().value()->keep_cached(), nullptr);
  EXPECT_EQ(blobs->times, 1);
}

TEST(Zip, CompressedMembersAreBlobs) {
  const TemporaryDirectory directory;
  ZipBuilder zip;
  for (const char* name : {"a", "b"}) zip.deflated(name, "the same bytes");
  zip.zstandard("z", "other bytes");
  zip.stored("s", "stored");
  const std::string path = directory.write("m.zip", zip.build());
  const auto recipes = [&] {
    const auto blobs = std::make_shared<Recording>();
    Container file{"m.zip", open_file(path).value()};
    file.blobs = blobs;
    const Archive archive = members(file);
    EXPECT_THAT(blobs->recipes, IsEmpty());  // before anything is read
    EXPECT_THAT(listing(archive), ElementsAre("a: the same bytes", "b: the same bytes", "z: other bytes", "s: stored"));
    return blobs->recipes;
  };
  const auto first = recipes();
  const auto second = recipes();
  ASSERT_EQ(first.size(), 3u);
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(first[0].size, 14u);
  EXPECT_EQ(first[2].size, 11u);
  EXPECT_EQ(first[0].digest, std::nullopt);
  EXPECT_NE(first[0].key, first[1].key);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NE(first[i].key, "");
    EXPECT_EQ(first[i].key, second[i].key);
  }
}

TEST(Zip, MembersOfSourceWithoutIdentityHaveNoKey) {
  ZipBuilder zip;
  zip.deflated("a", "bytes");
  Container file = container(zip.build());
  const auto blobs = std::make_shared<Recording>();
  file.blobs = blobs;
  EXPECT_THAT(listing(members(file)), ElementsAre("a: bytes"));
  ASSERT_EQ(blobs->recipes.size(), 1u);
  EXPECT_EQ(blobs->recipes[0].key, "");
}

TEST(Zip, ExpectedDigestIsPassedToBlob) {
  ZipBuilder zip;
  zip.deflated("a", "bytes");
  zip.stored("s", "stored");
  Container file = container(zip.build());
  const auto blobs = std::make_shared<Recording>();
  file.blobs = blobs;
  Archive archive = members(file);
  for (Part& part : archive.parts) {
    expect_digest(part);  // has none yet
    part.checksums.set(sha256(part.path == "a" ? "bytes" : "whatever"));
    expect_digest(part);
  }
  expect_digest(Part{"no member", Later<SourcePtr>::of(in_memory("")), FileChecksums(sha256("x"))});
  EXPECT_THAT(listing(archive), ElementsAre("a: bytes", "s: stored"));
  ASSERT_EQ(blobs->recipes.size(), 1u);
  EXPECT_EQ(blobs->recipes[0].digest, sha256("bytes"));
}

TEST(Zip, DirectoryEntriesAreOptional) {
  ZipBuilder zip;
  zip.stored("empty/", "");
  zip.stored("full/", "");
  zip.stored("full/file", "f");
  zip.stored("implied/file", "i");
  const Archive archive = members(zip.build());
  EXPECT_THAT(archive.directories, ElementsAre("empty", "full"));
  EXPECT_THAT(listing(archive), ElementsAre("full/file: f", "implied/file: i"));
}

TEST(Zip, ReadsLinksOfEveryMethod) {
  ZipBuilder zip;
  zip.link("a/stored", "../b");
  zip.deflated("deflated", "a/x").attributes = 0120777U << 16;
  zip.zstandard("zstd", "b").attributes = 0120777U << 16;
  zip.link("not from Unix", "b").made_by = 0x0014;
  zip.stored("a file", "b");
  const Archive archive = members(zip.build());
  EXPECT_THAT(listing(archive),
              ElementsAre("a/stored -> ../b", "deflated -> a/x", "zstd -> b", "not from Unix: b", "a file: b"));
  EXPECT_THAT(warnings(archive), IsEmpty());
}

TEST(Zip, EscapingOrCorruptLinksAreFiles) {
  ZipBuilder zip;
  zip.link("up", "../x");
  zip.link("absolute", "/etc/passwd");
  zip.link("long", std::string(4096, 'l'));
  zip.link("wrong", "text").crc = 1;
  zip.packed("broken", 8, "\7", "text").attributes = 0120777U << 16;
  const Archive archive = members(zip.build());
  for (const Part& part : archive.parts) EXPECT_EQ(part.link_target, "") << part.path;
  EXPECT_EQ(text_at(archive, "up"), "../x");
  EXPECT_EQ(text_at(archive, "long").size(), 4096u);
  EXPECT_THAT(text_at(archive, "broken"), StartsWith("error: \"broken\": deflate"));
  EXPECT_THAT(warnings(archive), ElementsAre(HasSubstr("\"up\""), HasSubstr("\"absolute\""), HasSubstr("\"long\""),
                                             HasSubstr("\"wrong\""), HasSubstr("\"broken\"")));
}

TEST(Zip, ShortLinksAreNotBlobs) {
  ZipBuilder zip;
  zip.deflated("link", "x").attributes = 0120777U << 16;
  Container file = container(zip.build());
  const auto blobs = std::make_shared<Recording>();
  file.blobs = blobs;
  EXPECT_THAT(listing(members(file)), ElementsAre("link -> x"));
  EXPECT_THAT(blobs->recipes, IsEmpty());
}

TEST(Zip, NamesAreUtf8OrCodePage437) {
  ZipBuilder zip;
  zip.stored("\xC3\xA9", "flagged").flags = kUtf8Flag;
  zip.stored("\xE2\x82\xAC", "not flagged");
  zip.stored("\x81", "437");
  zip.stored("\1\xC3\xA9", "control");
  EXPECT_THAT(listing(members(zip.build())),
              ElementsAre("\xC3\xA9: flagged", "\xE2\x82\xAC: not flagged", "\xC3\xBC: 437", "\1\xC3\xA9: control"));
}

TEST(Zip, WrongUtf8FlagCorruptsDirectory) {
  ZipBuilder zip;
  zip.stored("\x82", "").flags = kUtf8Flag;
  EXPECT_EQ(error_of(zip.build()).code, Code::corrupt);
}

TEST(Zip, HostileNamesStayInside) {
  ZipBuilder zip;
  zip.stored("../up", "1");
  zip.stored("/absolute", "2");
  zip.stored("back\\slash", "3");
  zip.stored("c\0b"s, "4");
  zip.stored("a/../../b", "5");
  zip.stored("", "6");
  zip.stored(std::string(5000, 'n'), "7");
  zip.stored("x", "file");
  zip.stored("x/y", "in a directory of that name");
  const Archive archive = members(zip.build());
  EXPECT_THAT(listing(archive),
              ElementsAre("../up: 1", "absolute: 2", "back\\slash: 3", "c: 4", "a/../../b: 5",
                          std::string(5000, 'n') + ": 7", "x: file", "x/y: in a directory of that name"));
  EXPECT_THAT(warnings(archive), testing::Contains("member 5: empty name; omitted"));
}

TEST(Zip, LastOfDuplicateMembersIsShown) {
  ZipBuilder zip;
  zip.stored("a", "first");
  zip.deflated("b", "other");
  zip.deflated("a", "second");
  const Archive archive = members(zip.build());
  EXPECT_THAT(listing(archive), ElementsAre("b: other", "a: second"));
  EXPECT_THAT(warnings(archive), ElementsAre(HasSubstr("\"a\"")));
  EXPECT_EQ(archive.repeated, "a");
}

TEST(Zip, NameEndsAtAZeroByte) {
  ZipBuilder zip;
  zip.stored("a", "1");
  zip.stored("a\0b"s, "2");
  EXPECT_THAT(listing(members(zip.build())), ElementsAre("a: 2"));
}

TEST(Zip, NamesThatProgramsReadDifferentlyAreRefused) {
  ZipBuilder dots;
  dots.stored("./a", "1");
  EXPECT_THAT(listing(members(dots.build())), ElementsAre("a: 1"));
  dots.stored("a", "2");
  EXPECT_THAT(error_of(dots.build()).message, HasSubstr("several members have the path \"a\" under different names"));
  EXPECT_EQ(error_of(dots.build()).code, Code::corrupt);
}

TEST(Zip, DirectoryWithBytesMakesItIncomplete) {
  ZipBuilder zip;
  zip.stored("a.npy/", "bytes");
  zip.stored("b/", "");
  EXPECT_THAT(warnings(members(zip.build())),
              ElementsAre("member \"a.npy/\": a directory with 5 bytes: some programs read it as a file"));
}

TEST(Zip, UnreadableMemberIsListedWithWarning) {
  ZipBuilder zip;
  zip.packed("bzip2", 12, "packed", "bytes");
  zip.stored("secret", "bytes").flags = kEncryptedFlag;
  zip.stored("short", "bytes").size = 6;
  zip.stored("fine", "f");
  const Archive archive = members(zip.build());
  EXPECT_EQ(text_at(archive, "bzip2"),
            "error: \"bzip2\": compression method 12; stored (0), Deflate (8) and zstd (93) are read");
  EXPECT_EQ(text_at(archive, "secret"), "error: \"secret\": encrypted");
  EXPECT_EQ(text_at(archive, "short"), "error: \"short\": stored size 5 differs from size 6");
  EXPECT_EQ(text_at(archive, "fine"), "f");
  EXPECT_THAT(warnings(archive), ElementsAre(AllOf(HasSubstr("bzip2"), HasSubstr("method 12")), HasSubstr("encrypted"),
                                             HasSubstr("differs from size 6")));
  EXPECT_EQ(archive.find("bzip2")->source.get().value()->read(0, {}).error().code, Code::unsupported);
  EXPECT_EQ(archive.find("short")->source.get().value()->read(0, {}).error().code, Code::corrupt);
}

TEST(Zip, MembersMayOverlap) {
  ZipBuilder zip;
  zip.deflated("a", "kernel");
  zip.deflated("b", "kernel").offset = 0;
  EXPECT_THAT(listing(members(zip.build())), ElementsAre("a: kernel", "b: kernel"));
}

// The sizes in the directory.

TEST(Zip, MemberBeyondEndIsCorrupt) {
  for (const uint64_t size : {uint64_t{500}, uint64_t{1} << 40, uint64_t{1} << 62}) {
    ZipBuilder stored, deflated;
    ZipMember& member = stored.stored("a", "bytes");
    member.stored_size = member.size = size;
    member.zip64 = true;
    EXPECT_EQ(error_of_member(stored).code, Code::corrupt) << size;
    ZipMember& other = deflated.deflated("a", "bytes");
    other.stored_size = size;
    other.zip64 = true;
    EXPECT_EQ(error_of_member(deflated).code, Code::corrupt) << size;
  }
}

TEST(Zip, HeaderBeyondEndIsCorrupt) {
  for (const uint64_t offset : {uint64_t{60}, uint64_t{1000}, uint64_t{1} << 40, (uint64_t{1} << 63) - 10}) {
    ZipBuilder zip;
    ZipMember& member = zip.stored("a", std::string(50, 'x'));
    member.offset = offset;
    member.zip64 = true;
    EXPECT_EQ(error_of_member(zip).code, Code::corrupt) << offset;
  }
}

TEST(Zip, HeaderWithoutItsSignatureIsCorrupt) {
  ZipBuilder zip;
  zip.stored("stored", "as it is");
  zip.deflated("deflated", "in blocks");
  std::string bytes = zip.build();
  for (size_t at = bytes.find("PK\3\4"); at != bytes.npos; at = bytes.find("PK\3\4", at)) bytes[at] = 'Q';
  // The second text is of libzip 1.11.
  const auto is_reason = AnyOf(HasSubstr(": no header where the directory has the member"), HasSubstr("inconsistent"));
  EXPECT_THAT(listing(members(bytes)), ElementsAre(AllOf(StartsWith("stored: error: \"stored\""), is_reason),
                                                   AllOf(StartsWith("deflated: error: \"deflated\""), is_reason)));
}

TEST(Zip, MembersWithImpossibleSizesAreSkipped) {
  ZipBuilder zip;
  ZipMember& member = zip.deflated("a", "bytes");
  member.size = uint64_t{1} << 63;
  member.zip64 = true;
  const Archive archive = members(zip.build());
  EXPECT_THAT(archive.parts, IsEmpty());
  EXPECT_THAT(warnings(archive), ElementsAre("member \"a\": 9223372036854775808 bytes; omitted"));
}

TEST(Zip, BombYieldsAtMostDirectorySize) {
  for (const auto& [method, bomb] :
       {std::pair<uint16_t, std::string>{8, deflate_bomb(20'000)}, {93, zstd::bomb(100)}}) {
    ZipBuilder zip;
    ZipMember& member = zip.packed("a", method, bomb, std::string(1000, 'x'));
    EXPECT_EQ(error_of_member(zip).message, "\"a\": longer than the 1000 bytes that it should have");
    const Archive archive = members(zip.build());
    const SourcePtr source = archive.parts[0].source.get().value();
    EXPECT_EQ(source->size(), 1000u);
    EXPECT_EQ(text_of(read_text(*source, 0, 999)), std::string(999, 'x'));  // only the last byte waits for the end
    member.size = uint64_t{1} << 40;
    member.zip64 = true;
    EXPECT_THAT(error_of_member(zip).message, StartsWith("\"a\": ends after "));
  }
}

TEST(Zip, MemberWithOversizedCompressedDataIsRefused) {
  const std::string bomb = deflate_bomb(50'000);
  ZipBuilder zip;
  zip.packed("a", 8, bomb, std::string(1000, 'x'));
  EXPECT_EQ(error_of_member(zip).message,
            "\"a\": compressed size " + std::to_string(bomb.size()) + " is too large for size 1000");
}

TEST(Zip, MemberMustMatchSizeAndChecksum) {
  for (const uint16_t method : {uint16_t{8}, uint16_t{93}}) {
    ZipBuilder zip;
    ZipMember& member =
        zip.packed("a", method, method == 8 ? deflate_stored("bytes") : zstd::frame(zstd::raw_block("bytes")), "bytes");
    member.size = 6;
    EXPECT_EQ(error_of_member(zip).message, "\"a\": ends after 5 of 6 bytes");
    member.size = 4;
    EXPECT_EQ(error_of_member(zip).message, "\"a\": longer than the 4 bytes that it should have");
    member.size = 5;
    member.crc ^= 1;
    EXPECT_EQ(error_of_member(zip).message, "\"a\": its bytes do not match their CRC-32");
    EXPECT_EQ(error_of_member(zip).code, Code::mismatch);
  }
}

TEST(Zip, OneOfConflictingMembersIsRead) {
  const std::string bytes(1000, 'x');
  ZipBuilder zip;
  zip.packed("a", 8, deflate_stored(bytes), bytes);
  zip.packed("same", 8, deflate_stored(bytes), bytes).offset = 0;
  ZipMember& larger = zip.packed("larger", 8, deflate_stored(bytes), bytes);
  larger.offset = 0;
  larger.size = 1001;
  ZipMember& other = zip.packed("other", 8, deflate_stored(bytes), bytes);
  other.offset = 0;
  other.crc ^= 1;
  const Archive archive = members(zip.build());
  std::map<std::string, std::string> read;
  for (const Part& part : archive.parts) {
    const SourcePtr source = part.source.get().value();
    const auto text = read_text(*source, 0, source->size());
    read[part.path] = text ? "read" : text.error().message;
  }
  const std::string contradicts = ": another member has the same bytes, with another size, checksum or method";
  EXPECT_THAT(read, ElementsAre(Pair("a", "read"), Pair("larger", "\"larger\"" + contradicts),
                                Pair("other", "\"other\"" + contradicts), Pair("same", "read")));
}

// Where the directory is.

std::string one_member(std::string_view bytes) {
  ZipBuilder zip;
  zip.stored("a", bytes);
  return zip.build();
}

TEST(Zip, DataBeforeZipIsIgnored) {
  for (const bool zip64 : {false, true}) {
    ZipBuilder zip = of_all_methods();
    if (zip64) zip.zip64();
    const Archive archive = members(zip.junk("#!/bin/sh\nexit 0\n").build());
    EXPECT_EQ(listing(archive), listing_of_all_methods());
    EXPECT_THAT(warnings(archive), ElementsAre("17 bytes before the zip are ignored"));
  }
}

TEST(Zip, CommentMayResembleEndRecord) {
  ZipBuilder zip = of_all_methods();
  for (const std::string& comment :
       {"words"s, "x" + ZipBuilder::end_record(1, 46, 0) + "PK\5\6", std::string(0xFFFF, 'c')}) {
    const Archive archive = members(zip.comment(comment).build());
    EXPECT_EQ(listing(archive), listing_of_all_methods());
    EXPECT_THAT(warnings(archive), IsEmpty());
  }
}

TEST(Zip, DataAfterEndIsIgnored) {
  EXPECT_EQ(listing(members(of_all_methods().build() + std::string(1000, '\0'))), listing_of_all_methods());
}

// The scan for end records finds it first, and an empty zip is valid at any offset.
TEST(Zip, StoredZipIsNotMistakenForOuterZip) {
  for (const std::string& inner : {ZipBuilder().build(), of_all_methods().build()}) {
    ZipBuilder zip;
    zip.stored("inner.zip", inner).local_name = "another name, so that libzip finds the outer one inconsistent";
    for (const std::string& junk : {""s, "junk"s}) {
      const Archive archive = members(zip.junk(junk).build());
      EXPECT_THAT(listing(archive), ElementsAre("inner.zip: " + inner));
    }
  }
}

// Python's zipfile, miniz (torch) and unzip take the last one.
TEST(Zip, LastOfSeveralZipsIsShown) {
  const std::string first = one_member("first"), second = one_member("second");
  EXPECT_THAT(listing(members(first + second)), ElementsAre("a: second"));
  for (const bool zip64 : {false, true})
    for (const std::string& between : {""s, "junk"s, std::string(70'000, '-')}) {
      ZipBuilder zip;
      zip.executable(first + between).stored("a", "second");
      if (zip64) zip.zip64();
      EXPECT_THAT(listing(members(zip.build())), ElementsAre("a: second"));
      EXPECT_THAT(listing(members(zip.build() + "behind")), ElementsAre("a: second"));
      EXPECT_THAT(listing(members(zip.comment("comment").build())), ElementsAre("a: second"));
    }
}

TEST(Zip, FileThatProgramsReadDifferentlyIsCorrupt) {
  const auto is_refused = [](const std::string& file, std::string_view reason) {
    const Error error = error_of(file);
    EXPECT_EQ(error.code, Code::corrupt);
    EXPECT_THAT(error.message, HasSubstr(reason));
  };
  const std::string first = one_member("first"), second = one_member("second");
  const uint64_t directory = first.find("PK\1\2"), size = first.size() - directory - 22;
  ZipBuilder zip;
  zip.stored("a", "first");
  for (const std::string& comment : {second, ZipBuilder().build(), "-" + second, std::string(30'000, '-') + second})
    is_refused(ZipBuilder(zip).comment(comment).build(), "zip: two end records, at bytes ");
  // The directory at the offset belongs to the first zip, the one before the end record to the second.
  for (const bool zip64 : {false, true}) {
    ZipBuilder both;
    both.executable(first).stored("a", "second");
    if (zip64) both.zip64();
    is_refused(both.claiming_directory(size, directory).build(), "zip: two directories, at bytes ");
  }
  // Python shifts offsets back, too.
  is_refused(ZipBuilder(zip).claiming_directory(size, directory + 7).build(), "zip: its directory begins at byte ");
  is_refused(first + ZipBuilder(zip).claiming_directory(size, first.size() + directory + 1).build(),
             "zip: its directory begins at byte ");
  std::string contradicts = ZipBuilder(zip).zip64().build();
  contradicts[contradicts.size() - 22 + 10] = 2;  // members
  contradicts[contradicts.size() - 22 + 11] = 0;
  is_refused(contradicts, "zip: its end record and its zip64 end record contradict each other");
}

TEST(Zip, CommentMustBeWhole) {
  const std::string zip = of_all_methods().comment("words").build();
  for (size_t cut = 1; cut <= 5; ++cut) {
    const Error error = error_of(zip.substr(0, zip.size() - cut));
    EXPECT_EQ(error.code, Code::corrupt);
    EXPECT_EQ(error.message, "zip: the file ends before its comment; interrupted download?");
  }
}

TEST(Zip, EmptyZipHasNoMembers) {
  EXPECT_THAT(members(ZipBuilder().build()).parts, IsEmpty());
  EXPECT_THAT(members(ZipBuilder().zip64().build()).parts, IsEmpty());
}

TEST(Zip, MissingEndRecordIsCorrupt) {
  for (const std::string& file : {""s, std::string(100'000, 'x'), "PK\5\6" + std::string(17, '\0')}) {
    const Error error = error_of(file);
    EXPECT_EQ(error.code, Code::corrupt);
    EXPECT_THAT(error.message, StartsWith("zip: no valid end of central directory record"));
  }
}

TEST(Zip, CutFileIsNamed) {
  EXPECT_EQ(error_of("PK\3\4 and a member").message,
            "zip: a zip without its directory: the file was cut; interrupted download?");
}

TEST(Zip, MisplacedDirectoryIsCorrupt) {
  const ZipBuilder zip = of_all_methods();
  for (const auto& [size, offset] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0xFFFFFFF0, 0}, {0, 0xFFFFFFF0}, {0xFFFFFFF0, 0xFFFFFFF0}, {46, 0}, {100'000, 10}})
    EXPECT_EQ(error_of(ZipBuilder(zip).claiming_directory(size, offset).build()).code, Code::corrupt);
  for (const uint64_t claimed : {UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 40}) {
    EXPECT_EQ(error_of(ZipBuilder(zip).zip64().claiming_directory(claimed, 10).build()).code, Code::corrupt);
    EXPECT_EQ(error_of(ZipBuilder(zip).zip64().claiming_directory(10, claimed).build()).code, Code::corrupt);
    EXPECT_EQ(error_of(ZipBuilder(zip).zip64().claiming_directory(claimed, claimed).build()).code, Code::corrupt);
  }
}

TEST(Zip, WrongMemberCountIsCorrupt) {
  const ZipBuilder zip = of_all_methods();
  for (const uint64_t claimed : {4U, 6U, 0xFFFFU}) {
    const Error error = error_of(ZipBuilder(zip).claiming(claimed).build());
    EXPECT_EQ(error.code, Code::corrupt) << claimed << error.message;
    EXPECT_THAT(error.message, StartsWith("zip: libzip: \""));
  }
}

TEST(Zip, TooManyMembersAreRefusedBeforeAllocation) {
  for (const uint64_t claimed : {kMaxMembers + 1, size_t{1} << 40}) {
    const Error error = error_of(of_all_methods().zip64().claiming(claimed).build());
    EXPECT_EQ(error.code, Code::unsupported);
    EXPECT_EQ(error.message, fmt::format("zip: {} members, at most 2000000 are read", claimed));
  }
}

TEST(Zip, ListsHundredThousandMembers) {
  ZipBuilder zip;
  for (int i = 0; i < 100'000; ++i)
    zip.stored(fmt::format("model/{}", i), i % 1000 == 0 ? fmt::format("bytes of {}", i) : "");
  // More than 16 bits count: zip64, or the number modulo 65536 as older writers have it.
  for (const std::string& file : {zip.build(), ZipBuilder(zip).zip64().build()}) {
    const Archive archive = members(file);
    ASSERT_EQ(archive.parts.size(), 100'000u);
    EXPECT_EQ(archive.parts[99'999].path, "model/99999");
    EXPECT_EQ(text_at(archive, "model/77000"), "bytes of 77000");
  }
}

// Names that libzip's table compares with each other.

// The i-th of up to 2^length names of one hash.
std::string colliding_name(unsigned i, int length) {
  std::string name;
  for (; length > 0; --length, i /= 2) name += i % 2 == 0 ? "ab" : "bA";
  return name;
}

std::string zip_of(unsigned count, const std::function<std::string(unsigned)>& name) {
  ZipBuilder zip;
  for (unsigned i = 0; i < count; ++i) zip.stored(name(i), "");
  return zip.build();
}

TEST(ZipNames, CollidingOnesAreChargedBeforeTheyAreCompared) {
  const std::string all_of_one_hash = zip_of(60'000, [](unsigned i) { return colliding_name(i, 16); });
  EXPECT_THAT(error_of(all_of_one_hash).message, StartsWith("zip: names that collide in the table of libzip: "));
  EXPECT_THAT(members(zip_of(1000, [](unsigned i) { return colliding_name(i, 16); })).parts, SizeIs(1000));
}

// libzip hashes the names that it converts these to.
TEST(ZipNames, OnesOfCodePage437AreAllTakenAsColliding) {
  const auto name = [](unsigned i) { return fmt::format("\x82{}", i); };
  EXPECT_THAT(error_of(zip_of(60'000, name)).message, StartsWith("zip: names that collide in the table of libzip: "));
  EXPECT_THAT(members(zip_of(2000, name)).parts, SizeIs(2000));
}

TEST(ZipNames, RepeatedOneIsNotCompared) {
  EXPECT_THAT(members(zip_of(60'000, [](unsigned) { return "m"s; })).parts, SizeIs(1));
}

// Errors of the disk.

TEST(Zip, DiskErrorIsNotReportedAsCorrupt) {
  const auto disk = std::make_shared<Disk>(of_all_methods().build());
  disk->broken_from = 0;
  EXPECT_EQ(error_of(zip_members(Container{"m.zip", disk})).code, Code::io);
  EXPECT_EQ(error_of(zip_members(Container{"m.zip", disk})).message, "the disk is gone");
  disk->broken_from = UINT64_MAX;
  const Archive archive = members(Container{"m.zip", disk});
  disk->broken_from = 0;
  for (const Part& part : archive.parts) {
    const auto read = part.source.get().value()->read(0, std::span<std::byte>());
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::io);
    EXPECT_THAT(read.error().message, HasSubstr("the disk is gone"));
  }
  disk->broken_from = UINT64_MAX;  // no failure is kept
  EXPECT_EQ(listing(archive), listing_of_all_methods());
}

TEST(Zip, DiskErrorInDirectoryIsNotReportedAsCorrupt) {
  ZipBuilder zip;
  for (int i = 0; i < 5000; ++i) zip.stored(fmt::format("a member with a name of some length, number {}", i), "");
  // The end can be read, the directory cannot.
  class BrokenInTheMiddle final : public Source {
   public:
    explicit BrokenInTheMiddle(std::string bytes) : bytes_(in_memory(std::move(bytes))) {}
    uint64_t size() const override { return bytes_->size(); }
    Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
      if (out.size() > 4 && offset < size() - 100'000) return failure(Code::io, "the disk is gone");
      return bytes_->read(offset, out);
    }

   private:
    SourcePtr bytes_;
  };
  const Error error = error_of(zip_members(Container{"m.zip", std::make_shared<BrokenInTheMiddle>(zip.build())}));
  EXPECT_EQ(error.code, Code::io);
  EXPECT_EQ(error.message, "the disk is gone");
}

TEST(Zip, DirectoryTakesFewReadsAndMembersAreLazy) {
  ZipBuilder zip;
  for (int i = 0; i < 20'000; ++i) zip.stored(fmt::format("model/{}", i), "some bytes");
  const auto disk = std::make_shared<Disk>(zip.build());
  const Archive archive = members(Container{"m.zip", disk});
  EXPECT_LT(disk->reads, 50);
}

// Any bytes.

TEST(Zip, EveryTruncationIsRefusedInOneLine) {
  const std::string whole = of_all_methods().build();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Error error = error_of(whole.substr(0, size));
    EXPECT_EQ(error.code, Code::corrupt) << size;
    EXPECT_EQ(error.message.find('\n'), error.message.npos);
  }
}

TEST(Zip, EveryFlippedBitIsRefusedOrMembersAreRight) {
  ZipBuilder members;
  members.stored("stored", "as it is");
  members.deflated("deflated", "in blocks");
  members.zstandard("zstd", "in a frame");
  const std::string whole = members.build();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string zip = whole;
    zip[bit / 8] = static_cast<char>(zip[bit / 8] ^ 1 << bit % 8);
    const auto archive = zip_members(container(zip));
    if (!archive) {
      EXPECT_NE(archive.error().code, Code::io) << bit;
      continue;
    }
    // Nobody has compared stored bytes with their CRC-32 here.
    for (const Part& part : std::span(archive->parts).subspan(archive->parts.size() == 3 ? 1 : 0)) {
      const SourcePtr source = part.source.get().value();
      const auto text = read_text(*source, 0, std::min<uint64_t>(source->size(), 1 << 20));
      EXPECT_TRUE(!text || *text == "in blocks" || *text == "in a frame") << bit << *text;
    }
  }
}

TEST(Zip, ManyThreadsReadTheSameMembers) {
  ZipBuilder zip = of_all_methods();
  for (int i = 0; i < 50; ++i) zip.deflated(fmt::format("more {}", i), fmt::format("bytes {}", i));
  const Archive archive = members(zip.build());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < archive.parts.size(); ++i) {
        const size_t at = (i + t * (t % 2) * 7) % archive.parts.size();  // half of them in the same order
        const std::string expected =
            at < 5 ? listing_of_all_methods()[at] : fmt::format("more {}: bytes {}", at - 5, at - 5);
        if (fmt::format("{}: {}", archive.parts[at].path, text_of(archive.parts[at])) != expected) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Zip, IsDetectedByHeadAndMaybeByEnd) {
  EXPECT_EQ(match(of_all_methods().build()), Match::yes);
  EXPECT_EQ(match(ZipBuilder().build()), Match::yes);
  EXPECT_EQ(match(of_all_methods().build().substr(0, 10)), Match::yes);
  EXPECT_EQ(match(of_all_methods().junk("junk").build()), Match::maybe);
  EXPECT_EQ(match(of_all_methods().junk("junk").comment("words").build()), Match::maybe);
  EXPECT_EQ(match(of_all_methods().junk("junk").build() + "more"), Match::no);
  EXPECT_EQ(match("PK\5\6"), Match::no);
  EXPECT_EQ(match("PK\1\2 is no beginning"), Match::no);
  EXPECT_EQ(match(""), Match::no);
}

}  // namespace
}  // namespace weightfs::archive_zip_test
