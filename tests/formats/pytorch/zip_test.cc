// Checkpoints in zips: names, tensors, metadata, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/text.h"
#include "formats/format.h"
#include "formats/verify.h"
#include "tests/builders/pickle_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::pytorch_zip_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(std::string bytes) { return read_model({"m.pt", in_memory(std::move(bytes))}); }

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }

std::string fact(const Model& model, std::string_view key) {
  return json_at(std::get<Map>(*model.metadata.find("pytorch")), key);
}

// A checkpoint whose object is `object`; the storage "0" has 16 bytes.
std::string checkpoint(const PickleBuilder& object, std::string_view data = "0123456789abcdef") {
  PytorchBuilder b;
  b.bytes(data);
  return b.members_of(object.pickle()).build();
}

// A checkpoint with a dict of one tensor "w", which these opcodes make.
std::string checkpoint_of(const PickleBuilder& tensor, std::string_view data = "0123456789abcdef") {
  return checkpoint(PickleBuilder().raw("}").text("w").add(tensor).raw("s"), data);
}

const PickleBuilder kFour = storage("Int", "0", 4);

std::string refusal(const PickleBuilder& tensor) {
  const Model model = read_well(checkpoint_of(tensor));
  EXPECT_THAT(model.tensors, SizeIs(1));
  EXPECT_TRUE(model.tensors.at(0).source.refused());
  return model.warnings.empty() ? "no warning" : model.warnings.back();
}

TEST(PytorchZip, WrongBytesOfThePickleAreFound) {
  std::string bytes = small_checkpoint().zip();
  bytes.replace(bytes.find("half"), 4, "hall");
  const Model model = read_well(bytes);
  const auto compared = compare_files_of_tensors(model, std::array<size_t, 1>{0});
  ASSERT_FALSE(compared);
  EXPECT_EQ(compared.error().code, Code::mismatch);
  EXPECT_THAT(compared.error().message, HasSubstr("data.pkl\": CRC-32"));
}

TEST(PytorchZip, ReadsCheckpoint) {
  const Model model = read_well(small_checkpoint().zip());
  EXPECT_EQ(model.format, "pytorch");
  EXPECT_EQ(model.version, "3");
  EXPECT_THAT(listing(model),
              ElementsAre("w float32 float32 [2x1] wwwwWWWW", "t uint8 uint8 [2x2] 1324",
                          "half bfloat16 bfloat16 [2] hhhh", "inner.tied float32 float32 [2x1] wwwwWWWW"));
  EXPECT_EQ(json_at(model.metadata, "epoch"), "3");
  EXPECT_EQ(json_at(model.metadata, "inner"), R"({"lr":0.5})");
  EXPECT_EQ(fact(model, "root"), R"("archive")");
  EXPECT_EQ(fact(model, "tied"), R"([["w","inner.tied"]])");
  EXPECT_EQ(fact(model, "globals"), "missing");
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.parts.size(), 5U);
}

TEST(PytorchZip, DenseTensorsAreRangesOfTheirMembers) {
  const Model model = read_well(small_checkpoint().zip());
  EXPECT_EQ(model.tensors[0].source.whole(), model.parts[1].source.get().value());
  EXPECT_NE(model.tensors[1].source.whole(), model.parts[2].source.get().value());
}

TEST(PytorchZip, AnyDirectoryIsItsRoot) {
  const Model model = read_well(small_checkpoint().members("a b").build());
  EXPECT_THAT(model.tensors, SizeIs(4));
  EXPECT_EQ(fact(model, "root"), R"("a b")");
}

TEST(PytorchZip, RepeatedNamesAreRefused) {
  for (const std::string_view name : {"a/data.pkl", "a/data/0", "a/version", "other"}) {
    ZipBuilder zip = small_checkpoint().members("a");
    zip.stored("other", "bytes");
    zip.stored(name, "other bytes");
    EXPECT_EQ(error_of(zip.build()),
              fmt::format("m.pt: several members are called \"{}\": PyTorch reads any one of them", name));
  }
}

TEST(PytorchZip, NamesThatDifferInCaseAreRefused) {
  ZipBuilder zip = small_checkpoint().members("a");
  zip.stored("a/code/M.py", "class M");
  zip.stored("a/code/m.py", "class m");
  EXPECT_THAT(read_well(zip.build()).tensors, SizeIs(4));
  zip.stored("a/DATA.pkl", "other bytes");
  EXPECT_THAT(error_of(zip.build()), HasSubstr("PyTorch reads any one of them"));
}

TEST(PytorchZip, ItsOwnPicklesAreNotNested) {
  ZipBuilder zip = small_checkpoint().members("a");
  zip.stored("a/code/m.py.debug_pkl", PickleBuilder().raw("]").pickle());
  zip.stored("a/extra/data.pkl", PickleBuilder().raw("]").pickle());
  const auto model = std::make_shared<const Model>(read_well(zip.build()));
  ASSERT_TRUE(model->nested);
  const auto nested = well(model->nested(model));
  ASSERT_THAT(nested, SizeIs(1));
  EXPECT_EQ(model->parts[nested[0].part].path, "a/extra/data.pkl");
  EXPECT_EQ(nested[0].model.get().value()->format, "pickle");
}

TEST(PytorchZip, ReadsDeflatedMembers) {
  PytorchBuilder b;
  b.tensor("w", "Byte", 1, {4}, "wwww");
  ZipBuilder zip;
  zip.deflated("r/data.pkl", b.object().pickle());
  zip.deflated("r/data/0", "wwww");
  EXPECT_THAT(listing(read_well(zip.build())), ElementsAre("w uint8 uint8 [4] wwww"));
}

TEST(PytorchZip, SwapsBigEndianNumbers) {
  ZipBuilder zip;
  PickleBuilder object = PickleBuilder().raw("}").mark();
  object.text("i").add(tensor_v2(storage("Short", "0", 2), {{2}, {1}}));
  object.text("c").add(tensor_v2(storage("ComplexFloat", "1", 1), {{1}, {1}}));
  object.text("b").add(tensor_v2(storage("Byte", "0", 4), {{4}, {1}}));
  zip.stored("r/data.pkl", object.raw("u").pickle());
  zip.stored("r/data/0", "abcd");
  zip.stored("r/data/1", "abcdefgh");
  zip.stored("r/byteorder", "big");
  const Model model = read_well(zip.build());
  EXPECT_THAT(listing(model),
              ElementsAre("i int16 int16 [2] badc", "c complex64 complex64 [1] dcbahgfe", "b uint8 uint8 [4] abcd"));
  EXPECT_EQ(fact(model, "byte_order"), R"("big")");
}

TEST(PytorchZip, ReadsEveryRebuildFunction) {
  const std::vector<int64_t> two = {2}, one = {1};
  const TensorLayout layout{two, one, 1};
  const PickleBuilder args = layout_arguments(kFour, layout);
  const auto only = [&](const PickleBuilder& tensor) { return listing(read_well(checkpoint_of(tensor))); };
  const auto call = [](std::string_view name, const PickleBuilder& arguments) {
    return PickleBuilder().call("torch._utils", name, arguments);
  };
  EXPECT_THAT(only(call("_rebuild_tensor", args)), ElementsAre("w int32 int32 [2] 456789ab"));
  EXPECT_THAT(only(tensor_v2(kFour, layout)), ElementsAre("w int32 int32 [2] 456789ab"));
  PickleBuilder v3 = layout_arguments(storage("Untyped", "0", 16), layout);
  v3.boolean(false).none().global("torch", "uint16");
  EXPECT_THAT(only(call("_rebuild_tensor_v3", v3)), ElementsAre("w uint16 uint16 [2] 2345"));
  PickleBuilder parameter = tensor_v2(kFour, layout);
  parameter.boolean(true).none();
  EXPECT_THAT(only(call("_rebuild_parameter", parameter)), ElementsAre("w int32 int32 [2] 456789ab"));
  PickleBuilder typed;
  typed.global("torch._utils", "_rebuild_tensor_v2").global("torch", "Tensor");
  typed.mark().add(args).boolean(false).none().tuple().raw("}");
  EXPECT_THAT(only(PickleBuilder().call("torch._tensor", "_rebuild_from_type_v2", typed)),
              ElementsAre("w int32 int32 [2] 456789ab"));
}

TEST(PytorchZip, QuantizedTensorsAreIntegersWithScalesInMetadata) {
  PickleBuilder arguments = layout_arguments(storage("QInt8", "0", 4), {{4}, {1}});
  arguments.mark().global("torch", "per_tensor_affine").real(0.5).integer(3).tuple();
  const Model model = read_well(checkpoint_of(PickleBuilder().call("torch._utils", "_rebuild_qtensor", arguments)));
  EXPECT_THAT(listing(model), ElementsAre("w int8 qint8 [4] 0123"));
  EXPECT_EQ(fact(model, "quantized"), R"({"w":{"scheme":"torch.per_tensor_affine","scale":0.5,"zero_point":3}})");
}

TEST(PytorchZip, SparseTensorsAreTheirParts) {
  PickleBuilder layout;
  layout.call("torch.serialization", "_get_layout", PickleBuilder().text("torch.sparse_coo"));
  PickleBuilder arguments = layout;
  arguments.mark().add(tensor_v2(kFour, {{1, 2}, {2, 1}})).add(tensor_v2(kFour, {{2}, {1}, 2})).integers({9});
  arguments.tuple();
  const Model model =
      read_well(checkpoint_of(PickleBuilder().call("torch._utils", "_rebuild_sparse_tensor", arguments)));
  EXPECT_THAT(listing(model), ElementsAre("w.indices int32 int32 [1x2] 01234567", "w.values int32 int32 [2] 89abcdef"));
  EXPECT_EQ(fact(model, "sparse"), R"({"w":{"layout":"torch.sparse_coo","shape":[9]}})");
}

TEST(PytorchZip, ConjugatesAndNegatesOnRead) {
  PickleBuilder flags;
  flags.raw("}").text("conj").boolean(true).raw("s");
  const Model model = read_well(checkpoint_of(tensor_v2(storage("ComplexFloat", "0", 1), {{1}, {1}}, flags),
                                              std::string_view("\0\0\0\x3F\0\0\0\x3F", 8)));
  ASSERT_THAT(model.tensors, SizeIs(1));
  EXPECT_EQ(text_of(model.tensors[0].source), std::string("\0\0\0\x3F\0\0\0\xBF", 8));
}

TEST(PytorchZip, BadTensorIsRefusedAlone) {
  EXPECT_THAT(refusal(tensor_v2(kFour, {{5}, {1}})), HasSubstr("outside of the storage"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {{2}, {INT64_MAX}})), HasSubstr("outside of the storage"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {{1}, {1}, 4})), HasSubstr("outside of the storage"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {{4}, {-1}})), HasSubstr("below 0"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {{-1}, {1}})), HasSubstr("below 0"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {{1}, {1}, -1})), HasSubstr("offset"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {{1, 1}, {1}})), HasSubstr("strides"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {{INT64_MAX, INT64_MAX}, {0, 0}})), HasSubstr("overflows"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {{1 << 20, 1 << 20}, {0, 0}})), HasSubstr("repeat"));
  EXPECT_THAT(refusal(tensor_v2(storage("Int", "1", 4), {{1}, {1}})), HasSubstr("not in the archive"));
  EXPECT_THAT(refusal(tensor_v2(storage("Int", "../version", 4), {{1}, {1}})), HasSubstr("not in the archive"));
  EXPECT_THAT(refusal(tensor_v2(storage("Evil", "0", 4), {{1}, {1}})), HasSubstr("unknown"));
  EXPECT_THAT(refusal(tensor_v2(storage("Int", "0", -1), {{1}, {1}})), HasSubstr("without its size"));
  EXPECT_THAT(refusal(tensor_v2(PickleBuilder().none(), {{1}, {1}})), HasSubstr("not a storage"));
  EXPECT_THAT(refusal(PickleBuilder().call("torch._utils", "_rebuild_tensor_v2", {})), HasSubstr("0 arguments"));
  EXPECT_THAT(refusal(tensor_v2(kFour, {std::vector<int64_t>(60'000, 1), {}})), HasSubstr("60000 dimensions"));
}

TEST(PytorchZip, KeyOfStorageHasALimitedLength) {
  const std::string key(1025, 'k');
  EXPECT_THAT(refusal(tensor_v2(storage("Int", key, 4), {{1}, {1}})), HasSubstr("a key of a storage of 1025 bytes"));
}

// Dicts of one list, which has no pair.
TEST(PytorchZip, EachItemOfSharedListIsCharged) {
  PickleBuilder object;
  object.raw("]").mark();
  for (int i = 0; i < 10'000; ++i) object.raw("K\1");
  object.raw("e").put(0).global("collections", "OrderedDict").put(1).raw("]").mark();
  for (int i = 0; i < 10'000; ++i) object.get(1).get(0).raw("\x85R");
  EXPECT_THAT(error_of(checkpoint(object.raw("e"))), HasSubstr("limit"));
}

// The count of the identifier is a claim; the member is what there is.
TEST(PytorchZip, StorageIsNoLongerThanItsMember) {
  EXPECT_THAT(refusal(tensor_v2(storage("Int", "0", 1000), {{5}, {1}})), HasSubstr("outside of the storage of 4"));
}

TEST(PytorchZip, MetaTensorHasNoBytes) {
  PickleBuilder arguments;
  arguments.global("torch", "float32").integers({2}).integers({1}).boolean(false);
  EXPECT_THAT(refusal(PickleBuilder().call("torch._utils", "_rebuild_meta_tensor_no_storage", arguments)),
              HasSubstr("meta"));
}

TEST(PytorchZip, NamesAreKeysIndicesAndAttributes) {
  const PickleBuilder t = tensor_v2(storage("Byte", "0", 1), {{1}, {1}});
  PickleBuilder module;
  module.call("torch.nn", "Linear", {}).raw("}").text("_parameters").raw("}").text("weight").add(t).raw("ssb");
  PickleBuilder object;
  object.raw("}").mark().integer(0).add(t).text("list").raw("(").none().add(t).raw("l");
  object.text("net").add(module).boolean(true).add(t).text("").add(t);
  const Model model = read_well(checkpoint(object.raw("u")));
  EXPECT_THAT(listing(model),
              ElementsAre("0 uint8 uint8 [1] 0", "list.1 uint8 uint8 [1] 0", "net.weight uint8 uint8 [1] 0",
                          "True uint8 uint8 [1] 0", " uint8 uint8 [1] 0"));
  EXPECT_EQ(json_at(model.metadata, "list"), R"({"0":null})");
}

TEST(PytorchZip, BareTensorHasName) {
  EXPECT_THAT(listing(read_well(checkpoint(tensor_v2(storage("Byte", "0", 2), {{2}, {1}})))),
              ElementsAre("tensor uint8 uint8 [2] 01"));
}

TEST(PytorchZip, ReadsConstantsOfTorchScript) {
  const PickleBuilder weight = tensor_v2(storage("Byte", "0", 2), {{2}, {1}});
  const PickleBuilder number = tensor_v2(storage("Byte", "1", 1), {{}, {}});
  ZipBuilder zip;
  zip.stored("m/data.pkl", "c__torch__\nM\n)\x81.");
  zip.stored("m/constants.pkl", PickleBuilder().mark().add(weight).add(number).tuple().pickle());
  zip.stored("m/constants/0", "ww");
  zip.stored("m/constants/1", "n");
  const Model model = read_well(zip.build());
  EXPECT_THAT(listing(model), ElementsAre("constants.0 uint8 uint8 [2] ww"));
  EXPECT_EQ(fact(model, "torchscript"), "true");
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(PytorchZip, NamesOfFunctionsAreShownAndNothingRuns) {
  PickleBuilder object;
  object.raw("}").mark().text("x").call("posix", "system", PickleBuilder().text("touch ran"));
  object.text("w").add(tensor_v2(kFour, {{1}, {1}})).text("a").call("argparse", "Namespace", {});
  const Model model = read_well(checkpoint(object.raw("u")));
  EXPECT_THAT(listing(model), ElementsAre("w int32 int32 [1] 0123"));
  EXPECT_EQ(json_at(model.metadata, "x"), R"({"posix.system":["touch ran"]})");
  EXPECT_EQ(fact(model, "globals"), R"(["posix.system","argparse.Namespace"])");
  EXPECT_EQ(json_at(model.common, "dangerous_globals"), R"("posix.system")");
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("names posix.system: torch.load"),
                                          HasSubstr("weights_only=True) refuses: argparse.Namespace")));
}

TEST(PytorchZip, CutsValuesThatContainThemselves) {
  PickleBuilder object;
  object.raw("}").put(0).mark().text("self").get(0).text("w").add(tensor_v2(kFour, {{1}, {1}}));
  const Model model = read_well(checkpoint(object.raw("u")));
  EXPECT_THAT(model.tensors, SizeIs(1));
  EXPECT_EQ(json_at(model.metadata, "self"), "\"(contains itself)\"");
}

// 2^40 names of one value.
TEST(PytorchZip, SharedValuesExhaustTheBudget) {
  for (const PickleBuilder& leaf : {tensor_v2(kFour, {{1}, {1}}), PickleBuilder().raw("]")}) {
    PickleBuilder object = leaf;
    for (int i = 0; i < 40; ++i) object.raw("2\x86");
    EXPECT_THAT(error_of(checkpoint(object)), HasSubstr("limit"));
  }
}

TEST(PytorchZip, RefusesDeepNesting) {
  EXPECT_THAT(error_of(checkpoint(PickleBuilder().raw(std::string(100'000, ']') + std::string(99'999, 'a')))),
              HasSubstr("nested deeper than"));
  PickleBuilder lists;
  for (int i = 0; i < 100'000; ++i) lists.raw("cbuiltins\nlist\n");
  lists.raw(")");
  for (int i = 0; i < 100'000; ++i) lists.raw("\x85R");
  EXPECT_THAT(error_of(checkpoint(lists)), HasSubstr("nested deeper than"));
}

TEST(PytorchZip, RefusesInvalidPickle) {
  EXPECT_THAT(error_of(checkpoint(PickleBuilder().raw("t"))), HasSubstr("data.pkl: pickle: no MARK"));
}

TEST(PytorchZip, ArchiveWithoutPickleIsPlainZip) {
  ZipBuilder zip;
  zip.stored("archive/version", "3\n");
  EXPECT_EQ(read_well(zip.build()).format, "zip");
}

}  // namespace
}  // namespace weightfs::pytorch_zip_test
