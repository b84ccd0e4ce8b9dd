#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/completeness.h"
#include "formats/format.h"
#include "formats/verify.h"
#include "tests/builders/tensorflow_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::tensorflow_checkpoint_test {
namespace {

using namespace test::tensorflow;
using test::error_in;
using test::Files;
using test::listing;
using test::little;
using test::metadata_of;
using test::text_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kData = "m.data-00000-of-00001";

Result<Model> read(const std::string& index, Files beside, const std::string& name = "m.index") {
  return read_as("tensorflow-checkpoint",
                 {name, in_memory(index), std::make_shared<test::MemoryFolder>(std::move(beside))});
}

// The only tensor of a checkpoint with this entry, or the warning.
std::string outcome(const Entry& entry, const std::string& data = "0123456789ABCDEF") {
  const Model model = well(read(table({{"", header()}, {"w", entry.build()}}), {{kData, data}}));
  return model.warnings.empty() ? listing(model).at(0) : model.warnings[0];
}

TEST(TensorflowCheckpoint, TensorsAreRangesOfTheFilesBesideIt) {
  const Model model = well(read(small_index(), {{kData, small_data()}}));
  EXPECT_EQ(model.format, "tensorflow-checkpoint");
  EXPECT_EQ(model.version, "V2");
  EXPECT_THAT(listing(model),
              ElementsAre("emb float32 DT_FLOAT [3] aaaabbbbcccc", "late float32 DT_FLOAT [100] refused",
                          "names string DT_STRING [2] " + strings({"a", "bc"}), "w float32 DT_FLOAT [2x1] wwwwWWWW"));
  EXPECT_THAT(*model.per_tensor->strings.at(2).get().value(), ElementsAre("a", "bc"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"late\": 4 bytes stored, 400 needed: refused"));
  EXPECT_THAT(model.parts, SizeIs(2));
  EXPECT_EQ(metadata_of(model, "num_shards"), "1");
  EXPECT_EQ(metadata_of(model, "endianness"), "\"little\"");
}

TEST(TensorflowCheckpoint, IsDetectedByItsLastBytes) {
  EXPECT_EQ(matches_tensorflow_checkpoint(test::probe_of(small_index())), Match::yes);
  EXPECT_EQ(matches_tensorflow_checkpoint(test::probe_of(small_data())), Match::no);
  EXPECT_EQ(matches_tensorflow_checkpoint({"m.index", "head", "", 9999}), Match::maybe);
  EXPECT_EQ(matches_tensorflow_checkpoint({"m.index", "head", "tail", 9999}), Match::no);
  EXPECT_EQ(matches_tensorflow_checkpoint({"m.bin", "head", "", 9999}), Match::no);
}

TEST(TensorflowCheckpoint, CutIndexIsCorrupt) {
  const std::string whole = small_index();
  for (size_t size = 24; size < whole.size(); ++size) {
    const auto model = read_model({"m.ckpt.index", in_memory(whole.substr(0, size))});
    ASSERT_FALSE(model) << size;
    EXPECT_EQ(model.error().code, Code::corrupt) << size << ": " << model.error().message;
  }
}

TEST(TensorflowCheckpoint, EntriesThatLieRefuseTheirTensor) {
  EXPECT_EQ(outcome({.sizes = {2}, .offset = 4, .size = 8}), "w float32 DT_FLOAT [2] 456789AB");
  EXPECT_THAT(outcome({.sizes = {2}, .size = 4}), HasSubstr("4 bytes stored, 8 needed: refused"));
  EXPECT_THAT(outcome({.sizes = {-3}, .size = 4}), HasSubstr("dimension -3: refused"));
  EXPECT_THAT(outcome({.sizes = {1LL << 32, 1LL << 32}}), HasSubstr("overflows 64 bits: refused"));
  EXPECT_THAT(outcome({.offset = ~0ULL, .size = 4}), HasSubstr("offset -1: refused"));
  EXPECT_THAT(outcome({.offset = 1ULL << 62, .size = 4}), HasSubstr("4 bytes at 4611686018427387904"));
  EXPECT_THAT(outcome({.shard = 99, .size = 4}), HasSubstr("file 99 of 1: refused"));
  EXPECT_THAT(outcome({.type = 77, .size = 4}), HasSubstr("type unknown(77): refused"));
  EXPECT_THAT(outcome({.type = kResource, .size = 4}), HasSubstr("values of type DT_RESOURCE: refused"));
  EXPECT_EQ(outcome({.type = kFloat + 100, .size = 4}), "w float32 DT_FLOAT [] 0123");
}

TEST(TensorflowCheckpoint, FileThatWasCutLacksItsEnd) {
  const Model model =
      well(read(table({{"", header()}, {"w", Entry{.sizes = {4}, .size = 16}.build()}}), {{kData, "0123"}}));
  EXPECT_EQ(model.lacks->short_by, 12U);
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("which has 4: refused")));
}

TEST(TensorflowCheckpoint, MissingFileIsNamedOnce) {
  const Model model =
      well(read(table({{"", header(2)}, {"a", Entry{.shard = 1, .size = 4}.build()}, {"b", Entry{.size = 4}.build()}}),
                {{"m.data-00000-of-00002", "bbbb"}}));
  EXPECT_THAT(listing(model), ElementsAre("a float32 DT_FLOAT [] refused", "b float32 DT_FLOAT [] bbbb"));
  EXPECT_THAT(model.warnings, ElementsAre("\"m.data-00001-of-00002\": no such file; its tensors are refused",
                                          "tensor \"a\": no file \"m.data-00001-of-00002\": refused"));
  EXPECT_EQ(completeness_of(model).reason->code, Code::not_found);
}

TEST(TensorflowCheckpoint, BigEndianNumbersAreSwapped) {
  const auto bytes = [](uint64_t type, uint64_t size) {
    const std::string index = table({{"", header(1, 1)}, {"w", Entry{.type = type, .size = size}.build()}});
    return text_of(well(read(index, {{kData, "0123456789"}})).tensors[0].source);
  };
  EXPECT_EQ(bytes(kFloat, 4), "3210");
  EXPECT_EQ(bytes(kComplex64, 8), "32107654");
  EXPECT_EQ(bytes(kUint8, 1), "0");
  EXPECT_EQ(bytes(kHalf, 2), "10");
}

// The tensor w of these sizes in two slices, of the bytes of `data`.
std::string joined(const std::vector<int64_t>& sizes, const Message& first, const std::string& first_key,
                   const Message& second, const std::string& second_key, uint64_t first_size = 0,
                   uint64_t second_size = 0) {
  const std::string name("\0w\0\1\1\2", 6);
  const auto bytes = [&](uint64_t size, uint64_t offset) {
    return Entry{.type = kUint8, .sizes = {static_cast<int64_t>(size)}, .offset = offset, .size = size}.build();
  };
  test::tensorflow::Entries entries = {{"", header()},
                                       {name + first_key, bytes(first_size, 0)},
                                       {name + second_key, bytes(second_size, first_size)},
                                       {"w", Entry{.type = kUint8, .sizes = sizes, .slices = {first, second}}.build()}};
  const Model model = well(read(table(entries), {{kData, "0123456789ABCDEF"}}));
  return model.warnings.empty() ? text_of(model.tensors[0].source) : model.warnings[0];
}

TEST(TensorflowCheckpoint, SlicesBecomeOneTensor) {
  const Message left = slice_of({{0, -1}, {0, 2}}), right = slice_of({{0, -1}, {2, 1}});
  EXPECT_EQ(joined({2, 3}, left, "\x80\x7F\x80\x82", right, "\x80\x7F\x82\x81", 4, 2), "014235");
  const Message top = slice_of({{0, 1}, {0, -1}}), bottom = slice_of({{1, 1}, {0, -1}});
  EXPECT_EQ(joined({2, 3}, top, "\x80\x81\x80\x7F", bottom, "\x81\x81\x80\x7F", 3, 3), "012345");
}

TEST(TensorflowCheckpoint, SlicesThatDoNotFitAreRefused) {
  const Message left = slice_of({{0, -1}, {0, 2}}), right = slice_of({{0, -1}, {2, 1}}),
                over = slice_of({{0, -1}, {1, 1}});
  EXPECT_THAT(joined({2, 4}, left, "\x80\x7F\x80\x82", right, "\x80\x7F\x82\x81", 4, 2), HasSubstr("have 6 elements"));
  EXPECT_THAT(joined({2, 3}, left, "\x80\x7F\x80\x82", over, "\x80\x7F\x81\x81", 4, 2), HasSubstr("slices overlap"));
  EXPECT_THAT(joined({2, 3}, left, "\x80\x7F\x80\x82", right, "\x80\x7F\x82\x82", 4, 2),
              HasSubstr("slices is missing"));
  EXPECT_THAT(joined({2, 2}, left, "\x80\x7F\x80\x82", right, "\x80\x7F\x82\x81", 4, 2),
              HasSubstr("a slice of 1 elements"));
  EXPECT_THAT(joined({6}, left, "\x80\x7F\x80\x82", right, "\x80\x7F\x82\x81", 4, 2),
              HasSubstr("a slice of 2 dimensions"));
}

TEST(TensorflowCheckpoint, ReadsOfASliceBeginAnywhere) {
  const std::string name("\0w\0\1\1\2", 6);
  const Model model = well(read(
      table({{"", header()},
             {name + "\x80\x7F\x80\x81", Entry{.sizes = {3, 1}, .size = 12}.build()},
             {name + "\x80\x7F\x81\x81", Entry{.sizes = {3, 1}, .offset = 12, .size = 12}.build()},
             {"w",
              Entry{.sizes = {3, 2}, .slices = {slice_of({{0, -1}, {0, 1}}), slice_of({{0, -1}, {1, 1}})}}.build()}}),
      {{kData, "aaaabbbbccccAAAABBBBCCCC"}}));
  const std::string all = "aaaaAAAAbbbbBBBBccccCCCC";
  for (size_t at = 0; at < all.size(); ++at)
    EXPECT_EQ(read_text(model.tensors[0].source, at, all.size() - at).value(), all.substr(at));
}

TEST(TensorflowCheckpoint, HeaderDecidesAboutTheFile) {
  const auto error = [](const std::string& index) { return error_in(read(index, {})); };
  EXPECT_EQ(error(table({})), "tensorflow-checkpoint: no header: the first key is not empty");
  EXPECT_EQ(error(table({{"w", header()}})), "tensorflow-checkpoint: no header: the first key is not empty");
  EXPECT_EQ(error(table({{"", Message().number(1, 1).number(2, 7).build()}})), "tensorflow-checkpoint: byte order 7");
  const Message newer = Message().number(1, 1).message(3, Message().number(2, 2));
  EXPECT_EQ(error(table({{"", newer.build()}})), "tensorflow-checkpoint: needs a reader of version 2");
  const Message bad = Message().number(1, 1).message(3, Message().number(1, 1).bytes(3, "\3\1"));
  EXPECT_EQ(error(table({{"", bad.build()}})), "tensorflow-checkpoint: must not be read by readers of version 1");
  EXPECT_THAT(well(read(table({{"", header(0x7FFFFFFF)}}), {})).warnings, IsEmpty());
}

TEST(TensorflowCheckpoint, FullNamesAreReadFromTheObjectGraph) {
  const Message attribute = Message().bytes(1, "VALUE").bytes(2, "dense/kernel").bytes(3, "k");
  const std::string graph = strings({Message().message(1, Message().message(2, attribute)).build()});
  const Model model =
      well(read(table({{"", header()},
                       {"_CHECKPOINTABLE_OBJECT_GRAPH", Entry{.type = kString, .size = graph.size()}.build()},
                       {"save_counter/.ATTRIBUTES/VARIABLE_VALUE",
                        Entry{.type = kInt64, .offset = graph.size(), .size = 8}.build()}}),
                {{kData, graph + little(7)}}));
  ASSERT_THAT(model.documents, SizeIs(1));
  EXPECT_EQ(model.documents[0].path, "full_names.json");
  EXPECT_EQ(text_of(*model.documents[0].source.get().value()), "{\n  \"k\":\"dense/kernel\"\n}\n");
  EXPECT_EQ(test::json_at(metadata_with_facts(model), "save_counter"), "7");
}

TEST(TensorflowCheckpoint, StringsThatDoNotFitAreNotRead) {
  const auto error = [](const std::string& stored, int64_t count) {
    const Entry entry{.type = kString, .sizes = {count}, .size = stored.size()};
    const Model model = well(read(table({{"", header()}, {"w", entry.build()}}), {{kData, stored}}));
    return error_in(model.per_tensor->strings.at(0).get());
  };
  EXPECT_EQ(error(strings({"a", "b"}), 2), "no error");
  EXPECT_EQ(error(strings({"a", "b"}), 1), "1 strings of 1 bytes in 8 bytes");
  EXPECT_EQ(error("\x7F"
                  "crc!a",
                  1),
            "a string of 127 bytes, 6 left");
  EXPECT_THAT(outcome({.type = kString, .sizes = {1LL << 40}}),
              HasSubstr("0 bytes stored, at least 1099511627780 needed: refused"));
  EXPECT_THAT(outcome({.type = kString, .sizes = {2}, .size = 5}), HasSubstr("5 bytes stored, at least 6 needed"));
}

// A checkpoint with a checksum of each form.
struct Checked {
  std::string texts = strings({"a", "bc"});
  std::string data = "wwwwWWWW" + texts + "leftright";

  Model model(uint64_t endianness = 0) const {
    const auto lengths = [&](uint64_t number) {
      std::string bytes = little(number, 4);
      if (endianness == 1) std::ranges::reverse(bytes);
      return bytes;
    };
    const uint32_t of_texts = masked_crc32c(lengths(1) + lengths(2) + "crc!abc");
    const std::string name("\0z\0\1\1\1", 6);
    const uint64_t at = 8 + texts.size();
    return well(read(
        table(
            {{"", header(1, endianness)},
             {name + "\x80\x84",
              Entry{.type = kUint8, .sizes = {4}, .offset = at, .size = 4, .crc = masked_crc32c("left")}.build()},
             {name + "\x84\x85",
              Entry{.type = kUint8, .sizes = {5}, .offset = at + 4, .size = 5, .crc = masked_crc32c("right")}.build()},
             {"none", Entry{.size = 4}.build()},
             {"texts",
              Entry{.type = kString, .sizes = {2}, .offset = 8, .size = texts.size(), .crc = of_texts}.build()},
             {"w", Entry{.sizes = {2}, .size = 8, .crc = masked_crc32c("wwwwWWWW")}.build()},
             {"z", Entry{.type = kUint8, .sizes = {9}, .slices = {slice_of({{0, 4}}), slice_of({{4, 5}})}}.build()}}),
        {{kData, data}}));
  }
};

TEST(TensorflowCheckpoint, VerifyComparesTheChecksumOfEachTensor) {
  Checked checked;
  for (const uint64_t endianness : {0U, 1U}) {
    const Model model = checked.model(endianness);
    EXPECT_THAT(model.warnings, IsEmpty());
    const Verification right = verify(model, {});
    EXPECT_EQ(right.ranges, 4U) << endianness;  // "none" has no checksum
    EXPECT_THAT(right.wrong, IsEmpty());
    EXPECT_THAT(*well(model.per_tensor->strings.at(1).get()), ElementsAre("a", "bc"));
  }
}

TEST(TensorflowCheckpoint, VerifyNamesTheTensorWhoseByteWasFlipped) {
  const auto wrong = [](size_t byte) {
    Checked checked;
    checked.data[byte] ^= 1;
    const Verification found = verify(checked.model(), {});
    EXPECT_EQ(found.ranges, 3U);
    EXPECT_EQ(found.wrong_ranges, 1U);
    return found.wrong.size() == 1 ? found.wrong[0] : "";
  };
  EXPECT_THAT(wrong(7), testing::StartsWith("tensor \"w\": CRC-32C is "));
  EXPECT_THAT(wrong(10), HasSubstr("tensor \"texts\": "));  // the checksum of the lengths
  EXPECT_THAT(wrong(16), HasSubstr("tensor \"texts\": "));  // a text
  EXPECT_THAT(wrong(8 + 9), HasSubstr("tensor \"z\": "));
  EXPECT_THAT(wrong(8 + 9 + 8), HasSubstr("tensor \"z\": "));
}

TEST(TensorflowCheckpoint, StringsWithAWrongByteAreNotRead) {
  Checked checked;
  checked.data[16] ^= 1;
  const auto read = checked.model().per_tensor->strings.at(1).get();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::mismatch);
}

TEST(TensorflowCheckpoint, VersionOneHasAChecksumForEachBlock) {
  const Model right = well(read(small_v1(), {}, "model.ckpt"));
  EXPECT_EQ(verify(right, {}).ranges, 4U);
  std::string bytes = small_v1();
  bytes[bytes.find("bbbb")] ^= 1;
  const Verification wrong = verify(well(read(bytes, {}, "model.ckpt")), {});
  EXPECT_EQ(wrong.ranges, 3U);
  EXPECT_THAT(wrong.wrong, ElementsAre(HasSubstr("\"model.ckpt\": the block at ")));
}

// The block with the list of tensors is compared before it is read, also if it is not compressed.
TEST(TensorflowCheckpoint, VersionOneWithAWrongListIsRefused) {
  const Message meta = Message().message(1, Message().bytes(1, "w").message(2, shape({0})).number(3, kFloat));
  std::string bytes = table({{"", Message().message(1, meta).build()}});
  EXPECT_THAT(well(read(bytes, {})).tensors, SizeIs(1));
  bytes[bytes.find('w')] ^= 1;
  EXPECT_EQ(error_in(read(bytes, {})), "tensorflow-checkpoint: the checksum of the block at 0 differs");
}

TEST(TensorflowCheckpoint, VersionOneWithoutTheBlockOfASliceRefusesItsTensor) {
  const Message saved =
      Message().bytes(1, "w").message(2, shape({2})).number(3, kFloat).message(4, slice_of({{0, -1}}));
  const Model model = well(read(table({{"", Message().message(1, Message().message(1, saved)).build()}}), {}));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"w\": the table has no such slice: refused"));
}

TEST(TensorflowCheckpoint, TooManySlicesBesideEachOtherAreRefused) {
  const auto ordered = [](int64_t i) {
    return i < 64 ? std::string(1, static_cast<char>(0x80 ^ i))
                  : std::string({static_cast<char>(0xC0 | i >> 8), static_cast<char>(i & 0xFF)});
  };
  const auto warnings = [&](int64_t count) {
    test::tensorflow::Entries entries = {{"", header()}};
    Entry whole{.type = kUint8, .sizes = {1, count}};
    for (int64_t i = 0; i < count; ++i) {
      entries.emplace_back(std::string("\0w\0\1\1\2\x80\x81", 8) + ordered(i) + "\x81",
                           Entry{.type = kUint8, .sizes = {1, 1}, .size = 1}.build());
      whole.slices.push_back(slice_of({{0, 1}, {i, 1}}));
    }
    entries.emplace_back("w", whole.build());
    return well(read(table(entries), {{kData, "x"}})).warnings;
  };
  EXPECT_THAT(warnings(1024), IsEmpty());
  EXPECT_THAT(warnings(1025), ElementsAre(HasSubstr("1025 slices beside each other, at most 1024 are gathered")));
}

TEST(TensorflowCheckpoint, GraphBesideItIsADocument) {
  const auto documents = [](const std::string& meta) {
    return well(read(table({{"", header()}}), {{"m.meta", meta}})).documents.size();
  };
  EXPECT_EQ(documents(meta_graph(small_graph()).build()), 1U);
  EXPECT_EQ(documents("text"), 0U);
  EXPECT_THAT(well(read(table({{"", header()}}), {{"m.meta", "text"}})).warnings,
              ElementsAre(HasSubstr("the graph is not shown")));
}

TEST(TensorflowCheckpoint, DirectoryOfOneCheckpointIsOneModel) {
  const auto entry = [](const std::vector<std::string>& names) {
    return model_entry_file(names, test::MemoryFolder(Files{})).value().value_or("none");
  };
  EXPECT_EQ(entry({"checkpoint", "m.data-00000-of-00001", "m.index", "m.meta"}), "m.index");
  EXPECT_EQ(entry({"m-1.data-00000-of-00001", "m-1.index", "m-2.data-00000-of-00001", "m-2.index"}), "none");
  EXPECT_EQ(entry({"m.data-00000-of-00001", "m.index", "other.onnx"}), "none");
  EXPECT_EQ(entry({"m.index"}), "none");
}

TEST(TensorflowCheckpoint, VersionOneHasItsValuesInTheTable) {
  const Model model = well(read(small_v1(), {}, "model.ckpt"));
  EXPECT_EQ(model.version, "V1");
  EXPECT_THAT(listing(model), ElementsAre("emb float32 DT_FLOAT [2] aaaabbbb", "w float32 DT_FLOAT [2] wwwwWWWW"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

}  // namespace
}  // namespace weightfs::tensorflow_checkpoint_test
