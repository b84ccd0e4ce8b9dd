// Boosters of XGBoost and LightGBM in pickles: models inside of the pickle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/python_builder.h"
#include "tests/builders/trees_builder.h"
#include "tests/support/compressed.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::python_boosters_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Model read_at(std::string bytes, int depth) {
  return well(read_as("pickle", {.name = "m.pkl", .bytes = in_memory(std::move(bytes)), .depth = depth}));
}
Model read(std::string bytes) { return read_at(std::move(bytes), 0); }

PickleBuilder byte_array(std::string_view bytes) {
  return PickleBuilder().call("builtins", "bytearray", PickleBuilder().bytes(bytes));
}
PickleBuilder xgboost(const PickleBuilder& handle) {
  return object("xgboost.core", "Booster",
                PickleBuilder().text("handle").add(handle).text("best_iteration").integer(1));
}
PickleBuilder lightgbm(const PickleBuilder& handle, std::string_view attribute = "handle") {
  return object("lightgbm.basic", "Booster", PickleBuilder().text("train_set").none().text(attribute).add(handle));
}
std::string classifier(const PickleBuilder& booster) {
  return object("xgboost.sklearn", "XGBClassifier",
                PickleBuilder().text("classes_").add(array("u1", {2}, "01")).text("_Booster").add(booster))
      .pickle();
}

ModelPtr borrowed(const Model& model) { return {ModelPtr(), &model}; }

// The models inside: the part's path, the format or the error, the first tensor.
std::vector<std::string> nested(const Model& model) {
  std::vector<std::string> lines;
  for (const Nested& inner : model.nested ? well(model.nested(borrowed(model))) : std::vector<Nested>()) {
    const auto read = inner.model.get();
    std::string line = model.parts[inner.part].path + ": " + (read ? (*read)->format : read.error().message);
    if (read && !(*read)->tensors.empty()) line += fmt::format(" {}", (*read)->tensors.name(0));
    lines.push_back(line);
  }
  return lines;
}
std::vector<std::string> files(const Model& model) {
  std::vector<std::string> paths;
  for (const Part& part : model.parts) paths.push_back(part.path);
  return paths;
}
std::vector<std::string> nested_in(const PickleBuilder& booster) { return nested(read(booster.pickle())); }

TEST(Boosters, ModelOfABoosterIsNested) {
  const std::string file = trees::small_xgboost_ubjson();
  const std::string bytes = classifier(xgboost(byte_array(file)));
  const Model model = read(bytes);
  EXPECT_THAT(files(model), ElementsAre("m.pkl", "_Booster.ubj"));
  EXPECT_THAT(nested(model), ElementsAre("_Booster.ubj: xgboost tree_info"));
  const auto part = std::dynamic_pointer_cast<const Slice>(well(model.parts[1].source.get()));
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->offset(), bytes.find(file));
  EXPECT_EQ(part->size(), file.size());
  EXPECT_EQ(model.stored_bytes, bytes.size());
  EXPECT_THAT(listing(model), ElementsAre("classes_ uint8 <u1 [2] 01"));
  EXPECT_THAT(metadata_of(model, "_Booster"), HasSubstr(R"("best_iteration":1)"));
  EXPECT_THAT(metadata_of(model, "pickle"), HasSubstr(R"("_Booster":"xgboost.core.Booster")"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Boosters, EachFormOfXGBoostIsRead) {
  const PickleBuilder array = PickleBuilder().raw("\x96" + le(trees::small_xgboost_binary().size(), 8));
  EXPECT_THAT(nested_in(xgboost(PickleBuilder(array).raw(trees::small_xgboost_binary()))),
              ElementsAre("booster.bst: xgboost trees.0.nodes"));
  const std::string configured = R"({"Config":{},"Model":)" + trees::small_xgboost_json() + "}";
  EXPECT_THAT(nested_in(xgboost(byte_array(configured))), ElementsAre("booster.json: xgboost tree_info"));
  const std::string binary = trees::small_xgboost_binary();
  EXPECT_THAT(nested_in(xgboost(byte_array("CONFIG-offset:" + le(binary.size(), 8) + binary + R"({"learner":{}})"))),
              ElementsAre("booster.bst: xgboost trees.0.nodes"));
  // Old versions of the classifier have the bytes themselves.
  EXPECT_THAT(nested(read(classifier(byte_array(binary)))), ElementsAre("_Booster.bst: xgboost trees.0.nodes"));
}

TEST(Boosters, TextsOfLightGbmAreRead) {
  for (const char* const attribute : {"handle", "_handle", "model_str"}) {
    const std::string bytes = lightgbm(PickleBuilder().text(trees::small_lightgbm()), attribute).pickle();
    const Model model = read(bytes);
    EXPECT_THAT(nested(model), ElementsAre(StartsWith("booster.txt: lightgbm trees.0."))) << attribute;
    EXPECT_EQ(text_of(*well(model.parts[1].source.get())), trees::small_lightgbm());
  }
}

TEST(Boosters, TextsInLatin1AreDecoded) {
  std::string text;
  const std::string binary = trees::small_xgboost_binary() + std::string(40'000, '\xFF');
  for (const char c : binary) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x80) text += c;
    if (byte >= 0x80) text += {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
  }
  const Model model = read(
      xgboost(PickleBuilder().call("__builtin__", "bytearray", PickleBuilder().text(text).text("latin-1"))).pickle());
  EXPECT_EQ(text_of(*well(model.parts[1].source.get())), binary);
  EXPECT_THAT(nested(model), ElementsAre("booster.bst: xgboost trees.0.nodes"));
}

TEST(Boosters, BoostersOfCompressedPicklesAreRead) {
  const std::string bytes = classifier(xgboost(byte_array(trees::small_xgboost_ubjson())));
  const std::string packed = gzip_member(deflate_stored(bytes), crc_of(bytes), bytes.size());
  const Model model = read(packed);
  EXPECT_EQ(model.stored_bytes, packed.size());
  EXPECT_THAT(nested(model), ElementsAre("_Booster.ubj: xgboost tree_info"));
}

TEST(Boosters, OneOfTwoNamesIsReadOnce) {
  PickleBuilder both;
  both.text("a/b").add(xgboost(byte_array(trees::small_xgboost_ubjson())).put(1)).text("c").get(1);
  const Model model = read(dict(both).pickle());
  const auto inner = well(model.nested(borrowed(model)));
  ASSERT_EQ(inner.size(), 2U);
  EXPECT_THAT(files(model), ElementsAre("m.pkl", "a/b.ubj", "c.ubj"));
  EXPECT_EQ(well(inner[0].model.get()), well(inner[1].model.get()));
}

TEST(Boosters, DamagedModelIsAnErrorOfTheNestedOne) {
  const std::string file = trees::small_xgboost_ubjson();
  const Model model = read(classifier(xgboost(byte_array(file.substr(0, file.size() / 2)))));
  EXPECT_THAT(nested(model), ElementsAre(StartsWith("_Booster.ubj: _Booster.ubj: xgboost: ")));
  EXPECT_THAT(listing(model), ElementsAre("classes_ uint8 <u1 [2] 01"));
}

TEST(Boosters, UnknownFormIsAFile) {
  const Model model = read(classifier(xgboost(byte_array("what is this?"))));
  EXPECT_THAT(files(model), ElementsAre("m.pkl", "_Booster.bst"));
  EXPECT_FALSE(model.nested);
}

TEST(Boosters, BoosterWithoutBytesIsMissing) {
  PickleBuilder list;
  list.raw("]").mark().integer(1).raw("e");
  const auto broken = {std::pair(PickleBuilder().call("builtins", "bytearray", list), "other values than bytes"),
                       std::pair(byte_array(""), "is empty")};
  for (const auto& [handle, why] : broken) {
    const Model model = read(classifier(xgboost(handle)));
    EXPECT_THAT(files(model), ElementsAre("m.pkl"));
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr(why)));
  }
  const Model untrained = read(classifier(PickleBuilder().none()));
  EXPECT_THAT(untrained.warnings, IsEmpty());
  EXPECT_FALSE(untrained.nested);
}

TEST(Boosters, DeepPicklesHaveFilesOnly) {
  const std::string bytes = xgboost(byte_array(trees::small_xgboost_ubjson())).pickle();
  EXPECT_THAT(nested(read_at(bytes, kMaxNestingDepth - 1)), ElementsAre(StartsWith("booster.ubj: xgboost")));
  const Model deep = read_at(bytes, kMaxNestingDepth);
  EXPECT_THAT(files(deep), ElementsAre("m.pkl", "booster.ubj"));
  EXPECT_FALSE(deep.nested);
}

TEST(Boosters, NamesThatRunCodeAreStillListed) {
  const PickleBuilder call = PickleBuilder().call("posix", "system", PickleBuilder().text("id"));
  const Model model =
      read(dict(PickleBuilder().text("a").add(xgboost(byte_array(trees::small_xgboost_ubjson()))).text("b").add(call))
               .pickle());
  EXPECT_EQ(*model.common.find_as<std::string>("dangerous_globals"), "posix.system");
  EXPECT_EQ(nested(model).size(), 1U);
}

}  // namespace
}  // namespace weightfs::python_boosters_test
