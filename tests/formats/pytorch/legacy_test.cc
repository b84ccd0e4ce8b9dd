// Checkpoints of torch before 1.6.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/pickle_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::legacy_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(std::string bytes) { return read_model({"m.pt", in_memory(std::move(bytes))}); }

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }

// A file of this object, these keys and these bytes behind them.
std::string file_of(const PickleBuilder& object, const PickleBuilder& keys, std::string_view storages) {
  return PytorchBuilder::legacy_header() + object.pickle() + keys.pickle() + std::string(storages);
}

PickleBuilder keys_of(std::initializer_list<std::string_view> keys) {
  PickleBuilder b;
  b.mark();
  for (const std::string_view key : keys) b.text(key);
  return b.raw("l");
}

PickleBuilder dict_of(std::string_view name, const PickleBuilder& value) {
  return PickleBuilder().raw("}").text(name).add(value).raw("s");
}

TEST(PytorchLegacy, ReadsCheckpoint) {
  const Model model = read_well(small_checkpoint().legacy({4, 1, 2}));
  EXPECT_EQ(model.format, "pytorch-legacy");
  EXPECT_THAT(listing(model),
              ElementsAre("w float32 float32 [2x1] wwwwWWWW", "t uint8 uint8 [2x2] 1324",
                          "half bfloat16 bfloat16 [2] hhhh", "inner.tied float32 float32 [2x1] wwwwWWWW"));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(to_json_line(model.metadata.find("pytorch-legacy") == nullptr ? Value() : *model.metadata.find("epoch")),
            "3");
}

TEST(PytorchLegacy, StoragesAreInTheOrderOfTheKeys) {
  PickleBuilder object = PickleBuilder().raw("}").mark();
  object.text("a").add(tensor_v2(storage("Byte", "a", 1), {{1}, {1}}));
  object.text("b").add(tensor_v2(storage("Short", "b", 1), {{1}, {1}})).raw("u");
  const Model model = read_well(file_of(object, keys_of({"b", "a"}), le(1, 8) + "bb" + le(1, 8) + "a"));
  EXPECT_THAT(listing(model), ElementsAre("a uint8 uint8 [1] a", "b int16 int16 [1] bb"));
}

TEST(PytorchLegacy, ReadsViewsOfStorages) {
  PickleBuilder view;
  view.mark().text("storage").global("torch", "ShortStorage").text("s").text("cpu").integer(4);
  view.mark().text("v").integer(1).integer(2).tuple().tuple().raw("Q");
  const Model model =
      read_well(file_of(dict_of("w", tensor_v2(view, {{2}, {1}})), keys_of({"s"}), le(4, 8) + "00112233"));
  EXPECT_THAT(listing(model), ElementsAre("w int16 int16 [2] 1122"));
}

TEST(PytorchLegacy, ViewOutsideOfItsStorageIsRefused) {
  PickleBuilder view;
  view.mark().text("storage").global("torch", "ShortStorage").text("s").text("cpu").integer(4);
  view.mark().text("v").integer(3).integer(2).tuple().tuple().raw("Q");
  const Model model =
      read_well(file_of(dict_of("w", tensor_v2(view, {{1}, {1}})), keys_of({"s"}), le(4, 8) + "00112233"));
  EXPECT_TRUE(model.tensors.at(0).source.refused());
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("a view outside of its storage")));
}

TEST(PytorchLegacy, BytesBehindTheStoragesAreIgnored) {
  EXPECT_THAT(read_well(small_checkpoint().legacy({4, 1, 2}) + "more").tensors, SizeIs(4));
}

TEST(PytorchLegacy, RefusesTensorsOfStoragesThatAreNotThere) {
  const PickleBuilder object = dict_of("w", tensor_v2(storage("Short", "s", 2), {{2}, {1}}));
  const auto warnings = [&](const PickleBuilder& keys, std::string_view storages) {
    const Model model = read_well(file_of(object, keys, storages));
    EXPECT_TRUE(model.tensors.at(0).source.refused());
    return model.warnings;
  };
  EXPECT_THAT(warnings(keys_of({}), ""), ElementsAre(HasSubstr("not in the file")));
  EXPECT_THAT(warnings(keys_of({"t"}), le(2, 8) + "aabb"), ElementsAre(HasSubstr("no tensor"), HasSubstr("not in")));
  EXPECT_THAT(warnings(keys_of({"s"}), le(2, 8) + "aab"),
              ElementsAre(HasSubstr("later storages"), HasSubstr("not in")));
  EXPECT_THAT(warnings(keys_of({"s"}), std::string(8, '\xFF')),
              ElementsAre(HasSubstr("-1 elements"), HasSubstr("not")));
  EXPECT_THAT(warnings(keys_of({"s"}), le(uint64_t{1} << 62, 8)), ElementsAre(HasSubstr("outside"), HasSubstr("not")));
}

TEST(PytorchLegacy, RefusesOtherVersionsAndKeys) {
  EXPECT_THAT(error_of(PytorchBuilder::legacy_header(1002)), HasSubstr("version 1002, 1001 is supported"));
  EXPECT_THAT(error_of(file_of(PickleBuilder().raw("}"), PickleBuilder().raw("}"), "")), HasSubstr("not a list"));
}

TEST(PytorchLegacy, IsDetectedInEveryProtocol) {
  const std::string magic("\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.", 13);
  EXPECT_EQ(matches_pytorch_legacy(probe_of("\x80\x03" + magic)), Match::yes);
  EXPECT_EQ(matches_pytorch_legacy(probe_of("\x80\x04\x95" + le(13, 8) + magic)), Match::yes);
  EXPECT_EQ(matches_pytorch_legacy(probe_of("L119547037146038801333356L\n.")), Match::yes);
  EXPECT_EQ(matches_pytorch_legacy(probe_of("\x80\x02}.")), Match::no);
  EXPECT_EQ(matches_pytorch_legacy(probe_of("")), Match::no);
  EXPECT_EQ(matches_pytorch_legacy(probe_of("\x80")), Match::no);
}

TEST(PytorchLegacy, NamesOfFunctionsAreWarnedOf) {
  const Model model =
      read_well(file_of(PickleBuilder().call("os", "system", PickleBuilder().text("touch ran")), keys_of({}), ""));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("names os.system")));
}

TEST(PytorchLegacy, NamesOfFunctionsInItsOtherPicklesAreWarnedOf) {
  const std::string call = PickleBuilder().call("os", "system", PickleBuilder().text("touch ran")).raw("0").opcodes();
  std::string header = PytorchBuilder::legacy_header();
  header.insert(header.find('.') + 3, call);  // behind PROTO of the version
  const std::string object = PickleBuilder().raw("}").pickle();
  EXPECT_THAT(read_well(header + object + keys_of({}).pickle()).warnings, ElementsAre(HasSubstr("names os.system")));
  std::string keys = keys_of({}).pickle();
  keys.insert(2, call);
  EXPECT_THAT(read_well(PytorchBuilder::legacy_header() + object + keys).warnings,
              ElementsAre(HasSubstr("names os.system")));
}

}  // namespace
}  // namespace weightfs::legacy_test
