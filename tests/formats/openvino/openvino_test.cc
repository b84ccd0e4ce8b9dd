#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "formats/openvino/xml.h"
#include "formats/summary/summary.h"
#include "tests/builders/openvino_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::openvino_test {
namespace {

using namespace test::openvino;
using test::error_in;
using test::Files;
using test::listing;
using test::metadata_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const std::string& structure, Files beside) {
  return read_as("openvino", {"m.xml", in_memory(structure), std::make_shared<test::MemoryFolder>(std::move(beside))});
}

Model read_well(const std::string& structure, const std::string& weights = "0123456789abcdef") {
  return test::well(read(structure, {{"m.bin", weights}}));
}

std::string error_of(const std::string& structure) { return error_in(read(structure, {{"m.bin", "01234567"}})); }

// The warning about the only constant.
std::string refusal_of(const std::string& constant) {
  const Model model = read_well(net(constant));
  if (model.warnings.size() != 1 || !model.tensors[0].source.refused()) return "not refused";
  return model.warnings[0];
}

TEST(OpenVino, ConstantsAreRangesOfTheWeights) {
  const Model model = read_well(small_openvino(), small_openvino_weights());
  EXPECT_EQ(model.version, "11");
  EXPECT_THAT(listing(model), ElementsAre("a/w float32 f32 [2] 01234567", "inner uint8 u8 [2] ab",
                                          "four int4 i4 [3] \x21\x03", "text string string [2] " + two_texts()));
  EXPECT_EQ(model.tensors[1].scope, "loop/body");
  EXPECT_THAT(model.warnings, SizeIs(0));
  EXPECT_THAT(model.parts, SizeIs(2));
  EXPECT_THAT(*test::well(model.per_tensor->strings.at(3).get()), ElementsAre("a", "bc"));
}

TEST(OpenVino, InputsOutputsAndMetadataAreShown) {
  const Model model = read_well(small_openvino(), small_openvino_weights());
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"x","dtype":"float32","shape":["?",3]}])");
  EXPECT_EQ(metadata_of(model, "outputs"), R"([{"name":"y","dtype":"float32","shape":["?",3]}])");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"Const":4,"Parameter":1,"ReLU":1,"Result":1,"TensorIterator":1})");
  EXPECT_EQ(metadata_of(model, "rt_info"), R"({"Runtime_version":"2025.1","model_info":{"labels":"cat dog"}})");
  EXPECT_EQ(metadata_of(model, "producer_version"), R"("2025.1")");
}

// An edge to an output that is not shown has no place to write to.
TEST(OpenVino, OutputsBeyondTheLongestListAreNotShown) {
  const std::string port = R"(<output><port id="0" precision="FP32" names="last"/></output>)";
  std::string layers = layer("source", "source", "ReLU", port);
  for (size_t i = 0; i <= kMaxInlineList; ++i)
    layers += layer(fmt::format("r{}", i), fmt::format("out{}", i), "Result");
  const auto edge = [](size_t to) {
    return fmt::format(R"(<edge from-layer="source" from-port="0" to-layer="r{}" to-port="0"/>)", to);
  };
  const Model model = read_well(net(layers, "<edges>" + edge(kMaxInlineList - 1) + edge(kMaxInlineList) + "</edges>"));
  const auto* const outputs = model.metadata.find_as<List>("outputs");
  ASSERT_NE(outputs, nullptr);
  ASSERT_THAT(*outputs, SizeIs(kMaxInlineList));
  EXPECT_THAT(to_json_line(outputs->front()), HasSubstr("out0"));
  EXPECT_THAT(to_json_line(outputs->back()), HasSubstr("last"));
}

TEST(OpenVino, NamesThatManyOutputsShareAreCharged) {
  const std::string port = fmt::format(R"(<output><port id="0" names="{}"/></output>)", std::string(1 << 20, 'n'));
  std::string layers = layer("s", "s", "ReLU", port), edges;
  for (int i = 0; i < 200; ++i) {
    layers += layer(fmt::format("r{}", i), "out", "Result");
    edges += fmt::format(R"(<edge from-layer="s" from-port="0" to-layer="r{}" to-port="0"/>)", i);
  }
  EXPECT_THAT(error_of(net(layers, "<edges>" + edges + "</edges>")), HasSubstr("the memory limit"));
}

TEST(OpenVino, LongScopesAreChargedForEachConstant) {
  std::string constants;
  for (int i = 0; i < 4'000; ++i) constants += constant("c", "u8", "1", "0", "1");
  const auto in_loop = [&](const std::string& name) {
    return net(layer("0", name, "Loop", "<body><layers>" + constants + "</layers></body>"));
  };
  EXPECT_THAT(error_of(in_loop(std::string(60'000, 'l'))), HasSubstr("the time limit"));
  EXPECT_THAT(read_well(in_loop("loop")).tensors, SizeIs(4'000));
}

TEST(OpenVino, TypesWithoutADtypeArePackedBytes) {
  const Model model = read_well(net(constant("a", "u1", "9", "0", "2") + constant("b", "nf4", "3", "1", "2") +
                                    constant("c", "u3", "3", "0", "3") + constant("d", "f4e2m1", "3", "0", "2") +
                                    constant("e", "new", "7", "0", "3")));
  EXPECT_THAT(listing(model), ElementsAre("a unknown u1 [9] 01", "b unknown nf4 [3] 12", "c unknown u3 [3] 01",
                                          "d float4_e2m1fn f4e2m1 [3] 01", "e unknown new [7] 012"));
}

TEST(OpenVino, WeightsOfOldVersionsAreFlat) {
  const std::string blobs =
      R"(<blobs><weights offset="0" size="8" precision="FP16"/><biases offset="8" size="4"/></blobs>)";
  const std::string dims = R"(<output><port id="1"><dim>1</dim><dim>2</dim></port></output>)"
                           R"(<blobs><custom offset="8" size="8"/></blobs>)";
  const Model model = read_well(net(layer("0", "conv", "Convolution", blobs, R"(precision="FP32")") +
                                        layer("1", "c", "Const", dims, R"(precision="FP32")"),
                                    "", "7"));
  EXPECT_THAT(listing(model), ElementsAre("conv.weights float16 FP16 [4] 01234567", "conv.biases float32 FP32 [1] 89ab",
                                          "c float32 FP32 [1x2] 89abcdef"));
}

TEST(OpenVino, ConstantsWithoutWeightsAreRefusedInOneLine) {
  const Model model =
      test::well(read(net(constant("a", "f32", "2", "0", "8") + constant("b", "f32", "2", "0", "8")), {}));
  EXPECT_THAT(model.warnings, ElementsAre("\"m.bin\": no such file; 2 tensors are refused"));
  EXPECT_TRUE(model.tensors[1].source.refused());
  EXPECT_THAT(test::well(read(net(layer("0", "x", "Parameter")), {})).warnings, SizeIs(0));
}

TEST(OpenVino, WrongConstantsAreRefused) {
  EXPECT_EQ(refusal_of(constant("w", "f32", "2", "18446744073709551608", "8")),
            "tensor \"w\": 8 bytes at 18446744073709551608, but \"m.bin\" has 16: refused");
  EXPECT_EQ(refusal_of(constant("w", "f32", "4", "0", "4")), "tensor \"w\": 4 bytes, its shape needs 16: refused");
  EXPECT_THAT(refusal_of(constant("w", "f32", "5", "0", "20")), HasSubstr("but \"m.bin\" has 16"));
  EXPECT_THAT(refusal_of(constant("w", "f32", "-2", "0", "8")), HasSubstr("dimension \"-2\" is not a number"));
  EXPECT_THAT(refusal_of(constant("w", "f32", "?", "0", "8")), HasSubstr("dimension \"?\""));
  EXPECT_THAT(refusal_of(constant("w", "f32", "2", "zero", "8")), HasSubstr("offset \"zero\" is not a number"));
  EXPECT_THAT(refusal_of(constant("w", "f32", "4294967296,4294967296", "0", "0")), HasSubstr("overflows"));
  EXPECT_THAT(refusal_of(constant("w", "nf4", "4611686018427387904", "0", "0")), HasSubstr("overflows"));
  EXPECT_THAT(refusal_of(constant("w", "", "2", "0", "8")), HasSubstr("no type"));
  EXPECT_THAT(refusal_of(layer("0", "w", "Const")), HasSubstr("dimension \"?\""));
}

TEST(OpenVino, OtherXmlIsRefused) {
  EXPECT_EQ(error_of("<project/>"), "openvino: XML with the root element \"project\", \"net\" expected");
  EXPECT_EQ(error_of("<net/>"), "openvino: no version of the format");
  EXPECT_EQ(error_of("<net version='11'/>"), "openvino: no layers");
  EXPECT_THAT(error_of("<net version='11'><layers>"), HasSubstr("not valid XML: no element found, line 1"));
  EXPECT_EQ(error_of(""), "openvino: not valid XML: no element found, line 1");
}

TEST(OpenVino, RepeatedElementsAreRefused) {
  const std::string data = R"(<data element_type="u8" shape="2" offset="0" size="2"/>)";
  const std::string why = "twice in an element, of which OpenVINO reads the first";
  EXPECT_EQ(error_of(net(layer("0", "w", "Const", data + data))), "openvino: <data> " + why);
  EXPECT_EQ(error_of(net("", "<layers/>")), "openvino: <layers> " + why);
  EXPECT_EQ(error_of(net(layer("0", "w", "Loop", "<body/><body/>"))), "openvino: <body> " + why);
  EXPECT_EQ(error_of(net(layer("0", "w", "Add", "<input/><input/>"))), "openvino: <input> " + why);
  EXPECT_THAT(error_of(net("<layer id='0' id='1'/>")), HasSubstr("duplicate attribute"));
  EXPECT_TRUE(read(net(layer("0", "w", "If", "<then_body/><else_body/>")), {}).has_value());
}

TEST(OpenVino, HostileXmlIsRefused) {
  const auto with_type = [](const std::string& declarations) {
    return error_of(fmt::format("<!DOCTYPE net [{}]><net name='&a;' version='11'><layers/></net>", declarations));
  };
  EXPECT_EQ(with_type("<!ENTITY a 'aaa'>"), "openvino: the XML declares entities");
  EXPECT_EQ(with_type("<!ENTITY a SYSTEM 'file:///etc/passwd'>"), "openvino: the XML declares entities");
  EXPECT_EQ(with_type("<!ENTITY % a 'x'>"), "openvino: the XML declares entities");
  EXPECT_EQ(with_type("<!ATTLIST layer x CDATA 'y'>"), "openvino: the XML declares attributes");
  std::string deep = "<net version='11'>";
  for (int i = 0; i < 200; ++i) deep += "<a>";
  EXPECT_EQ(error_of(deep), "openvino: elements nested deeper than 100");
  const std::string tag = "<net version='11'><a x='" + std::string(openvino::kMaxXmlTag + (2 << 20), 'x') + "'/>";
  EXPECT_EQ(error_of(tag + "</net>"),
            fmt::format("openvino: a tag or comment of more than {} bytes", openvino::kMaxXmlTag));
}

TEST(OpenVino, FormsOfXmlAreRead) {
  const std::string text =
      "\xEF\xBB\xBF<?xml version='1.0' encoding='UTF-8'?><!-- <net> --><?pi x?><!DOCTYPE net>\n"
      "<net name='n' version='10'><layers><layer id='0' name='&lt;&#252;&quot;' type='Const'>"
      "<data size='4' offset='0'\n shape='' element_type='f32'></data></layer></layers></net>";
  EXPECT_EQ(matches_openvino(test::probe_of(text)), Match::yes);
  EXPECT_THAT(listing(read_well(text)), ElementsAre("<\u00FC\" float32 f32 [] 0123"));
}

TEST(OpenVino, IsDetectedByItsRootElement) {
  const auto match = [](const std::string& text) { return matches_openvino(test::probe_of(text)); };
  EXPECT_EQ(match(small_openvino()), Match::yes);
  EXPECT_EQ(match("<net version='11'>"), Match::maybe);
  EXPECT_EQ(match("<network><layers/>"), Match::no);
  EXPECT_EQ(match("<!DOCTYPE html><html><net><layers>"), Match::no);
  EXPECT_EQ(match("<?xml"), Match::no);
}

TEST(OpenVino, ScalesAndZeroPointsAreNoParameters) {
  const Model model =
      read_well(net(constant("w", "u8", "2,2", "0", "4") + constant("w/zero_point", "u8", "2,1", "4", "2") +
                    constant("w/scale", "f16", "2,1", "6", "4") + constant("scale", "f16", "2", "10", "4")));
  EXPECT_EQ(summary::summarise(model).summary.parameters, 6U);
}

}  // namespace
}  // namespace weightfs::openvino_test
