#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/coreml/layers.h"
#include "formats/format.h"
#include "tests/builders/coreml_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::coreml_network_test {
namespace {

using namespace test::coreml;
using test::listing;
using test::metadata_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Model read_well(const std::string& bytes) {
  return test::well(read_as("coreml", {"m.mlmodel", in_memory(bytes), nullptr}));
}

Model with_layer(uint32_t type, const Message& parameters) {
  return read_well(network_model(network({layer("l", type, parameters)})).build());
}

// The one tensor of an inner product of one output and one input, or the warning.
std::string outcome(const Message& weights, uint64_t inputs = 1) {
  const Model read = with_layer(140, Message().number(1, inputs).number(2, 1).message(20, weights));
  return read.warnings.empty() ? listing(read).at(0) : read.warnings[0];
}

TEST(CoreMlNetwork, WeightsOfLayersAreTensors) {
  const Model read = read_well(small_network());
  EXPECT_THAT(listing(read), ElementsAre("fc.weights uint8 rawValue [1x2] wx", "fc.bias float32 floatValue [1] abcd",
                                         "b.bias float32 floatValue [1] 0123"));
  EXPECT_EQ(read.tensors[2].scope, "if/if");
  EXPECT_THAT(read.warnings, IsEmpty());
  EXPECT_EQ(metadata_of(read, "class_labels"), R"(["cat","dog"])");
  EXPECT_EQ(metadata_of(read, "operators"), R"({"bias":1,"branch":1,"innerProduct":1})");
  EXPECT_EQ(metadata_of(read, "quantization"), R"([{"name":"fc.weights","bits":8,"scale":[2.0],"bias":[2.0]}])");
  ASSERT_EQ(read.per_tensor->affine_numbers.size(), 1U);
  EXPECT_EQ(read.per_tensor->affine_numbers.at(0).scale, 2);
  EXPECT_EQ(read.per_tensor->affine_numbers.at(0).offset, 2);
}

TEST(CoreMlNetwork, ShapesFollowFromTheParameters) {
  const auto shape = [](uint32_t type, const Message& parameters) {
    const std::string line = listing(with_layer(type, parameters)).at(0);
    return line.substr(line.find('['), line.find(']') - line.find('[') + 1);
  };
  Message convolution = Message().number(1, 2).number(2, 1).number(10, 2).bytes(20, "\1\3").bytes(90, "");
  convolution.message(90, floats(std::string(24, 'w')));
  EXPECT_EQ(shape(100, convolution), "[2x1x1x3]");
  EXPECT_EQ(shape(100, convolution.number(60, 1)), "[1x1x1x3]");
  EXPECT_EQ(shape(100, Message().number(1, 1).number(2, 1).message(90, floats(std::string(36, 'w')))), "[1x1x3x3]");
  EXPECT_EQ(shape(245, Message().bytes(1, "\2\1").message(2, floats("01234567"))), "[2x1]");
  EXPECT_EQ(shape(130, Message().message(25, Message().message(1, floats("01234567")))), "[2]");
  EXPECT_EQ(shape(1045, Message().number(5, 1).number(6, 2).message(8, floats("01234567"))), "[1x2]");
}

TEST(CoreMlNetwork, SetsOfWeightsAreNumbered) {
  const Message gate = Message().message(40, floats("0123"));
  const Model lstm = with_layer(430, Message().number(1, 1).number(2, 1).message(20, gate).message(20, gate));
  EXPECT_EQ(lstm.tensors[1].name, "l.1.inputGateBiasVector");
  EXPECT_EQ(with_layer(420, Message().number(2, 1).message(20, gate)).tensors[0].name, "l.inputGateBiasVector");
  const Message three = Message().message(20, gate).message(20, gate).message(20, gate);
  const auto refused =
      read_as("coreml", {"m.mlmodel", in_memory(network_model(network({layer("l", 430, three)})).build())});
  EXPECT_THAT(test::error_in(refused), HasSubstr("more than two sets of weights"));
  const Model custom = with_layer(500, Message().message(20, floats("0123")).message(20, floats("01234567")));
  EXPECT_THAT(listing(custom),
              ElementsAre("l.weights.0 float32 floatValue [1] 0123", "l.weights.1 float32 floatValue [2] 01234567"));
}

TEST(CoreMlNetwork, FormsOfValuesAreRead) {
  EXPECT_EQ(outcome(Message().bytes(2, "hh")), "l.weights float16 float16Value [1x1] hh");
  EXPECT_EQ(outcome(Message().bytes(31, "i")), "l.weights int8 int8RawValue [1x1] i");
  EXPECT_EQ(outcome(quantised(4, "pq"), 3), "l.weights unknown rawValue [1x3] pq");
  EXPECT_EQ(outcome(Message().fixed32(1, 0x33323130)), "l.weights float32 floatValue [1x1] 0123");
}

TEST(CoreMlNetwork, WrongWeightsAreRefused) {
  EXPECT_THAT(outcome(floats("0123"), 2), HasSubstr("tensor \"l.weights\": 4 bytes of packed and 0 single numbers"));
  EXPECT_THAT(outcome(floats("0123").bytes(2, "hh")), HasSubstr("values of 2 forms"));
  EXPECT_THAT(outcome(quantised(9, "x")), HasSubstr("numbers of 9 bits"));
  EXPECT_THAT(outcome(quantised(4, "xyz")), HasSubstr("3 bytes of values, 1 needed"));
  EXPECT_THAT(outcome(floats("0123"), 1ULL << 62), HasSubstr("overflows"));
  EXPECT_THAT(with_layer(245, Message().number(1, UINT64_MAX).message(2, floats("0123"))).warnings,
              ElementsAre(HasSubstr("dimension -1")));
}

TEST(CoreMlNetwork, LayersWithoutValuesHaveNoTensors) {
  EXPECT_THAT(with_layer(140, Message().message(21, Message().number(50, 1))).tensors, IsEmpty());
  EXPECT_EQ(metadata_of(with_layer(999, Message()), "operators"), R"({"layer 999":1})");
  EXPECT_EQ(coreml::layer_name(1471), "convolution3d");
}

TEST(CoreMlNetwork, RegressorsAndPipelinesAreRead) {
  const Message inner = network({layer("l", 250, Message().number(1, 1).message(2, floats("0123")))});
  EXPECT_THAT(read_well(network_model(inner, 303).build()).tensors, SizeIs(1));
  const Message each = network_model(inner);
  const Model pipeline =
      read_well(Message().number(1, 4).message(202, Message().message(1, each).message(1, each)).build());
  ASSERT_THAT(pipeline.tensors, SizeIs(2));
  EXPECT_EQ(pipeline.tensors[1].scope, "1");
}

}  // namespace
}  // namespace weightfs::coreml_network_test
