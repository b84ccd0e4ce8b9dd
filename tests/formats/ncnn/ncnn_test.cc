#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/ncnn_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::ncnn_test {
namespace {

using namespace test::ncnn;
using test::error_in;
using test::Files;
using test::listing;
using test::metadata_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(const std::string& text, const std::string& weights) {
  const auto folder = std::make_shared<test::MemoryFolder>(Files{{"m.ncnn.bin", weights}});
  return read_as("ncnn", {"m.ncnn.param", in_memory(text), folder});
}

// The names and shapes of the arrays of one layer.
std::vector<std::string> arrays_of(const std::string& layer) {
  std::vector<std::string> lines;
  const Model model = well(read(param({layer}), std::string(100'000, '\0')));
  for (const TensorView& tensor : model.tensors) {
    std::string line(tensor.name.substr(2));
    for (const uint64_t size : tensor.shape) line += fmt::format(" {}", size);
    lines.push_back(tensor.source.refused() ? line + " refused" : line);
  }
  return lines;
}

TEST(Ncnn, LayersTellTheArraysOfTheWeights) {
  const Model model = well(read(small_param(), small_bin()));
  EXPECT_EQ(model.format, "ncnn");
  EXPECT_THAT(listing(model),
              ElementsAre("conv.weight float16 float16 [2x2x1x1] aabbccdd", "conv.bias float32 float32 [2] BIASbias",
                          "fc.weight int8 int8 [1x3] xyz", "p.slope float32 float32 [1] SLOP"));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(model.parts, SizeIs(2));
}

TEST(Ncnn, EndsAndOperatorsAreMetadata) {
  const Model model = well(read(small_param(), small_bin()));
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"a","shape":[2,3,4]}])");
  EXPECT_EQ(metadata_of(model, "outputs"), R"([{"name":"e"}])");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"Convolution":1,"InnerProduct":1,"Input":1,"PReLU":1,"ReLU":1})");
}

TEST(Ncnn, WeightsOfATableAreLookedUp) {
  std::string table;
  for (int i = 0; i < 256; ++i) table += fmt::format("{:04}", i);
  const Model model = well(read(param({"InnerProduct f 0 0 0=1 1=0 2=5"}), flagged(1, table + "\x02\x01\xFFzz\0\0\0")));
  const Slice source = model.tensors[0].source;
  EXPECT_EQ(model.tensors[0].dtype->name, "float32");
  EXPECT_EQ(test::text_of(source), "00020001025501220122");
  EXPECT_EQ(well(read_text(source, 6, 7)), "0102550");
}

TEST(Ncnn, EachTypeOfLayerHasItsArrays) {
  EXPECT_THAT(arrays_of("Convolution x 0 0 0=4 1=3 11=2 6=48 8=102"),
              ElementsAre("weight 4 2 2 3", "weight_int8_scales 4", "bottom_int8_scale 1", "top_int8_scale 1"));
  EXPECT_THAT(arrays_of("ConvolutionDepthWise x 0 0 0=4 1=1 6=4 7=4 8=1"),
              ElementsAre("weight 4 1 1 1", "weight_int8_scales 4", "bottom_int8_scale 1"));
  EXPECT_THAT(arrays_of("ConvolutionDepthWise x 0 0 0=4 1=1 6=4 7=4 8=2"),
              ElementsAre("weight 4 1 1 1", "weight_int8_scales 1", "bottom_int8_scale 1"));
  EXPECT_THAT(arrays_of("Convolution1D x 0 0 0=2 1=3 6=12"), ElementsAre("weight 2 2 3"));
  EXPECT_THAT(arrays_of("Convolution3D x 0 0 0=2 1=1 11=2 21=3 6=12"), ElementsAre("weight 2 1 3 2 1"));
  EXPECT_THAT(arrays_of("Convolution x 0 0 0=2 1=3 6=11"), ElementsAre("weight 11"));
  EXPECT_THAT(arrays_of("Convolution x 0 0 19=1"), IsEmpty());
  EXPECT_THAT(arrays_of("BatchNorm x 0 0 0=3"), ElementsAre("slope 3", "mean 3", "var 3", "bias 3"));
  EXPECT_THAT(arrays_of("Scale x 0 0 0=-233 1=1"), IsEmpty());
  EXPECT_THAT(arrays_of("Embed x 0 0 0=2 2=1 3=6 18=1"), ElementsAre("weight 3 2", "bias 2", "weight_int8_scale 1"));
  EXPECT_THAT(arrays_of("GroupNorm x 0 0 0=2 1=6"), ElementsAre("gamma 6", "beta 6"));
  EXPECT_THAT(arrays_of("LayerNorm x 0 0 0=6 2=0"), IsEmpty());
  EXPECT_THAT(arrays_of("RMSNorm x 0 0 0=6"), ElementsAre("gamma 6"));
  EXPECT_THAT(arrays_of("Requantize x 0 0 2=2"), ElementsAre("scale_in 1", "scale_out 1", "bias 2"));
  EXPECT_THAT(arrays_of("LSTM x 0 0 0=2 1=24 3=3"),
              ElementsAre("weight_xc 1 12 2", "bias_c 1 4 3", "weight_hc 1 12 2", "weight_hr 1 2 3"));
  EXPECT_THAT(arrays_of("RNN x 0 0 0=2 1=12 2=2 8=1"),
              ElementsAre("weight_xc 2 2 3", "bias_c 2 1 2", "weight_hc 2 2 2", "weight_xc_int8_scales 2 2",
                          "weight_hc_int8_scales 2 2"));
  EXPECT_THAT(arrays_of("Gemm x 0 0 2=1 4=1 5=1 6=1 7=2 8=3 9=4 10=3"), ElementsAre("A 4 2", "B 4 3", "C 2 3"));
  EXPECT_THAT(arrays_of("MemoryData x 0 0 0=2 1=3 11=4 2=5 21=0"), ElementsAre("data 5 4 3 2"));
  EXPECT_THAT(arrays_of("MultiHeadAttention x 0 0 0=2 1=1 2=6 3=4"),
              ElementsAre("q_weight 2 3", "q_bias 2", "k_weight 2 4", "k_bias 2", "v_weight 2 2", "v_bias 2",
                          "out_weight 3 2", "out_bias 3"));
}

TEST(Ncnn, ArraysBehindAnUnknownLayerAreRefused) {
  const Model model = well(read(param({"PReLU a 0 0 0=1", "Custom u 0 0", "PReLU b 0 0 0=1"}), "AAAABBBB"));
  EXPECT_THAT(listing(model), ElementsAre("a.slope float32 float32 [1] AAAA", "b.slope float32 float32 [1] refused"));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("behind the layer \"u\" of type \"Custom\"")));
}

TEST(Ncnn, WeightsOfAnUnknownLayerAreMissed) {
  const Model model = well(read(param({"PReLU a 0 0 0=1", "Custom u 0 0"}), "AAAABBBB"));
  EXPECT_THAT(listing(model), ElementsAre("a.slope float32 float32 [1] AAAA"));
  EXPECT_THAT(model.warnings,
              ElementsAre("4 bytes of weights are in or behind the layer \"u\" of type \"Custom\", which "
                          "may read any number of bytes"));
  EXPECT_EQ(model.lacks->missing_tensors, 1U);
  EXPECT_THAT(well(read(param({"PReLU a 0 0 0=1", "Custom u 0 0"}), "AAAA")).warnings, IsEmpty());
}

TEST(Ncnn, ArraysBehindOneThatIsCutAreRefused) {
  const Model model = well(read(param({"PReLU a 0 0 0=2", "PReLU b 0 0 0=1"}), "AAAA"));
  EXPECT_THAT(listing(model),
              ElementsAre("a.slope float32 float32 [2] refused", "b.slope float32 float32 [1] refused"));
  EXPECT_THAT(model.warnings,
              ElementsAre(HasSubstr("8 bytes needed at byte 0, 4 left"), HasSubstr("an array before it is refused")));
}

TEST(Ncnn, MissingWeightsAreOneWarning) {
  const Model model = well(read_as("ncnn", {"m.param", in_memory(small_param())}));
  EXPECT_THAT(model.tensors, SizeIs(4));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("\"m.bin\"")));
  EXPECT_EQ(model.lacks->by_code.at(static_cast<size_t>(Code::not_found)).count, 1U);
  EXPECT_THAT(well(read_as("ncnn", {"m.param", in_memory(param({"Custom u 0 0"}))})).warnings,
              ElementsAre(HasSubstr("\"m.bin\"")));
  EXPECT_THAT(well(read_as("ncnn", {"m.param", in_memory(param({"ReLU r 0 0"}))})).warnings, IsEmpty());
}

TEST(Ncnn, BytesBehindTheLastArrayAreAWarning) {
  EXPECT_THAT(well(read(small_param(), small_bin() + "tail")).warnings, ElementsAre("4 bytes behind the last array"));
}

// What a model lacks, as `info` prints it.
std::string lack_of(const std::string& text, const std::string& weights) {
  return to_sentence(completeness_of(well(read(text, weights))));
}

TEST(Ncnn, CutWeightsAreIncomplete) {
  const std::string text = param({"PReLU a 0 0 0=1", "InnerProduct b 0 0 0=1 2=3"});
  const std::string whole = "SLOP" + flagged(kInt8, std::string("xyz\0", 4));
  EXPECT_EQ(lack_of(text, whole), "");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(lack_of(text, whole.substr(0, size)), "") << size;
  EXPECT_EQ(lack_of(text, whole.substr(0, whole.size() - 1)), "the file ends 1 byte early; interrupted download?");
}

TEST(Ncnn, CutLayersAreRefusedOrIncomplete) {
  const std::string whole = param({"PReLU a 0 1 x 0=1", "ReLU b 1 1 x y -23301=2,1,2 0=0.1"});
  const std::string cut = "the model is incomplete: the last layer has no line break at its end: it may be cut";
  EXPECT_EQ(lack_of(whole, "SLOP"), "");
  for (size_t size = whole.find(" -2"); size < whole.size(); ++size)
    EXPECT_EQ(lack_of(whole.substr(0, size), "SLOP"), cut) << size;
  EXPECT_EQ(error_in(read(whole.substr(0, whole.find(" y -")), "SLOP")), "ncnn: layer 1: a name is missing");
  EXPECT_EQ(error_in(read(whole.substr(0, whole.find("ReLU b")), "SLOP")), "ncnn: 1 layers, 2 stated");
}

TEST(Ncnn, InvalidNetworksAreRefused) {
  const auto error = [](const std::string& text) { return error_in(read(text, "")); };
  EXPECT_EQ(error("7767518\n"), "ncnn: the first line is not 7767517");
  EXPECT_EQ(error("7767517\nmany\n"), "ncnn: the second line is not two numbers");
  EXPECT_EQ(error("7767517\n2000000000 1\n"), "ncnn: 2000000000 layers, 0 bytes left");
  EXPECT_EQ(error("7767517\n2 2\nReLU r 0 0\n"), "ncnn: 1 layers, 2 stated");
  EXPECT_EQ(error(param({"ReLU"})), "ncnn: layer 0: a name is missing");
  EXPECT_EQ(error(param({"ReLU r x 0"})), "ncnn: layer 0: the numbers of its blobs are missing");
  EXPECT_EQ(error(param({"ReLU r 4294967295 0 a"})), "ncnn: layer 0: a name is missing");
  EXPECT_EQ(error(param({"ReLU " + std::string(256, 'r') + " 0 0"})),
            "ncnn: layer 0: a name of 256 bytes, at most 255");
  EXPECT_EQ(error(param({"ReLU r 0 0 99=1"})), "ncnn: layer 0: parameter 99, 32 are possible");
  EXPECT_EQ(error(param({"ReLU r 0 0 -23332=1,1"})), "ncnn: layer 0: parameter 32, 32 are possible");
  EXPECT_EQ(error(param({"Convolution c 0 0 0=1 1=1 6=-5"})), "ncnn: layer \"c\": a size of -5");
  EXPECT_EQ(error(param({"BatchNorm c 0 0"})), "ncnn: layer \"c\": a size of 0");
}

TEST(Ncnn, IsDetectedByItsFirstLine) {
  EXPECT_EQ(matches_ncnn(test::probe_of(small_param())), Match::yes);
  EXPECT_EQ(matches_ncnn(test::probe_of("77675170\n")), Match::no);
}

}  // namespace
}  // namespace weightfs::ncnn_test
