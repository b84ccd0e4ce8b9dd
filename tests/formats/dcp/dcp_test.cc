#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "formats/verify.h"
#include "tests/builders/dcp_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::dcp_test {
namespace {

using namespace test::dcp;
using test::Files;
using test::listing;
using test::PickleBuilder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kFile = "__0_0.distcp";

Result<Model> read(const std::string& metadata, Files beside) {
  return read_as("dcp", {".metadata", in_memory(metadata), std::make_shared<test::MemoryFolder>(std::move(beside))});
}

Model read_well(const CheckpointBuilder& b) { return test::well(read(b.metadata(), b.files())); }

std::string fact(const Model& model, std::string_view key) {
  return test::json_at(std::get<Map>(*model.metadata.find("dcp")), key);
}

// The line of the tensor "w" beside a good one, and the warning about it.
std::vector<std::string> refusal(CheckpointBuilder b) {
  const Model model = read_well(b.whole("good", "uint8", "Byte", 1, {2}, "ok"));
  std::vector<std::string> lines = listing(model);
  EXPECT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines.back(), "good uint8 uint8 [2] ok");
  lines.pop_back();
  lines.insert(lines.end(), model.warnings.begin(), model.warnings.end());
  return lines;
}

TEST(Dcp, ChunksAreJoinedByTheirOffsets) {
  const Model model = read_well(small_dcp());
  EXPECT_EQ(model.format, "dcp");
  EXPECT_THAT(listing(model), ElementsAre("model.w float32 float32 [2x1] wwwwWWWW", "rows uint8 uint8 [3x2] abcdef",
                                          "grid int16 int16 [2x3] AABBCCDDEEFF"));
  EXPECT_EQ(test::metadata_of(model, "epoch"), "7");
  EXPECT_EQ(fact(model, "files"), "2");
  EXPECT_EQ(fact(model, "chunks"), "6");
  EXPECT_EQ(fact(model, "globals"), R"(["builtins.getattr"])");  // of a memory format, which is data
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.common.find("dangerous_globals"), nullptr);
  ASSERT_THAT(model.parts, SizeIs(3));
  EXPECT_EQ(model.parts[0].path, ".metadata");
  EXPECT_EQ(model.parts[2].path, "__1_0.distcp");
}

TEST(Dcp, TensorInOneChunkIsARangeOfItsFile) {
  const Model model = read_well(small_dcp());
  const Slice bytes = model.tensors[0].source;
  EXPECT_EQ(bytes.whole(), model.parts[1].source.get().value());
  EXPECT_EQ(small_dcp().files().at(kFile).substr(bytes.offset(), bytes.size()), "wwwwWWWW");
}

TEST(Dcp, ChecksumsOfChunksAreCompared) {
  CheckpointBuilder b;
  b.whole("a", "uint8", "Byte", 1, {5}, "first").whole("b", "uint8", "Byte", 1, {6}, "second");
  Files files = b.files();
  EXPECT_EQ(verify(test::well(read(b.metadata(), files)), {}).checked, 2U);
  files[kFile].replace(files[kFile].find("first"), 5, "fir5t");
  const Model wrong = test::well(read(b.metadata(), files));
  EXPECT_THAT(verify(wrong, {}).wrong,
              ElementsAre(AllOf(HasSubstr("__0_0.distcp, bytes from"), HasSubstr("CRC-32 is"))));
  EXPECT_FALSE(compare_files_of_tensors(wrong, std::array<size_t, 1>{0}));
}

TEST(Dcp, ScalarsAndEmptyTensors) {
  CheckpointBuilder b;
  b.whole("step", "int64", "Long", 8, {}, "12345678").whole("empty", "float32", "Float", 4, {0, 3}, "");
  EXPECT_THAT(listing(read_well(b.tensor("none", "float32", {0}, {}))),
              ElementsAre("step int64 int64 [] 12345678", "empty float32 float32 [0x3] ", "none float32 float32 [0] "));
}

TEST(Dcp, DeflatedChunksAreDecoded) {
  test::ZipBuilder zip;
  const auto stored = test::storage("Byte", "0", 4);
  zip.deflated("a/data.pkl", test::tensor_v2(stored, {{4}, {1}}).pickle());
  zip.deflated("a/data/0", "wxyz");
  CheckpointBuilder b;
  b.tensor("w", "uint8", {4}, {{{0}, {4}}}).stored("w", Sizes{0}, kFile, zip.build());
  EXPECT_THAT(listing(read_well(b)), ElementsAre("w uint8 uint8 [4] wxyz"));
}

TEST(Dcp, TransposedChunksAreGathered) {
  test::PytorchBuilder chunk;
  const auto stored = test::storage("Byte", chunk.bytes("abcd"), 4);
  CheckpointBuilder b;
  b.tensor("w", "uint8", {2, 2}, {{{0, 0}, {2, 2}}});
  b.stored("w", Sizes{0, 0}, kFile, chunk.members_of(test::tensor_v2(stored, {{2, 2}, {1, 2}}).pickle()).build());
  EXPECT_THAT(listing(read_well(b)), ElementsAre("w uint8 uint8 [2x2] acbd"));
}

TEST(Dcp, ChunksThatDoNotTileTheTensorAreRefused) {
  const auto with = [](const std::vector<Chunk>& chunks) {
    CheckpointBuilder b;
    b.tensor("w", "uint8", {4}, chunks);
    for (const Chunk& chunk : chunks)
      b.stored("w", chunk.offsets, kFile,
               saved("Byte", 1, chunk.sizes, std::string(static_cast<size_t>(chunk.sizes[0]), 'x')));
    return refusal(b);
  };
  const std::string line = "w uint8 uint8 [4] refused";
  EXPECT_THAT(with({{{0}, {2}}}), ElementsAre(line, HasSubstr("2 elements")));
  EXPECT_THAT(with({{{0}, {2}}, {{1}, {2}}}), ElementsAre(line, HasSubstr("overlap")));
  EXPECT_THAT(with({{{0}, {2}}, {{2}, {4}}}), ElementsAre(line, HasSubstr("4 elements from 2, the dimension has 4")));
  EXPECT_THAT(with({}), ElementsAre(line, HasSubstr("0 elements")));
}

// 3,000 names of one tensor with 20,000 chunks, none of them valid: the list is not read for each of them.
TEST(Dcp, ListThatTensorsShareIsChargedForEach) {
  PickleBuilder list = PickleBuilder().raw("](");
  for (int i = 0; i < 20'000; ++i) list.none();
  PickleBuilder attributes = PickleBuilder().text("properties").add(properties("uint8"));
  attributes.text("size").add(size({4})).text("chunks").add(list.raw("e"));
  CheckpointBuilder b;
  b.entry("0", object(kModule, "TensorStorageMetadata", attributes).raw("q\x77"));
  for (int i = 1; i < 3000; ++i) b.entry(fmt::format("{}", i), PickleBuilder().raw("h\x77"));
  const Container container{".metadata", in_memory(b.metadata()), std::make_shared<test::MemoryFolder>(b.files())};
  std::ignore = read_as("dcp", container);
  EXPECT_GT(container.budget->time_used(), container.budget->time_limit() / 2);
}

TEST(Dcp, ChunksWithoutBytesAreRefused) {
  const auto with = [](std::string_view path, int64_t offset, int64_t length, const PickleBuilder& more = {}) {
    CheckpointBuilder b;
    return refusal(b.tensor("w", "uint8", {4}, {{{0}, {4}}}).placed("w", Sizes{0}, path, offset, length, more));
  };
  const std::string line = "w uint8 uint8 [4] refused";
  EXPECT_THAT(refusal(CheckpointBuilder().tensor("w", "uint8", {4}, {{{0}, {4}}})),
              ElementsAre(line, "tensor \"w\": a chunk without a place"));
  EXPECT_THAT(with(kFile, 1 << 20, 4), ElementsAre(line, HasSubstr("4 bytes at 1048576 of \"__0_0.distcp\"")));
  EXPECT_THAT(with(kFile, 0, INT64_MAX), ElementsAre(line, HasSubstr("9223372036854775807 bytes at 0")));
  EXPECT_THAT(with(kFile, -1, 4), ElementsAre(line, HasSubstr("without path, offset or length")));
  EXPECT_THAT(with(kFile, 0, 0), ElementsAre(line, HasSubstr("zip")));
  EXPECT_THAT(with("none.distcp", 0, 4),
              ElementsAre(line, HasSubstr("\"none.distcp\": no such file"), HasSubstr("no file")));
  EXPECT_THAT(with("../x", 0, 4), ElementsAre(line, HasSubstr("leads out"), HasSubstr("no file")));
  EXPECT_THAT(with("/etc/passwd", 0, 4), ElementsAre(line, HasSubstr("is absolute"), HasSubstr("no file")));
  const PickleBuilder transformed = PickleBuilder().text("transform_descriptors").raw("]").text("stream.zstd").raw("a");
  EXPECT_THAT(with(kFile, 0, 4, transformed), ElementsAre(line, HasSubstr("a chunk that is compressed")));
}

TEST(Dcp, WhatMissesAFileIsCounted) {
  CheckpointBuilder b;
  b.tensor("w", "uint8", {4}, {{{0}, {4}}}).placed("w", Sizes{0}, "__9_0.distcp", 0, 900);
  b.tensor("v", "uint8", {4}, {{{0}, {4}}}).placed("v", Sizes{0}, "__9_0.distcp", 900, 900);
  b.whole("good", "uint8", "Byte", 1, {2}, "ok").placed("x", Sizes{0}, kFile, 100, 1 << 20);
  const Model model = read_well(b.tensor("x", "uint8", {4}, {{{0}, {4}}}));
  EXPECT_EQ(model.lacks->files, 1U);
  EXPECT_GT(model.lacks->short_by, 0U);
  EXPECT_EQ(model.warnings.front(), "\"__9_0.distcp\": no such file; its tensors are refused");
}

TEST(Dcp, ChunksOfAnotherTypeOrShapeAreRefused) {
  const auto with = [](const std::string& chunk, std::string_view dtype = "uint8") {
    CheckpointBuilder b;
    return refusal(b.tensor("w", dtype, {4}, {{{0}, {4}}}).stored("w", Sizes{0}, kFile, chunk)).back();
  };
  EXPECT_THAT(with(saved("Byte", 1, {2}, "ab")), HasSubstr("another type or shape"));
  EXPECT_THAT(with(saved("Char", 1, {4}, "abcd")), HasSubstr("another type or shape"));
  EXPECT_THAT(with(saved(PickleBuilder().integer(1))), HasSubstr("not one tensor"));
  EXPECT_THAT(with(saved("Byte", 1, {4}, "ab")), HasSubstr("outside of the storage"));
  EXPECT_THAT(with("no zip"), HasSubstr("zip"));
  EXPECT_THAT(with(saved("Byte", 1, {4}, "abcd"), "new_type"), HasSubstr("its dtype is unknown"));
  EXPECT_THAT(with(saved("QUInt4x2", 1, {4}, "ab"), "quint4x2"), HasSubstr("several elements in a byte"));
}

TEST(Dcp, TheLastOfEqualNamesCounts) {
  CheckpointBuilder b;
  b.tensor("w", "uint8", {9}, {}).whole("w", "uint8", "Byte", 1, {2}, "ab");
  EXPECT_THAT(listing(read_well(b)), ElementsAre("w uint8 uint8 [2] ab"));
}

TEST(Dcp, UnknownEntriesAreMissing) {
  CheckpointBuilder b;
  const Model model = read_well(b.entry("x", PickleBuilder().integer(1)).whole("w", "uint8", "Byte", 1, {2}, "ab"));
  EXPECT_THAT(listing(model), SizeIs(1));
  EXPECT_EQ(model.lacks->missing_tensors, 1U);
}

TEST(Dcp, ObjectsAreMetadata) {
  CheckpointBuilder b;
  const PickleBuilder state =
      PickleBuilder().raw("}(").text("lr").real(0.5).text("names").raw("](").text("a").raw("eu");
  b.object_entry("optim").stored("optim", std::nullopt, kFile, saved(state)).object_entry("lost");
  const Model model = read_well(b);
  EXPECT_EQ(test::metadata_of(model, "optim"), R"({"lr":0.5,"names":["a"]})");
  EXPECT_THAT(model.warnings, ElementsAre("object \"lost\": no place"));
}

TEST(Dcp, NamesThatRunCodeAreReported) {
  const PickleBuilder evil = PickleBuilder().call("posix", "system", PickleBuilder().text("id"));
  const auto dangers = [](const CheckpointBuilder& b) {
    const Model model = read_well(b);
    const auto* const names = model.common.find_as<std::string>("dangerous_globals");
    return names == nullptr ? "none" : *names;
  };
  EXPECT_EQ(dangers(CheckpointBuilder().entry("x", evil)), "posix.system");
  EXPECT_EQ(dangers(CheckpointBuilder().object_entry("x").stored("x", std::nullopt, kFile, saved(evil))),
            "posix.system");
  EXPECT_EQ(
      dangers(CheckpointBuilder().tensor("w", "uint8", {1}, {{{0}, {1}}}).stored("w", Sizes{0}, kFile, saved(evil))),
      "posix.system");
  const PickleBuilder other = PickleBuilder().global("builtins", "dict").text("TORCH_X");
  EXPECT_EQ(dangers(CheckpointBuilder().entry("x", PickleBuilder().call("builtins", "getattr", other))),
            "builtins.getattr");
  const PickleBuilder inner = PickleBuilder().global(kModule, "_MEM_FORMAT_ENCODING").text("__class__");
  EXPECT_EQ(dangers(CheckpointBuilder().entry("x", PickleBuilder().call("builtins", "getattr", inner))),
            "builtins.getattr");
}

TEST(Dcp, OtherPicklesAreRefused) {
  EXPECT_THAT(test::error_in(read(PickleBuilder().raw("}").pickle(), {})), HasSubstr("not a pickle of a Metadata"));
  const auto evil = PickleBuilder().call("posix", "system", PickleBuilder().text("id")).pickle();
  EXPECT_THAT(test::error_in(read(evil, {})), HasSubstr("posix.system, which can run code"));
  EXPECT_THAT(test::error_in(read(test::object(kModule, "Metadata", {}).pickle(), {})),
              HasSubstr("no state_dict_metadata"));
}

TEST(Dcp, IsDetectedByItsFirstName) {
  const auto match = [](const std::string& bytes) { return matches_dcp(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_dcp().metadata()), Match::yes);
  EXPECT_EQ(match("\x80\x04\x95........\x8c%torch.distributed.checkpoint.metadata\x94\x8c\x08Metadata\x94\x93"),
            Match::yes);
  EXPECT_EQ(match(test::object("torch.distributed._shard.checkpoint.metadata", "Metadata", {}).pickle()), Match::yes);
  EXPECT_EQ(match(test::object(kModule, "Other", {}).pickle()), Match::no);
  EXPECT_EQ(match(PickleBuilder().text("torch.distributed.checkpoint.metadata").pickle()), Match::no);
  EXPECT_EQ(match("torch.distributed.checkpoint.metadata\nMetadata"), Match::no);
}

TEST(Dcp, DirectoryIsOneModelByItsMetadata) {
  const auto entry = [](const std::string& metadata) {
    const Files files{{".metadata", metadata}, {kFile, "x"}};
    return model_entry_file({".metadata", kFile}, test::MemoryFolder(files)).value().value_or("none");
  };
  EXPECT_EQ(entry(small_dcp().metadata()), ".metadata");
  EXPECT_EQ(entry("text"), "none");
}

TEST(Dcp, ChunksAloneAreNoModel) {
  const std::string error = test::error_in(read_model({kFile, in_memory(saved("Byte", 1, {2}, "ab"))}));
  EXPECT_THAT(error, HasSubstr("open its directory"));
}

}  // namespace
}  // namespace weightfs::dcp_test
