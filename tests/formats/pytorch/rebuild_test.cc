// The functions that torch saves tensors of other devices, types and subclasses with: names, dtypes, bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/python_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::pytorch_rebuild_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A checkpoint with a dict of one value "w"; the storage "0" has these bytes.
Model read_one(const PickleBuilder& value, std::string_view data = "0123456789abcdef") {
  PytorchBuilder b;
  b.bytes(data);
  b.value("w", value);
  return well(read_model({"m.pt", in_memory(b.zip())}));
}

std::string fact(const Model& model, std::string_view key) {
  return json_at(std::get<Map>(*model.metadata.find("pytorch")), key);
}

PickleBuilder utils(std::string_view name, const PickleBuilder& arguments) {
  return PickleBuilder().call("torch._utils", name, arguments);
}

const PickleBuilder kPair = tensor_v2(storage("Byte", "0", 16), {{2}, {1}});

PickleBuilder tensor_v3(std::string_view dtype, const TensorLayout& layout, int64_t bytes) {
  PickleBuilder arguments = layout_arguments(storage("Untyped", "0", bytes), layout);
  return utils("_rebuild_tensor_v3", arguments.boolean(false).none().global("torch", dtype).raw("}"));
}

PickleBuilder parameter(PickleBuilder tensor) {
  return utils("_rebuild_parameter", tensor.boolean(true).call("collections", "OrderedDict", {}));
}

// _rebuild_from_type_v2: a function, a type, its arguments, the attributes.
PickleBuilder of_type(std::string_view function, const PickleBuilder& arguments, const PickleBuilder& attributes) {
  PickleBuilder given;
  given.global("torch._utils", function).global("torch", "Subclass").mark().add(arguments).tuple().add(attributes);
  return PickleBuilder().call("torch._tensor", "_rebuild_from_type_v2", given);
}

PickleBuilder device_array(std::string_view type, const std::vector<int64_t>& shape, std::string_view data,
                           std::string_view stated, std::string_view function = "_rebuild_device_tensor_from_numpy") {
  PickleBuilder arguments = array(type, shape, data);
  return utils(function, arguments.global("torch", stated).text("xla:0").boolean(false));
}

constexpr std::string_view kFloats("\0\0\x80\x3F\0\0\0\x40", 8);  // 1, 2

TEST(PytorchRebuild, PackedStorageCountsBytes) {
  for (const auto& [type, size, bytes] :
       {std::tuple{"QUInt4x2", 4, 2}, std::tuple{"QUInt2x4", 8, 2}, std::tuple{"QUInt4x2", 3, 2}}) {
    PickleBuilder arguments = layout_arguments(storage(type, "0", bytes), {{size}, {1}});
    arguments.mark().global("torch", "per_tensor_affine").real(0.5).integer(3).tuple().boolean(false).none();
    const Model model = read_one(utils("_rebuild_qtensor", arguments), "\x21\x43");
    EXPECT_EQ(text_of(model.tensors.at(0).source), "\x21\x43");
    EXPECT_THAT(model.warnings, IsEmpty());
  }
}

TEST(PytorchRebuild, ChannelsHaveScalesAsTensorsOrInLists) {
  const auto quantized = [](const PickleBuilder& scales, const PickleBuilder& zeros) {
    PickleBuilder arguments = layout_arguments(storage("QInt8", "0", 2), {{2}, {1}});
    arguments.mark().global("torch", "per_channel_affine_float_qparams").add(scales).add(zeros).integer(0).tuple();
    return utils("_rebuild_qtensor", arguments.boolean(false).none());
  };
  const PickleBuilder scale = tensor_v2(storage("Float", "0", 4), {{1}, {1}, 1});
  Model model = read_one(quantized(scale, scale));
  EXPECT_THAT(listing(model), ElementsAre("w int8 qint8 [2] 01", "w.scales float32 float32 [1] 4567",
                                          "w.zero_points float32 float32 [1] 4567"));
  EXPECT_THAT(model.warnings, IsEmpty());
  PickleBuilder numbers;
  model = read_one(quantized(numbers.mark().real(0.5).raw("l"), PickleBuilder().mark().integer(7).raw("l")));
  EXPECT_THAT(listing(model), ElementsAre("w int8 qint8 [2] 01"));
  EXPECT_THAT(fact(model, "quantized"), HasSubstr(R"("scales":[0.5],"zero_points":[7])"));
}

TEST(PytorchRebuild, TypesBelowAByteAreShownAsBytes) {
  for (const char* dtype : {"int1", "int4", "int7", "uint1", "uint3", "uint7", "bits8", "bits2x4"}) {
    const Model model = read_one(tensor_v3(dtype, {{2}, {1}, 1}, 16));
    EXPECT_THAT(listing(model), ElementsAre(fmt::format("w unknown {} [2] 12", dtype)));
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr(fmt::format("elements of type {} are shown as bytes", dtype))));
    EXPECT_TRUE(completeness_of(model).is_complete());
  }
}

TEST(PytorchRebuild, UnknownTypeIsShownAsBytesWhereItFillsItsStorage) {
  Model model = read_one(tensor_v3("float6_x", {{2, 4}, {4, 1}}, 16));
  EXPECT_THAT(listing(model), ElementsAre("w unknown float6_x [2x4] 0123456789abcdef"));
  EXPECT_TRUE(completeness_of(model).is_complete());
  for (const TensorLayout& part : {TensorLayout{{2}, {1}, 1}, {{2, 2}, {1, 2}}, {{5}, {1}}, {{0}, {1}}}) {
    model = read_one(tensor_v3("float6_x", part, 16));
    EXPECT_TRUE(model.tensors.is_refused(0));
    EXPECT_EQ(completeness_of(model).reason->code, Code::unsupported);
  }
}

TEST(PytorchRebuild, UntypedStorageWithoutDtypeHasBytes) {
  EXPECT_THAT(listing(read_one(tensor_v2(storage("Untyped", "0", 16), {{3}, {1}, 1}))),
              ElementsAre("w uint8 uint8 [3] 123"));
}

TEST(PytorchRebuild, ArraysOfOtherDevicesHaveTheStatedType) {
  const auto only = [](const PickleBuilder& value) { return listing(read_one(value)); };
  EXPECT_THAT(only(device_array("f4", {2}, kFloats, "float32")),
              ElementsAre("w float32 float32 [2] " + std::string(kFloats)));
  EXPECT_THAT(only(device_array("f4", {2}, kFloats, "bfloat16")),
              ElementsAre("w bfloat16 bfloat16 [2] " + std::string("\x80\x3F\0\x40", 4)));
  EXPECT_THAT(only(device_array("i1", {2}, "ab", "int8", "_rebuild_xla_tensor")), ElementsAre("w int8 int8 [2] ab"));
  EXPECT_THAT(only(parameter(device_array("f4", {1, 2}, kFloats, "bfloat16"))),
              ElementsAre("w bfloat16 bfloat16 [1x2] " + std::string("\x80\x3F\0\x40", 4)));
  PickleBuilder on_processor = kPair;
  on_processor.global("torch", "uint8").text("hpu").boolean(false);
  EXPECT_THAT(only(utils("_rebuild_device_tensor_from_cpu_tensor", on_processor)), ElementsAre("w uint8 uint8 [2] 01"));
}

TEST(PytorchRebuild, Bfloat16OfAnArrayIsRounded) {
  const auto rounded = [](std::string_view bits) {
    return text_of(read_one(device_array("f4", {1}, bits, "bfloat16")).tensors.at(0).source);
  };
  EXPECT_EQ(rounded(std::string_view("\0\x80\x80\x3F", 4)), "\x80\x3F");    // half: to the even one
  EXPECT_EQ(rounded(std::string_view("\0\x80\x81\x3F", 4)), "\x82\x3F");    // half: to the even one
  EXPECT_EQ(rounded(std::string_view("\x01\x80\x80\x3F", 4)), "\x81\x3F");  // above half
  EXPECT_EQ(rounded(std::string_view("\xFF\xFF\x7F\x7F", 4)), "\x80\x7F");  // to infinity
  EXPECT_EQ(rounded(std::string_view("\x01\0\x80\xFF", 4)), "\xC0\xFF");    // NaN stays one
  EXPECT_EQ(rounded(std::string_view("\0\0\x80\xFF", 4)), "\x80\xFF");      // -infinity
}

TEST(PytorchRebuild, LargeArrayIsRoundedInAnyPlace) {
  std::string floats;
  for (uint32_t i = 0; i < 10'000; ++i) floats += le(i << 16, 4);
  const Model model = read_one(device_array("f4", {10'000}, floats, "bfloat16"));
  const std::string all = text_of(model.tensors.at(0).source);
  ASSERT_EQ(all.size(), 20'000U);
  EXPECT_EQ(all.substr(2 * 9'999), le(9'999, 2));
  EXPECT_EQ(read_text(model.tensors.at(0).source, 8'191, 3).value(), all.substr(8'191, 3));
}

TEST(PytorchRebuild, OtherTypeThanTheArrayIsAWarning) {
  const Model model = read_one(device_array("i1", {2}, "ab", "float32"));
  EXPECT_THAT(model.warnings, Contains(HasSubstr("of which torch makes float32")));
  EXPECT_EQ(model.tensors.at(0).name, "w");
}

TEST(PytorchRebuild, DTensorIsItsLocalTensor) {
  PickleBuilder attributes;
  attributes.raw("}").text("_local_tensor").add(kPair).raw("s").text("_spec").none().raw("s");
  EXPECT_THAT(listing(read_one(of_type("_rebuild_wrapper_subclass", PickleBuilder().none(), attributes))),
              ElementsAre("w uint8 uint8 [2] 01"));
  EXPECT_THAT(listing(read_one(parameter(of_type("_rebuild_wrapper_subclass", PickleBuilder().none(), attributes)))),
              ElementsAre("w uint8 uint8 [2] 01"));
}

TEST(PytorchRebuild, OtherSubclassesAreTheirParts) {
  PickleBuilder attributes;
  attributes.raw("}").text("packed").add(kPair).raw("s").text("block").integer(32).raw("s");
  const Model model = read_one(of_type("_rebuild_wrapper_subclass", PickleBuilder().none(), attributes));
  EXPECT_THAT(listing(model), ElementsAre("w.packed uint8 uint8 [2] 01"));
  EXPECT_EQ(json_at(model.metadata, "w"), R"({"block":32})");
}

TEST(PytorchRebuild, NestedTensorsAreTheirParts) {
  PickleBuilder parts;
  EXPECT_THAT(listing(read_one(utils("_rebuild_nested_tensor", parts.add(kPair).add(kPair).add(kPair).add(kPair)))),
              ElementsAre("w.values uint8 uint8 [2] 01", "w.sizes uint8 uint8 [2] 01", "w.strides uint8 uint8 [2] 01",
                          "w.offsets uint8 uint8 [2] 01"));
  PickleBuilder dict;
  dict.raw("}").text("values").add(kPair).raw("s").text("lengths").none().raw("s");
  EXPECT_THAT(listing(read_one(PickleBuilder().call("torch.nested._internal.nested_tensor", "_rebuild_njt", dict))),
              ElementsAre("w.values uint8 uint8 [2] 01"));
}

// torch.ScriptObject: its state, and the name of its class; classes of TorchScript have the state alone.
TEST(PytorchRebuild, PackedWeightsAreNamedByTheirIndex) {
  PickleBuilder packed;
  packed.mark().add(kPair).add(kPair).tuple();
  PickleBuilder object;
  object.global("torch", "ScriptObject").raw(")\x81").mark().add(packed).text("__torch__.P").tuple().build();
  const auto names = ElementsAre("w.0 uint8 uint8 [2] 01", "w.1 uint8 uint8 [2] 01");
  EXPECT_THAT(listing(read_one(object)), names);
  PickleBuilder scripted;
  scripted.global("__torch__.torch.classes.quantized", "P").raw(")\x81").add(packed).build();
  EXPECT_THAT(listing(read_one(scripted)), names);
}

}  // namespace
}  // namespace weightfs::pytorch_rebuild_test
