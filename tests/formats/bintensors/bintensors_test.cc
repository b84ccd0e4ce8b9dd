#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/format.h"
#include "tests/builders/bintensors_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::bintensors_test {
namespace {

using namespace test;
using namespace test::bincode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Discriminants.
constexpr uint64_t kU8 = 1;
constexpr uint64_t kF32 = 11;
constexpr uint64_t kU64 = 14;

const std::string kNone("\0", 1);  // Option::None
const std::string kSome("\1");     // Option::Some

Container container(std::string bytes) { return Container{"m.bt", in_memory(std::move(bytes)), nullptr}; }
Result<Model> read(std::string bytes) { return read_as("bintensors", container(std::move(bytes))); }

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

std::string error_as_release(std::string bytes) {
  return error_in(read_as("bintensors-release", container(std::move(bytes))));
}
std::string error_as_legacy(std::string bytes) {
  return error_in(read_as("bintensors-legacy", container(std::move(bytes))));
}

// The error for these bytes as metadata, with eight bytes of data.
std::string error_of_release(std::string_view metadata) {
  return error_as_release(bintensors_file(metadata, "12345678"));
}
std::string error_of_legacy(std::string_view metadata) {
  return error_as_legacy(bintensors_file(metadata, "12345678"));
}

// A tensor of the release layout.
std::string named(std::string_view name, const std::string& info) { return text(name) + info; }

TEST(BinTensors, BothLayoutsAreReadAsModel) {
  for (const auto& [bytes, layout] :
       {std::pair{small_bintensors().release(), "release"}, std::pair{small_bintensors().legacy(), "legacy"}}) {
    const Model model = read_well(bytes);
    EXPECT_EQ(model.format, "bintensors");
    EXPECT_EQ(model.version, fmt::format("{} layout", layout));
    EXPECT_THAT(listing(model), ElementsAre(fmt::format("w float32 F32 [32x2] {}", std::string(256, 'w')),
                                            "empty int32 I32 [0x3] ", "s uint8 U8 [] s"));
    EXPECT_EQ(to_json(model.common), "{\n  \"framework\": \"pt\"\n}\n");
    EXPECT_EQ(std::get<std::string>(*model.metadata.find("format")), "pt");
    EXPECT_THAT(to_json(*model.metadata.find("bintensors")), HasSubstr(fmt::format("\"layout\": \"{}\"", layout)));
    EXPECT_THAT(model.warnings, IsEmpty());
    ASSERT_EQ(model.parts.size(), 1u);
    EXPECT_EQ(text_of(**model.parts[0].source.get()), bytes);
  }
}

// The example of the format's first description.
TEST(BinTensors, ReadsExampleOfSpecification) {
  const std::string metadata("\x00\x01\x09\x02\x01\x04\x00\x10\x01\x04\x74\x65\x73\x74\x00\x20", 16);
  const Model model = read_well(bintensors_file(metadata, "one.two.four8888"));
  EXPECT_THAT(listing(model), ElementsAre("test int32 I32 [1x4] one.two.four8888"));
  EXPECT_EQ(model.version, "legacy layout");
  EXPECT_EQ(to_json(*model.metadata.find("bintensors")),
            "{\n  \"layout\": \"legacy\",\n  \"metadata_length\": 16\n}\n");
}

TEST(BinTensors, ReadsEveryDType) {
  const std::vector<std::tuple<std::string, std::string, size_t>> kRows = {{"BOOL", "bool", 1},
                                                                           {"U8", "uint8", 1},
                                                                           {"I8", "int8", 1},
                                                                           {"F8_E5M2", "float8_e5m2", 1},
                                                                           {"F8_E4M3", "float8_e4m3fn", 1},
                                                                           {"I16", "int16", 2},
                                                                           {"U16", "uint16", 2},
                                                                           {"F16", "float16", 2},
                                                                           {"BF16", "bfloat16", 2},
                                                                           {"I32", "int32", 4},
                                                                           {"U32", "uint32", 4},
                                                                           {"F32", "float32", 4},
                                                                           {"F64", "float64", 8},
                                                                           {"I64", "int64", 8},
                                                                           {"U64", "uint64", 8}};
  for (size_t i = 0; i < kRows.size(); ++i) {
    const auto& [stored, name, size] = kRows[i];
    const Model model = read_well(BinTensorsBuilder().tensor("a", i, {3}, std::string(3 * size, 'x')).release());
    EXPECT_THAT(listing(model), ElementsAre(fmt::format("a {} {} [3] {}", name, stored, std::string(3 * size, 'x'))));
  }
  EXPECT_THAT(error_as_release(BinTensorsBuilder().tensor("a", 15, {1}, "x").release()),
              HasSubstr("tensor 0 \"a\": dtype 15, 14 at most"));
}

TEST(BinTensors, AcceptsAnyName) {
  BinTensorsBuilder b;
  const std::vector<std::string> names = {
      "", ".", "..", "../../etc/passwd", "a", "a/b", std::string("a\0b", 3), "😀", std::string(5000, 'n')};
  for (const std::string& name : names) b.tensor(name, kU8, {}, "x");
  for (const std::string& file : {b.release(), b.legacy()}) {
    const Model model = read_well(file);
    ASSERT_EQ(model.tensors.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(model.tensors[i].name, names[i]);
  }
}

// Telling the layouts apart.

TEST(BinTensors, ReadsFilesWithoutTensors) {
  for (const std::string_view metadata : {std::string_view("\0\0      ", 8), std::string_view("\0\0\0     ", 8),
                                          std::string_view("\1\0\0     ", 8), std::string_view("\1\0\0\0    ", 8)}) {
    const Model model = read_well(bintensors_file(metadata));
    EXPECT_THAT(model.tensors, IsEmpty());
    EXPECT_THAT(model.warnings, IsEmpty());
  }
}

TEST(BinTensors, IsNotReadAsTheOtherLayout) {
  EXPECT_NE(error_as_legacy(small_bintensors().release()), "no error");
  EXPECT_NE(error_as_release(small_bintensors().legacy()), "no error");
}

// Both layouts fit to the last byte: the name is "\2" in the one and "" in the other.
TEST(BinTensors, AmbiguousFileIsReadInLayoutWithPlainNames) {
  const std::string metadata = padded(std::string("\0\1\1\2\0\3\0\0\1\0\0", 11));
  EXPECT_EQ(error_as_release(bintensors_file(metadata)), "no error");
  const Model model = read_well(bintensors_file(metadata));
  EXPECT_EQ(model.version, "legacy layout");
  EXPECT_THAT(listing(model), ElementsAre(" uint8 U8 [0x3] "));
}

// Here both names have control characters.
TEST(BinTensors, AmbiguousFileIsReadInReleaseLayout) {
  const std::string metadata = padded(std::string("\0\1\5\1\0\0\0\1\4\2\0\0\0\0", 14));
  EXPECT_EQ(error_as_legacy(bintensors_file(metadata)), "no error");
  const Model model = read_well(bintensors_file(metadata));
  EXPECT_EQ(model.version, "release layout");
  EXPECT_THAT(listing(model),
              ElementsAre(fmt::format("{} float8_e4m3fn F8_E4M3 [0x0] ", std::string("\1\0\0\0\1", 5))));
}

TEST(BinTensors, AcceptsForeignPaddingWithWarning) {
  const std::string metadata = kNone + varint(1) + named("a", tensor_info(kU8, {1}, 0, 1));
  EXPECT_THAT(read_well(bintensors_file(metadata, "x")).warnings, IsEmpty());
  for (const std::string& padding : {std::string(3, '\0'), std::string(100, '\xFF'), std::string(8, ' ')}) {
    const Model model = read_well(bintensors_file(metadata + padding, "x"));
    EXPECT_THAT(listing(model), ElementsAre("a uint8 U8 [1] x"));
    EXPECT_THAT(model.warnings,
                ElementsAre(fmt::format("{} unexpected bytes between metadata and tensors; read in the release layout",
                                        padding.size())));
  }
  const std::string legacy = kNone + varint(1) + tensor_info(kF32, {2}, 0, 8) + varint(1) + text("test") + varint(0);
  const Model model = read_well(bintensors_file(legacy + "........", "12345678"));
  EXPECT_THAT(listing(model), ElementsAre("test float32 F32 [2] 12345678"));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("8 unexpected bytes between")));
}

TEST(BinTensors, ReportsWhyNeitherLayoutFits) {
  EXPECT_EQ(error_in(read(bintensors_file(kNone + varint(1) + named("w", tensor_info(15, {}, 0, 1)), "x"))),
            "bintensors: in the release layout: tensor 0 \"w\": dtype 15, 14 at most; in the legacy layout: tensor 0: "
            "a count of 119 at 12, 4 bytes left");
}

// Framing.

TEST(BinTensors, RefusesBadFraming) {
  EXPECT_EQ(error_in(read("1234567")), "bintensors: 7 bytes, 8 needed for the length of the header");
  EXPECT_EQ(error_in(read(bintensors_file("") + "12345678")),
            "bintensors: in the release layout: ends at byte 8, 1 byte needed at 8; in the legacy layout: ends at byte "
            "8, 1 byte needed at 8");
  std::string file = bintensors_file("\0\0", "");
  file[0] = 9;
  EXPECT_THAT(error_in(read(file)), HasSubstr("bintensors: the header is 9 bytes long, the file has "));
  EXPECT_EQ(error_in(read(std::string(16, '\xFF'))),
            "bintensors: header of 18446744073709551615 bytes, 100000000 at most");
}

// bincode.

TEST(BinTensors, AcceptsOverlongNumbers) {
  for (const int width : {2, 4, 8}) {
    const auto wide = [&](uint64_t n) { return varint(n, width); };
    const std::string dtype = width == 8 ? varint(kU8) : wide(kU8);
    const std::string metadata = kNone + wide(1) + wide(1) + "a" + dtype + wide(1) + wide(1) + wide(0) + wide(1);
    EXPECT_THAT(listing(read_well(bintensors_file(padded(metadata), "x"))), ElementsAre("a uint8 U8 [1] x"));
  }
}

TEST(BinTensors, RefusesInvalidNumberMarkers) {
  EXPECT_THAT(error_of_release(kNone + "\xFE" + std::string(16, '\0')),
              HasSubstr("a number marked 254 at 9, 253 at most"));
  EXPECT_THAT(error_of_release(kNone + "\xFF" + std::string(16, '\0')),
              HasSubstr("a number marked 255 at 9, 253 at most"));
  EXPECT_THAT(error_of_release(kNone + varint(1) + text("w") + varint(kF32, 8) + std::string(3, '\0')),
              HasSubstr("tensor 0 \"w\": a number marked 253 at 12, 252 at most"));
}

TEST(BinTensors, RefusesInvalidOptionByte) {
  EXPECT_THAT(error_of_release(std::string("\2\0", 2)), HasSubstr("an option of 2, 0 or 1 expected"));
  EXPECT_THAT(error_of_release(std::string("\xFB") + std::string(3, '\0')),
              HasSubstr("an option of 251, 0 or 1 expected"));
}

TEST(BinTensors, RefusesTextThatIsNotUtf8) {
  for (const char* bytes : {"\xC0\xAF", "\xED\xA0\x80", "\xFF", "\xF4\x90\x80\x80"}) {
    const std::string info = tensor_info(kU8, {1}, 0, 1);
    EXPECT_THAT(error_of_release(kNone + varint(1) + named(bytes, info)), HasSubstr("is not UTF-8")) << bytes;
    EXPECT_THAT(error_of_release(kSome + varint(1) + text(bytes) + text("")), HasSubstr("is not UTF-8")) << bytes;
  }
}

TEST(BinTensors, ReportsWhichTextIsInvalid) {
  const std::string info = tensor_info(kU8, {1}, 0, 1), bad = text("\xC0\xAF"), huge = varint(uint64_t{1} << 63);
  EXPECT_EQ(error_of_release(kNone + varint(1) + bad + info),
            "bintensors: tensor 0: name: \"\\xc0\\xaf\" is not UTF-8");
  EXPECT_EQ(error_of_release(kNone + varint(1) + huge),
            "bintensors: tensor 0: name: a count of 9223372036854775808 at 19 is beyond bincode's limit of 100000000");
  EXPECT_EQ(error_of_legacy(kNone + varint(1) + info + varint(1) + bad + varint(0)),
            "bintensors: name 0: \"\\xc0\\xaf\" is not UTF-8");
  EXPECT_EQ(error_of_release(kSome + varint(1) + bad + text("")), "bintensors: key 0: \"\\xc0\\xaf\" is not UTF-8");
  EXPECT_EQ(error_of_release(kSome + varint(1) + text("k") + bad),
            "bintensors: the value of key \"k\": \"\\xc0\\xaf\" is not UTF-8");
}

TEST(BinTensors, MetadataKeyOfOwnFieldsIsKept) {
  const Model model = read_well(BinTensorsBuilder().metadata("bintensors", "mine").release());
  EXPECT_EQ(to_json_line(*model.metadata.find("bintensors")),
            R"({"layout":"release","metadata_length":24,"value":"mine"})");
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(BinTensors, KeepsLastOfDuplicateMetadata) {
  const Model model = read_well(BinTensorsBuilder().metadata("b", "1").metadata("a", "2").metadata("b", "3").release());
  EXPECT_EQ(std::get<std::string>(*model.metadata.find("b")), "3");
  EXPECT_EQ(model.metadata.size(), 3u);
}

// Validation.

TEST(BinTensors, RefusesHolesOverlapAndDisorder) {
  const auto two = [](uint64_t begin1, uint64_t end1, uint64_t begin2, uint64_t end2) {
    const std::string a = named("a", tensor_info(kU8, {end1 - begin1}, begin1, end1));
    return error_of_release(kNone + varint(2) + a + named("b", tensor_info(kU8, {end2 - begin2}, begin2, end2)));
  };
  EXPECT_EQ(two(0, 4, 4, 8), "no error");
  EXPECT_EQ(two(1, 4, 4, 8), "bintensors: tensor \"a\": bytes [1, 4) where byte 0 is next");
  EXPECT_EQ(two(0, 4, 5, 8), "bintensors: tensor \"b\": bytes [5, 8) where byte 4 is next");
  EXPECT_EQ(two(0, 4, 3, 8), "bintensors: tensor \"b\": bytes [3, 8) where byte 4 is next");
  EXPECT_EQ(two(4, 8, 0, 4), "bintensors: tensor \"a\": bytes [4, 8) where byte 0 is next");
  EXPECT_EQ(two(0, 8, 8, 7), "bintensors: tensor \"b\": bytes [8, 7) where byte 8 is next");
}

TEST(BinTensors, RefusesMissingAndTrailingBytes) {
  const std::string file = BinTensorsBuilder().tensor("a", kU8, {2}, "xx").release();
  EXPECT_EQ(error_as_release(file.substr(0, file.size() - 1)),
            "bintensors: tensors of 2 bytes in all, 1 byte after the header");
  EXPECT_EQ(error_as_release(file + "y"), "bintensors: tensors of 2 bytes in all, 3 bytes after the header");
}

TEST(BinTensors, RefusesSizeThatDiffersFromShape) {
  EXPECT_EQ(error_as_release(BinTensorsBuilder().tensor("a", kF32, {3}, "12345678").release()),
            "bintensors: tensor \"a\": 8 bytes, but its shape and dtype F32 need 12");
}

TEST(BinTensors, RefusesOverflowInTheOrderOfTheReference) {
  const auto error = [](const std::vector<uint64_t>& shape, uint64_t dtype) {
    return error_as_release(BinTensorsBuilder().tensor("a", dtype, shape, "").release());
  };
  EXPECT_THAT(error({uint64_t{1} << 32, uint64_t{1} << 32}, kU8), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(error({uint64_t{1} << 61}, kU64), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(error({uint64_t{1} << 63, 4, 0}, kU8), HasSubstr("overflows 64 bits"));
  EXPECT_EQ(error({0, uint64_t{1} << 63, 4}, kU8), "no error");
}

TEST(BinTensors, RefusesDuplicateName) {
  const auto b = BinTensorsBuilder().tensor("a", kU8, {1}, "x").tensor("b", kU8, {1}, "y").tensor("a", kU8, {1}, "z");
  EXPECT_EQ(error_as_release(b.release()), "bintensors: tensor \"a\" appears twice");
  EXPECT_EQ(error_as_legacy(b.legacy()), "bintensors: tensor \"a\" appears twice");
}

// The legacy index.

std::string legacy_with_index(const std::string& index) {
  return kNone + varint(2) + tensor_info(kU8, {4}, 0, 4) + tensor_info(kF32, {1}, 4, 8) + index;
}

TEST(BinTensors, NamesTensorsByTheLegacyIndexInAnyOrder) {
  const std::string index = varint(2) + text("b") + varint(1) + text("a") + varint(0);
  EXPECT_THAT(listing(read_well(bintensors_file(legacy_with_index(index), "aaaabbbb"))),
              ElementsAre("a uint8 U8 [4] aaaa", "b float32 F32 [1] bbbb"));
}

TEST(BinTensors, RefusesIncompleteOrDuplicateLegacyIndex) {
  EXPECT_EQ(error_of_legacy(legacy_with_index(varint(1) + text("a") + varint(0))), "bintensors: 1 names for 2 tensors");
  EXPECT_EQ(error_of_legacy(legacy_with_index(varint(2) + text("a") + varint(0) + text("b") + varint(2))),
            "bintensors: name \"b\": index 2 of 2 tensors");
  EXPECT_EQ(error_of_legacy(legacy_with_index(varint(2) + text("a") + varint(1) + text("b") + varint(1))),
            "bintensors: names \"a\" and \"b\": both of tensor 1");
}

// Attacks.

TEST(BinTensors, CountsAreBoundedByRemainingBytes) {
  EXPECT_EQ(error_of_release(kNone + varint(1'000'000)), "bintensors: a count of 1000000 at 14, 0 bytes left");
  EXPECT_EQ(error_of_legacy(kNone + varint(2'000'000)), "bintensors: a count of 2000000 at 14, 0 bytes left");
  EXPECT_EQ(error_of_release(kSome + varint(2'000'000)), "bintensors: a count of 2000000 at 14, 0 bytes left");
  EXPECT_THAT(error_of_release(kNone + varint(1) + text("w") + varint(kU8) + varint(1'000'000)),
              HasSubstr("tensor 0 \"w\": a count of 1000000 at 18, 0 bytes left"));
  EXPECT_THAT(error_of_release(kNone + varint(1) + varint(1'000'000)),
              HasSubstr("a string of 1000000 bytes at 15, 0 left"));
}

// 72 bytes of the limit for each, as much as the reference's tensor takes in its memory.
TEST(BinTensors, BoundsCountsByTheLimitOfBincode) {
  for (const uint64_t count : {uint64_t{1'388'889}, uint64_t{1} << 62, UINT64_MAX})
    EXPECT_EQ(error_of_release(kNone + varint(count, 8)),
              fmt::format("bintensors: a count of {} at 18 is beyond bincode's limit of 100000000", count));
  EXPECT_THAT(error_of_release(kSome + varint(2'083'334)), HasSubstr("beyond bincode's limit"));
  EXPECT_THAT(error_of_release(kNone + varint(1) + varint(UINT64_MAX)), HasSubstr("beyond bincode's limit"));
}

TEST(BinTensors, BoundsTheMetadata) {
  BinTensorsBuilder b;
  for (int i = 0; i < 65'536; ++i) b.metadata("k", "");
  EXPECT_EQ(error_as_release(b.release()), "no error");
  EXPECT_EQ(error_as_release(b.metadata("k", "").release()), "bintensors: metadata of 65537 values, 65536 at most");
}

TEST(BinTensors, BoundsTheDimensions) {
  const std::vector<uint64_t> most(1024, 0), more(1025, 0);
  EXPECT_EQ(read_well(BinTensorsBuilder().tensor("a", kU8, most, "").release()).tensors[0].shape.size(), 1024u);
  const auto b = BinTensorsBuilder().tensor("a", kU8, more, "");
  EXPECT_EQ(error_as_release(b.release()), "bintensors: tensor 0 \"a\": shape: 1025 dimensions, 1024 at most");
  EXPECT_EQ(error_as_legacy(b.legacy()), "bintensors: tensor 0: shape: 1025 dimensions, 1024 at most");
}

// Entries are much smaller than their parsed form: invalid ones are refused before that is built.
TEST(BinTensors, SecondUnnamedTensorIsRefusedImmediately) {
  const std::string info = tensor_info(kU8, {0}, 0, 0), bad = tensor_info(15, {}, 0, 0);
  EXPECT_EQ(error_of_release(kNone + varint(3) + named("", info) + named("", info) + named("x", bad)),
            "bintensors: tensor 1: name: the second that is empty");
  const std::string index = varint(2) + text("") + varint(0) + text("") + varint(1);
  EXPECT_EQ(error_of_legacy(kNone + varint(2) + info + info + index), "bintensors: name 1: the second that is empty");
}

TEST(BinTensors, ReportsIoErrorAsIoError) {
  const auto broken = lazy(1000, Later<SourcePtr>([]() -> Result<SourcePtr> { return failure(Code::io, "gone"); }));
  const auto model = read_as("bintensors", Container{"m", broken, nullptr});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::io);
  EXPECT_EQ(model.error().message, "bintensors: gone");
}

TEST(BinTensors, RefusesEveryTruncation) {
  for (const std::string& whole : {small_bintensors().release(), small_bintensors().legacy()})
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_THAT(error_in(read(whole.substr(0, size))), HasSubstr("bintensors: ")) << size;
}

TEST(BinTensors, SurvivesEveryFlippedByte) {
  for (const std::string& whole : {small_bintensors().release(), small_bintensors().legacy()})
    for (size_t at = 0; at < whole.size(); ++at)
      for (const int flip : {0x01, 0x80, 0xFF}) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ flip);
        if (const auto model = read(bytes)) {
          for (const std::string& line : listing(*model)) EXPECT_THAT(line, Not(HasSubstr("unreadable")));
        }
      }
}

// Detection.

Match match(std::string_view file) { return matches_bintensors(probe_of(file)); }

TEST(BinTensors, PlausibleFramingMatchesMaybe) {
  EXPECT_EQ(match(small_bintensors().release()), Match::maybe);
  EXPECT_EQ(match(small_bintensors().legacy()), Match::maybe);
  EXPECT_EQ(match(BinTensorsBuilder().release()), Match::maybe);
}

TEST(BinTensors, CutMetadataIsRecognisedByTheName) {
  const std::string cut = small_bintensors().release().substr(0, 12);
  EXPECT_EQ(matches_bintensors(probe_of(cut, "m.bt")), Match::maybe);
  EXPECT_EQ(matches_bintensors(probe_of(cut, "m.bin")), Match::no);
  const auto model = read_model({"m.bt", in_memory(cut)});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::corrupt) << model.error().message;
}

TEST(BinTensors, IsNotDetectedInOtherFiles) {
  EXPECT_EQ(match(""), Match::no);
  EXPECT_EQ(match(bintensors_file(kNone)), Match::no);
  EXPECT_EQ(match(bintensors_file("{}      ")), Match::no);
  EXPECT_EQ(match(std::string(100, '\0')), Match::no);
  EXPECT_EQ(match(std::string(100, '\1')), Match::no);
}

}  // namespace
}  // namespace weightfs::bintensors_test
