// Seeds with graphs and programs: operators with options, instructions, parameters of programs in JSON.
#include <fmt/core.h>

#include <array>

#include "tests/builders/caffe_builder.h"
#include "tests/builders/coreml_builder.h"
#include "tests/builders/executorch_builder.h"
#include "tests/builders/openvino_builder.h"
#include "tests/builders/paddle_builder.h"
#include "tests/builders/tfjs_builder.h"
#include "tests/builders/tflite_builder.h"
#include "tests/fuzz/seeds.h"

namespace weightfs::test {

// Options of every operator: those of a few with values, those of the others as empty tables.
void add_tflite_options(Seeds& seeds) {
  using namespace tflite;
  const auto with_options = [](int slot, uint8_t number, std::map<int, Slot> fields) {
    return table({{slot, scalar(number)}, {slot + 1, table(std::move(fields))}});
  };
  const Ref sizes = list<int64_t>({1, -2});
  std::vector<Ref> calls = {
      with_options(3, 1, {{0, scalar(int8_t{1})}, {1, scalar(2)}, {3, scalar(int8_t{9})}, {6, scalar(int8_t{2})}}),
      with_options(3, 17, {{0, list<int32_t>({1, -1})}}),
      with_options(3, 111, {{0, text("c")}, {1, text("shared")}}),
      with_options(3, 115, {{0, list<float>({0.5F, 1e30F})}}),
      with_options(11, 4, {{0, sizes}, {4, list<uint8_t>({1, 0})}, {16, list<uint32_t>({2, 9})}}),
      with_options(11, 5, {{0, text("t")}, {4, list<int32_t>({1})}, {5, bytes_list("attributes")}}),
      table({{5, bytes_list("custom")}}),
      table({{9, scalar(uint64_t{8})}, {10, scalar(uint64_t{4})}})};
  for (uint8_t number = 2; number < 129; ++number) calls.push_back(with_options(3, number, {}));
  for (uint8_t number = 1; number < 26; ++number) calls.push_back(with_options(11, number, {}));
  seeds["tflite-options"] = file_of(model({subgraph({}, {{3, tables(calls)}})}, {empty_buffer()}));
}

// Every kind of value and of instruction.
void add_executorch(Seeds& seeds) {
  using namespace executorch;
  std::vector<Ref> values = {value(kFloat, {2, 3}, {1, 0}, 1, {{6, table({{1, scalar(64U)}})}}),
                             member(2, {{0, scalar(int64_t{-7})}}),
                             member(4, {{0, scalar(1e300)}}),
                             member(6, {{0, text("text")}}),
                             member(8, {{0, list<double>({0.5})}}),
                             member(9, {{0, list<uint8_t>({1, 0})}})};
  for (const uint8_t kind : std::to_array<uint8_t>({7, 10, 11}))
    values.push_back(member(kind, {{0, list<int32_t>({1, 0})}}));
  for (const uint8_t kind : std::to_array<uint8_t>({1, 3, 12})) values.push_back(member(kind, {}));
  const Ref calls = chain({kernel_call(0, {0, 1}), kernel_call(9, {}), delegate_call(-1, {2}),
                           member(3, {{0, scalar(1)}, {1, scalar(2)}}), member(4, {{0, scalar(1)}, {1, scalar(-1)}}),
                           member(5, {{0, scalar(3)}}), member(6, {})});
  const Ref add = table({{0, text("aten::add")}, {1, text("out")}});
  const Ref forward =
      method("f", values, {{5, tables({calls, calls})}, {6, tables({add})}, {8, list<int64_t>({0, 9})}});
  seeds["executorch-graph"] = pte({forward, forward}, {{4, tables({segment(0, 8)})}}, "segments");
}

// Programs in JSON beside the parameters.
void add_paddle(Seeds& seeds) {
  using namespace paddle;
  const auto beside = [](const std::string& program) { return with_files(small_paddle(), {{"m.json", program}}); };
  seeds["paddle/json"] = beside(json_program({"w", "b", "e/f"}));
  seeds["paddle/json-too-few"] = beside(json_program({"w", ""}));
  seeds["paddle/json-truncated"] = beside(json_program({"w", "b", "e/f"}).substr(0, 150));
  seeds["paddle/json-odd"] = beside(
      R"({"program":{"A":[{"A":[0,1,1,"x"],"#":"p"},[[0,1,1,"y"]],{"#":"p","A":[0,1,{"#":"p","A":[[],{},null,"z"]},"w"]},)"
      R"({"#":"p","#":"q","A":[0,1,1,7],"A":[0,1,1,"\ud800"]}]},"base_code":{"magic":"pir","magic":"other"}})");
  seeds["paddle/json-other"] = beside(R"([{"#":"p","A":[0,1,1,"x"]}])");
}

// Every type, wrong constants, old versions, and XML with declarations.
void add_openvino(Seeds& seeds) {
  using namespace openvino;
  const auto with_weights = [](const std::string& xml) { return with_files(xml, {{"m.bin", std::string(64, 'w')}}); };
  std::string types;
  for (const char* const type :
       {"f32",    "f64",    "f16",    "bf16", "i8", "u8",  "i16", "u16", "i32", "u32", "i64",    "u64",    "boolean",
        "f8e4m3", "f8e5m2", "f8e8m0", "i4",   "u4", "nf4", "u1",  "u2",  "u3",  "u6",  "f4e2m1", "string", "new"})
    types += constant(type, type, "3", "0", "24");
  seeds["openvino/types"] = with_weights(net(types));
  seeds["openvino/wrong"] =
      with_weights(net(constant("a", "f32", "-2", "0", "8") + constant("b", "f32", "2", "18446744073709551608", "8") +
                       constant("c", "f32", "4294967296,4294967296", "0", "0") + constant("d", "f32", "?", "x", "")));
  const std::string blobs =
      R"(<blobs><weights offset="0" size="8" precision="FP16"/><custom offset="8" size="4"/></blobs>)";
  seeds["openvino/old"] =
      with_weights(net(layer("0", "conv", "Convolution", blobs), "<meta_data><a value=''/></meta_data>", "7"));
  seeds["openvino/entities"] = with_weights(
      "<!DOCTYPE net [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><net version='11' name='&b;'>"
      "<layers/></net>");
  seeds["openvino/forms"] = with_weights(
      "\xEF\xBB\xBF<?xml version='1.0' encoding='latin1'?><!-- x --><!DOCTYPE net><net version='11'>"
      "<layers><![CDATA[x]]>&lt;&#252;</layers></net>");
}

// Layers of both old forms, values in pieces, and wrong blobs.
void add_caffe(Seeds& seeds) {
  using namespace caffe;
  ProtobufBuilder old, oldest, pieces = blob({3}, "0123");
  old.bytes(2, "x").bytes(3, "y").bytes(4, "fc").number(5, 14).message(6, blob({1}, "abcd").number(1, 1).number(4, 1));
  oldest.message(1, ProtobufBuilder().bytes(1, "conv").bytes(2, "conv").message(50, blob({1}, "efgh")));
  pieces.fixed32(5, 7).bytes(5, "4567");
  seeds["caffe/old"] = ProtobufBuilder().bytes(3, "x").number(4, 1).message(2, old).message(2, oldest).build();
  seeds["caffe/pieces"] = net({layer("w", "Scale", {"a"}, {"a"}, {pieces, blob({1}, "").bytes(8, "01234567")})});
  seeds["caffe/wrong"] = net({layer("w", "Scale", {}, {},
                                    {blob({~0ULL}, "0123"), blob({1ULL << 32, 1ULL << 32}, ""), blob({1}, "01234"),
                                     ProtobufBuilder().bytes(12, "x")})});
}

// Wrong manifests, and the manifest of old models.
void add_tfjs(Seeds& seeds) {
  using namespace tfjs;
  const auto with_weights = [](const std::string& json) { return with_files(json, {{"w.bin", "0123456789abcdef"}}); };
  seeds["tfjs/list"] = with_weights("[" + group(R"("w.bin","./w.bin")", weight("w", "int32", "2,3")) + "]");
  seeds["tfjs/wrong"] = with_weights(model_json(
      group(R"("w.bin","none","../x")", weight("s", "string", "9") + "," + weight("w", "new", "-1")) + "," +
          group(R"("w.bin")", weight("w", "float32", "1099511627776,1099511627776",
                                     R"(,"quantization":{"dtype":"uint16","min":null,"scale":[]})")),
      R"(,"signature":{"inputs":{"x":{"tensorShape":{"dim":[{},7,{"size":"-1"}]}}}},"userDefinedMetadata":[])"));
  seeds["tfjs/layers"] = with_weights(model_json(
      "", R"(,"modelTopology":{"model_config":{"config":{"layers":[{"class_name":"A"},[{"class_name":"B"}]]}}})"));
}

// A layer of each type with weights, and wrong weights.
void add_coreml_networks(Seeds& seeds) {
  using namespace coreml;
  std::vector<Message> layers;
  for (const uint32_t type :
       {100U, 140U, 150U, 160U, 245U, 250U, 290U, 400U, 410U, 1040U, 1045U, 1070U, 1350U, 1471U}) {
    Message parameters;
    for (const uint32_t number : {1U, 2U, 5U, 6U, 10U}) parameters.number(number, 1);
    for (const uint32_t weights : {2U, 3U, 4U, 8U, 9U, 15U, 20U, 30U, 50U, 60U, 70U, 90U})
      parameters.message(weights, floats("0123"));
    layers.push_back(layer("l", type, parameters));
  }
  const Message gates = Message().message(1, floats("0123")).message(60, quantised(3, "x"));
  layers.push_back(layer("lstm", 420, Message().number(1, 1).number(2, 1).message(20, gates)));
  layers.push_back(layer("both", 430, Message().number(2, 1).message(20, gates).message(20, gates)));
  layers.push_back(
      layer("custom", 500, Message().message(20, quantised(9, "x")).message(20, floats("0123").bytes(2, "hh"))));
  layers.push_back(layer("prelu", 130, Message().message(25, Message().message(1, floats("0123")))));
  seeds["coreml/layers"] = network_model(network(layers)).build();
  const Message body = network({layer("l", 250, Message().number(1, 1).message(2, floats("0123")))});
  seeds["coreml/loop"] =
      network_model(network({layer("loop", 615, Message().message(3, body).message(4, body))})).build();
}

}  // namespace weightfs::test
