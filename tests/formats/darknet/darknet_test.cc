#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/flat_formats.h"
#include "tests/builders/ncnn_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::darknet_test {
namespace {

using namespace test::darknet;
using test::error_in;
using test::Files;
using test::listing;
using test::metadata_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(std::string_view config, const std::string& weights, const std::string& name = "m.weights") {
  const auto folder = std::make_shared<test::MemoryFolder>(Files{{"m.cfg", std::string(config)}});
  return read_as("darknet", {name, in_memory(weights), folder});
}

// The names and shapes of the arrays that these sections have, with an input of 4 x 6 x 8.
std::vector<std::string> arrays_of(const std::string& sections, int minor = 2) {
  std::vector<std::string> lines;
  const std::string config = "[net]\nchannels=4\nheight=6\nwidth=8\n" + sections;
  const Model model = well(read(config, header(0, minor) + std::string(1'000'000, '\0')));
  for (const TensorView& tensor : model.tensors) {
    std::string line(tensor.name);
    for (const uint64_t size : tensor.shape) line += fmt::format(" {}", size);
    lines.push_back(line);
  }
  return lines;
}

// The number of inputs of a connected layer behind these sections.
std::string size_behind(const std::string& sections) {
  const std::vector<std::string> arrays = arrays_of(sections + "\n[connected]\n");
  return arrays.empty() ? "" : arrays.back().substr(arrays.back().rfind(' ') + 1);
}

TEST(Darknet, ConfigurationTellsTheArrays) {
  const Model model = well(read(kSmallConfig, small_weights()));
  EXPECT_EQ(model.format, "darknet");
  EXPECT_EQ(model.version, "0.2.0");
  EXPECT_THAT(
      listing(model),
      ElementsAre("0.biases float32 float32 [2] bia0bia1", "0.scales float32 float32 [2] sca0sca1",
                  "0.rolling_mean float32 float32 [2] mea0mea1", "0.rolling_variance float32 float32 [2] var0var1",
                  "0.weights float32 float32 [2x1x1x1] wei0wei1", "2.biases float32 float32 [1] BIAS",
                  "2.weights float32 float32 [1x2] WEI0WEI1"));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(metadata_of(model, "seen"), "7");
  EXPECT_EQ(metadata_of(model, "net"), R"({"width":"2","height":"2","channels":"1"})");
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"input","dtype":"float32","shape":[1,2,2]}])");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"connected":1,"convolutional":1,"maxpool":1,"softmax":1})");
}

TEST(Darknet, LayersChangeTheSizeOfTheNext) {
  EXPECT_EQ(size_behind(""), "192");
  EXPECT_EQ(size_behind("[convolutional]\nfilters=2\nsize=3\npad=1\nstride=2"), "24");
  EXPECT_EQ(size_behind("[convolutional]\nfilters=2\nsize=3\npadding=0"), "48");
  EXPECT_EQ(size_behind("[deconvolutional]\nfilters=1\nsize=2\nstride=2"), "192");
  EXPECT_EQ(size_behind("[maxpool]\nstride=2"), "48");
  EXPECT_EQ(size_behind("[maxpool]\nsize=3\nstride=1\npadding=0"), "96");
  EXPECT_EQ(size_behind("[avgpool]"), "4");
  EXPECT_EQ(size_behind("[upsample]\nstride=2"), "768");
  EXPECT_EQ(size_behind("[reorg]\nstride=2"), "192");
  EXPECT_EQ(size_behind("[crop]\ncrop_width=2\ncrop_height=2"), "16");
  EXPECT_EQ(size_behind("[avgpool]\n[route]\nlayers=-1"), "4");
  EXPECT_EQ(size_behind("[dropout]\n[yolo]\n[route]\nlayers = 0, -1\ngroups=4"), "96");
}

TEST(Darknet, EachTypeOfLayerHasItsArrays) {
  EXPECT_THAT(arrays_of("[convolutional]\ngroups=2\nfilters=6\nsize=3"),
              ElementsAre("0.biases 6", "0.weights 6 2 3 3"));
  EXPECT_THAT(arrays_of("[convolutional]\nshare_index=0\n[convolutional]\ndontload=1\n[batchnorm]"),
              ElementsAre("2.scales 1", "2.rolling_mean 1", "2.rolling_variance 1"));
  EXPECT_THAT(arrays_of("[connected]\noutput=2\nbatch_normalize=1"),
              ElementsAre("0.biases 2", "0.weights 2 192", "0.scales 2", "0.rolling_mean 2", "0.rolling_variance 2"));
  EXPECT_THAT(arrays_of("[local]\nsize=3\nfilters=2\npad=1"), ElementsAre("0.biases 96", "0.weights 48 2 4 3 3"));
  EXPECT_THAT(arrays_of("[avgpool]\n[rnn]\noutput=3"),
              ElementsAre("1.input_layer.biases 3", "1.input_layer.weights 3 4", "1.self_layer.biases 3",
                          "1.self_layer.weights 3 3", "1.output_layer.biases 3", "1.output_layer.weights 3 3"));
  EXPECT_THAT(arrays_of("[avgpool]\n[gru]\noutput=3"), SizeIs(12));
  EXPECT_EQ(arrays_of("[avgpool]\n[lstm]\noutput=3")[3], "1.wf.weights 3 4");
  EXPECT_EQ(arrays_of("[crnn]\nhidden_filters=2\noutput_filters=5")[5], "0.output_layer.weights 5 2 3 3");
}

TEST(Darknet, TransposedWeightsAreGathered) {
  const std::string config = "[net]\nchannels=2\n[connected]\noutput=2\n";
  const auto weights = [&](int minor) {
    return listing(well(read(config, header(0, minor) + "biasBIAS" + "aaaabbbbccccdddd"))).at(1);
  };
  EXPECT_EQ(weights(2), "0.weights float32 float32 [2x2] aaaabbbbccccdddd");
  EXPECT_EQ(weights(1001), "0.weights float32 float32 [2x2] aaaaccccbbbbdddd");
}

TEST(Darknet, OldVersionsHaveAShortHeader) {
  EXPECT_EQ(listing(well(read(kSmallConfig, header(0, 1) + small_weights().substr(20))))[0],
            "0.biases float32 float32 [2] bia0bia1");
}

TEST(Darknet, ArraysBehindTheEndAreRefused) {
  const Model model = well(read(kSmallConfig, small_weights().substr(0, 56), "m.conv.1"));
  EXPECT_EQ(listing(model)[4], "0.weights float32 float32 [2x1x1x1] refused");
  EXPECT_EQ(listing(model)[5], "2.biases float32 float32 [1] refused");
  EXPECT_THAT(model.warnings[0], HasSubstr("8 bytes needed at byte 52"));
}

// What a model lacks, as `info` prints it.
std::string lack_of(std::string_view config, const std::string& weights) {
  return to_sentence(completeness_of(well(read(config, weights))));
}

TEST(Darknet, CutWeightsAreIncomplete) {
  const std::string whole = small_weights();
  EXPECT_EQ(lack_of(kSmallConfig, whole), "");
  for (size_t size = header().size(); size < whole.size(); ++size)
    EXPECT_THAT(lack_of(kSmallConfig, whole.substr(0, size)), HasSubstr("tensors cannot be read")) << size;
}

TEST(Darknet, LastLineOfAConfigurationMayLackItsBreak) {
  std::string config(kSmallConfig);
  config.pop_back();
  EXPECT_EQ(lack_of(config, small_weights()), "");
}

TEST(Darknet, CutConfigurationsWithBytesOfFurtherLayersAreIncomplete) {
  std::string config(kSmallConfig);
  config.resize(config.find("de=2"));
  EXPECT_EQ(lack_of(config, small_weights()),
            "the model is incomplete: 12 bytes behind the last array, and the configuration ends within a line");
  config.resize(config.find("stri"));
  EXPECT_EQ(lack_of(config, small_weights()), "");
}

TEST(Darknet, UnknownSectionsEndTheList) {
  const Model model =
      well(read("[net]\n[convolutional]\n[conv_lstm]\n[convolutional]\n", header() + std::string(100, '\0')));
  EXPECT_THAT(model.tensors, SizeIs(2));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("behind the section [conv_lstm]")));
}

TEST(Darknet, InvalidConfigurationsAreRefused) {
  const auto error = [](const std::string& config) { return error_in(read(config, header())); };
  EXPECT_EQ(error("[convolutional]\n"), "darknet: \"m.cfg\": it does not begin with the section [net]");
  EXPECT_EQ(error("a=b\n"), "darknet: \"m.cfg\": \"a=b\" before a section");
  EXPECT_EQ(error("[net]\n[convolutional]\nfilters=2000000000\n"),
            "darknet: section 0: [convolutional]: filters=2000000000, a size expected");
  EXPECT_EQ(error("[net]\n[convolutional]\nfilters=x\n"),
            "darknet: section 0: [convolutional]: filters=\"x\", an integer expected");
  EXPECT_EQ(error("[net]\n[convolutional]\nsize=0\n"), "darknet: section 0: [convolutional]: size=0, a size expected");
  EXPECT_EQ(error("[net]\n[route]\nlayers=5\n"), "darknet: section 0: refers to the layer \"5\", there are 0 before");
  EXPECT_EQ(error("[net]\n[dropout]\n[shortcut]\nfrom=-2\n"),
            "darknet: section 1: refers to the layer \"-2\", there are 1 before");
  EXPECT_EQ(error("[net]\n[convolutional]\nsize=3\n"), "darknet: section 0: an output of 1 x -1 x -1");
  EXPECT_EQ(error("[net]\nwidth=2\nheight=3\nchannels=16777216\n[reorg]\nstride=16777216\n"),
            "darknet: section 0: stride=16777216 is above the input of 3 x 2");
  EXPECT_EQ(error("[net]\nwidth=2\nheight=3\n[reorg]\nstride=3\n"),
            "darknet: section 0: stride=3 is above the input of 3 x 2");
  EXPECT_THAT(error("[net]\nwidth=16777216\nheight=16777216\nchannels=16777216\n"), HasSubstr("too many numbers"));
  EXPECT_THAT(error_in(read_as("darknet", {"m.weights", in_memory(small_weights())})),
              HasSubstr("the configuration \"m.cfg\""));
}

TEST(Darknet, IsDetectedByItsNameAndVersion) {
  const auto match = [](const std::string& name, const std::string& bytes) {
    return matches_darknet({name, bytes, bytes, bytes.size()});
  };
  EXPECT_EQ(match("m.weights", small_weights()), Match::maybe);
  EXPECT_EQ(match("m.conv.81", small_weights()), Match::maybe);
  EXPECT_EQ(match("m.bin", small_weights()), Match::no);
  EXPECT_EQ(match("m.weights", "\x89HDF\r\n\x1A\n12345678"), Match::no);
  EXPECT_EQ(match("m.weights", "short"), Match::no);
}

}  // namespace
}  // namespace weightfs::darknet_test
