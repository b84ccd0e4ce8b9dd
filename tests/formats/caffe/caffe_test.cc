#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/caffe/net.h"
#include "formats/format.h"
#include "tests/builders/caffe_builder.h"
#include "tests/support/counted_source.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::caffe_test {
namespace {

using namespace test::caffe;
using test::error_in;
using test::listing;
using test::metadata_of;
using test::ProtobufBuilder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const std::string& bytes, test::Files beside = {}) {
  return read_as("caffe", {"m.caffemodel", in_memory(bytes), std::make_shared<test::MemoryFolder>(std::move(beside))});
}

Model read_well(const std::string& bytes) { return test::well(read(bytes)); }

Model with_blob(const ProtobufBuilder& blob) { return read_well(net({layer("w", "Scale", {}, {}, {blob})})); }

// The warning about the only blob.
std::string refusal_of(const ProtobufBuilder& blob) {
  const Model model = with_blob(blob);
  if (model.warnings.size() != 1 || !model.tensors[0].source.refused()) return "not refused";
  return model.warnings[0];
}

TEST(Caffe, BlobsAreNumberedInTheirLayer) {
  const Model model = test::well(read(small_caffe(), {{"m.prototxt", "name: \"tiny\""}}));
  EXPECT_EQ(model.format, "caffe");
  EXPECT_THAT(listing(model), ElementsAre("a/conv.0 float32 float [2x1] 01234567", "a/conv.1 float32 float [1] abcd"));
  EXPECT_THAT(model.warnings, SizeIs(0));
  EXPECT_THAT(model.parts, SizeIs(2));
}

TEST(Caffe, StructureThatMayBeReadLaterIsAnError) {
  const auto read_with = [](Code code) {
    const auto folder = std::make_shared<test::MemoryFolder>(test::Files{}, "m.prototxt", code);
    return read_as("caffe", {"m.caffemodel", in_memory(small_caffe()), folder});
  };
  EXPECT_THAT(test::well(read_with(Code::io)).parts, SizeIs(1));
  const auto later = read_with(Code::network);
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, Code::network);
}

TEST(Caffe, GraphHasAValuePerLayer) {
  const Model model = read_well(small_caffe());
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"data","shape":[1,3]}])");
  EXPECT_EQ(metadata_of(model, "outputs"), R"([{"name":"conv"}])");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"Convolution":1,"Input":1,"ReLU":1})");
  ASSERT_THAT(model.documents, SizeIs(1));
  const std::string graph = test::text_of(*test::well(model.documents[0].source.get()));
  EXPECT_THAT(graph, HasSubstr(R"x({"name":"relu","op_type":"ReLU","inputs":["conv"],"outputs":["conv (relu)"]})x"));
  EXPECT_THAT(graph, HasSubstr(R"x("outputs":[{"name":"conv (relu)"}])x"));
}

TEST(Caffe, InputsOfOldNetworksHaveFourDimensions) {
  ProtobufBuilder old;
  old.bytes(3, "data");
  for (const uint64_t size : {1U, 3U, 8U, 8U}) old.number(4, size);
  const Model model = read_well(old.message(100, layer("a", "ReLU", {"data"}, {"b"})).build());
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"data","shape":[1,3,8,8]}])");
}

TEST(Caffe, LayersOfBothOldFormsAreRead) {
  ProtobufBuilder old, oldest;
  old.bytes(2, "x").bytes(3, "y").bytes(4, "fc").number(5, 14).message(6, blob({1}, "abcd"));
  oldest.message(1, ProtobufBuilder().bytes(1, "conv").bytes(2, "conv").message(50, blob({1}, "efgh")));
  const Model model = read_well(ProtobufBuilder().message(2, old).message(2, oldest).build());
  EXPECT_THAT(listing(model), ElementsAre("fc.0 float32 float [1] abcd", "conv.0 float32 float [1] efgh"));
  EXPECT_EQ(metadata_of(model, "operators"), R"({"INNER_PRODUCT":1,"conv":1})");
  EXPECT_EQ(caffe::old_type_name(39), "DECONVOLUTION");
  EXPECT_EQ(caffe::old_type_name(40), "type 40");
}

TEST(Caffe, FourOldDimensionsWinOverAShape) {
  const Model model = with_blob(blob({4}, "0123").number(1, 1).number(2, 1).number(3, 1).number(4, 1));
  EXPECT_THAT(listing(model), ElementsAre("w.0 float32 float [1x1x1x1] 0123"));
  EXPECT_THAT(listing(with_blob(blob({4}, "").number(3, 2))), ElementsAre("w.0 float32 float [0x0x2x0] "));
}

TEST(Caffe, NumbersInSeveralPiecesAreJoined) {
  ProtobufBuilder pieces = blob({3}, "0123");
  pieces.fixed32(5, 0x64636261).bytes(5, "4567");
  EXPECT_THAT(listing(with_blob(pieces)), ElementsAre("w.0 float32 float [3] 0123abcd4567"));
  ProtobufBuilder doubles = blob({1}, "0123");
  EXPECT_THAT(listing(with_blob(doubles.bytes(8, "01234567"))), ElementsAre("w.0 float64 double [1] 01234567"));
}

TEST(Caffe, ValuesOfAForkAreUnknown) {
  const ProtobufBuilder half = ProtobufBuilder().message(7, ProtobufBuilder().bytes(1, packed({2}))).bytes(12, "0123");
  EXPECT_THAT(listing(with_blob(half)), ElementsAre("w.0 unknown raw [2] 0123"));
}

TEST(Caffe, WrongBlobsAreRefused) {
  EXPECT_THAT(refusal_of(blob({2}, "0123")), HasSubstr("4 bytes of packed and 0 single numbers, 2 numbers needed"));
  EXPECT_THAT(refusal_of(blob({1}, "01234")), HasSubstr("5 bytes of packed"));
  EXPECT_THAT(refusal_of(ProtobufBuilder().message(7, ProtobufBuilder().number(1, 3))), HasSubstr("no data"));
  EXPECT_THAT(refusal_of(blob({UINT64_MAX - 1}, "0123")), HasSubstr("dimension -2"));
  EXPECT_THAT(refusal_of(blob({1ULL << 32, 1ULL << 32}, "")), HasSubstr("overflows"));
  EXPECT_THAT(refusal_of(blob({1}, "0123").number(1, UINT64_MAX)), HasSubstr("dimension -1"));
}

// The name of a layer is in that of a value which it replaces: inputs of one byte refer to it.
TEST(Caffe, LongNamesOfValuesAreChargedForEachUse) {
  const std::vector<std::string> inputs(2'000, "x");
  const std::string bytes = net({layer("a", "ReLU", {}, {"x"}), layer(std::string(65'000, 'n'), "ReLU", {}, {"x"}),
                                 layer("b", "Concat", inputs, {"y"})});
  EXPECT_THAT(error_in(read(bytes)), HasSubstr("the memory limit"));
}

TEST(Caffe, LongNamesOfLayersAreChargedForEachOutput) {
  const std::vector<std::string> outputs(500, "x");
  EXPECT_THAT(error_in(read(net({layer(std::string(65'000, 'n'), "Split", {}, outputs)}))),
              HasSubstr("the memory limit"));
}

TEST(Caffe, MalformedFilesAreRefused) {
  EXPECT_EQ(error_in(read(net({}))), "caffe: no layer with a name and a type");
  EXPECT_EQ(error_in(read(net({ProtobufBuilder().bytes(1, "only a name")}))), "caffe: no layer with a name and a type");
  EXPECT_THAT(error_in(read("\xA2\x06\x7F")), HasSubstr("caffe: protobuf: "));
}

TEST(Caffe, IsDetectedByItsFirstLayer) {
  const auto match = [](const std::string& bytes, const char* name = "m") {
    return matches_caffe(test::probe_of(bytes, name));
  };
  EXPECT_EQ(match(small_caffe()), Match::maybe);
  EXPECT_EQ(match(ProtobufBuilder().message(2, ProtobufBuilder().bytes(4, "fc").number(5, 14)).build()), Match::maybe);
  EXPECT_EQ(match(ProtobufBuilder().message(100, ProtobufBuilder().bytes(2, "type")).build()), Match::no);
  EXPECT_EQ(match(ProtobufBuilder().bytes(1, "name").number(2, 7).build()), Match::no);
  EXPECT_EQ(match("", "net.caffemodel"), Match::maybe);
  // A length that is beyond the end of its layer.
  EXPECT_EQ(match("\xA2\x06\x01\x7A\xF5\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"), Match::no);
}

TEST(Caffe, ValuesAreNotReadToListTensors) {
  const std::string values(1 << 20, 'v');
  const std::string bytes = net({layer("w", "Scale", {}, {}, {blob({1 << 18}, values)})});
  const auto source = std::make_shared<test::CountedSource>(bytes);
  EXPECT_EQ(test::well(read_as("caffe", {"m.caffemodel", source, nullptr})).tensors.size(), 1U);
  EXPECT_LT(source->bytes_read, 100'000U);
}

}  // namespace
}  // namespace weightfs::caffe_test
