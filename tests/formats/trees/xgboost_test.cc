#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/trees_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::xgboost_test {
namespace {

using namespace test::trees;
using namespace std::string_literals;
using test::error_in;
using test::listing;
using test::little;
using test::metadata_of;
using test::well;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(const std::string& bytes) { return read_as("xgboost", {"m", in_memory(bytes)}); }
std::string error_of(const std::string& bytes) { return error_in(read(bytes)); }

std::string floats(std::initializer_list<float> numbers) {
  std::string bytes;
  for (const float number : numbers) bytes += little(std::bit_cast<uint32_t>(number), 4);
  return bytes;
}

std::string ints(std::initializer_list<int> numbers) {
  std::string bytes;
  for (const int number : numbers) bytes += little(static_cast<uint32_t>(number), 4);
  return bytes;
}

// The bytes of a tensor, or "refused".
std::string bytes_of(const Model& model, std::string_view name) {
  for (const TensorView& tensor : model.tensors)
    if (tensor.name == name) return tensor.source.refused() ? "refused" : test::text_of(tensor.source);
  return "missing";
}

TEST(XgboostJson, ArraysOfTreesAreTensors) {
  const Model model = well(read(small_xgboost_json()));
  EXPECT_EQ(model.format, "xgboost");
  EXPECT_EQ(model.version, "1.7.4");
  EXPECT_THAT(model.tensors, SizeIs(11));
  EXPECT_EQ(bytes_of(model, "tree_info"), ints({0}));
  EXPECT_EQ(bytes_of(model, "trees.0.split_conditions"), floats({0.5F, 0.1F, 2.0F}));
  EXPECT_EQ(bytes_of(model, "trees.0.left_children"), ints({1, -1, -1}));
  EXPECT_EQ(bytes_of(model, "trees.0.default_left"), "\1\0\0"s);
  EXPECT_EQ(bytes_of(model, "trees.0.categories"), "");
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(XgboostJson, NanAndInfinitiesAreNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::string bytes = bytes_of(well(read(small_xgboost_json())), "trees.0.base_weights");
  ASSERT_THAT(bytes, SizeIs(12));
  EXPECT_EQ(bytes.substr(4), floats({-infinity, 1.5F}));
  EXPECT_EQ(bytes[3] & 0x7F, 0x7F);
}

TEST(XgboostJson, TheRestIsMetadata) {
  const Model model = well(read(small_xgboost_json()));
  EXPECT_EQ(metadata_of(model, "version"), "[1,7,4]");
  EXPECT_EQ(metadata_of(model, "learner"),
            R"({"attributes":{"note":"ä"},"feature_names":["a","b"],"gradient_booster":{"model":{"gbtree_model_param":)"
            R"({"num_trees":"1"}},"name":"gbtree"},"learner_model_param":{"base_score":"5E-1"},)"
            R"("objective":{"name":"reg:squarederror"}})");
}

TEST(XgboostJson, ModelOfDartIsABoosterInABooster) {
  const std::string dart = R"({"gbtree":)" + gbtree_json(kJsonTree) + R"(,"name":"dart","weight_drop":[0.5]})";
  const Model model = well(read(R"({"Config":{},"Model":)" + xgboost_json(dart) + "}"));
  EXPECT_EQ(bytes_of(model, "weight_drop"), floats({0.5F}));
  EXPECT_EQ(bytes_of(model, "trees.0.split_indices"), ints({1, 0, 0}));
}

TEST(XgboostJson, ArraysThatAreNoNumbersAreRefused) {
  const auto refused = [](std::string_view array) {
    const Model model = well(read(xgboost_json(gbtree_json(fmt::format(R"({{"parents":{}}})", array)))));
    EXPECT_THAT(model.warnings, SizeIs(1)) << array;
    return bytes_of(model, "trees.0.parents");
  };
  EXPECT_EQ(refused("[99999999999999999999]"), "refused");
  EXPECT_EQ(refused("[2147483648,1]"), "refused");
  EXPECT_EQ(refused("[1.5]"), "refused");
  EXPECT_EQ(refused(R"([1,"2"])"), "refused");
  EXPECT_EQ(refused("[[1]]"), "refused");
  EXPECT_EQ(refused("7"), "refused");
  EXPECT_EQ(refused("[null]"), "refused");
}

TEST(XgboostJson, LengthsThatDifferAreWarnings) {
  const Model model = well(read(xgboost_json(
      gbtree_json(R"({"parents":[1,2],"base_weights":[1,2,3,4],"tree_param":{"num_nodes":"1","size_leaf_vector":"4"}})",
                  R"({"num_trees":"2"})"))));
  EXPECT_THAT(model.warnings, Contains(R"(tensor "trees.0.parents": 2 elements, but num_nodes is 1)"));
}

TEST(XgboostJson, MissingTreesMakeTheModelIncomplete) {
  const auto sentence = [](std::string_view trees, std::string_view parameters) {
    return to_sentence(completeness_of(well(read(xgboost_json(gbtree_json(trees, parameters))))));
  };
  EXPECT_EQ(sentence(kJsonTree, R"({"num_trees":"1"})"), "");
  EXPECT_EQ(sentence(kJsonTree, R"({"num_trees":"2"})"), "the model is incomplete: 1 trees, num_trees is 2");
}

TEST(XgboostJson, MissingArraysOfTreesMakeTheModelIncomplete) {
  const auto warnings_without = [](const std::string& key, std::string_view leaf_vector) {
    std::string tree(kJsonTree);
    const size_t at = tree.find(key);
    tree.replace(at, key.size(), "other");
    tree.replace(tree.find(R"("size_leaf_vector":"0")"), 22, fmt::format(R"("size_leaf_vector":"{}")", leaf_vector));
    const Model model = well(read(xgboost_json(gbtree_json(tree))));
    EXPECT_EQ(completeness_of(model).unreadable, model.lacks->missing_tensors);
    return std::pair(model.lacks->missing_tensors, model.warnings.front());
  };
  for (const char* const key : {"base_weights", "default_left", "left_children", "parents", "right_children",
                                "split_conditions", "split_indices", "loss_changes", "sum_hessian"})
    EXPECT_EQ(warnings_without(key, "0"), std::pair(uint64_t{1}, fmt::format("trees.0: {} is missing", key)));
  EXPECT_EQ(warnings_without("sum_hessian", "2").first, 0U) << "trees with several targets have no statistics";
}

TEST(XgboostJson, UnknownArraysOfTreesAreAWarning) {
  const Model model = well(read(xgboost_json(gbtree_json(R"({"parents":[1],"new":[1,2],"id":0})"))));
  EXPECT_THAT(model.warnings, ElementsAre("1 arrays of trees are unknown, and not shown; the first one is \"new\""));
}

TEST(XgboostJson, LongListsOfNamesAreDocuments) {
  std::string names, expected;
  for (int i = 0; i < 1025; ++i) {
    names += fmt::format("{}\"f\\u00e4{}\"", i == 0 ? "" : ",", i);
    expected += fmt::format("{}\n  \"fä{}\"", i == 0 ? "" : ",", i);
  }
  const Model model = well(read(xgboost_json(gbtree_json(""), "\"feature_types\":[" + names + "],")));
  ASSERT_THAT(model.documents, SizeIs(1));
  EXPECT_EQ(model.documents[0].path, "metadata/feature_types.json");
  EXPECT_EQ(test::text_of(*well(model.documents[0].source.get())), "[" + expected + "\n]\n");
  EXPECT_THAT(metadata_of(model, "learner"), HasSubstr(R"("feature_types":{"path":"metadata/feature_types.json"})"));
}

TEST(XgboostJson, ReadsOfManyNumbersBeginAnywhere) {
  std::string numbers, expected;
  for (uint32_t i = 0; i < 5000; ++i) {
    numbers += fmt::format("{}{}", i == 0 ? "" : i % 3 == 0 ? " ,\n " : ",", i);
    expected += little(i, 4);
  }
  const Model model = well(read(xgboost_json(gbtree_json("{\"parents\":[" + numbers + " ]}"))));
  const Slice source = model.tensors.back().source;
  ASSERT_EQ(source.size(), expected.size());
  for (const uint64_t at : std::initializer_list<uint64_t>{0, 1, 4095, 4096, 4098, 8191, 19'990})
    EXPECT_EQ(well(read_text(source, at, 10)), expected.substr(at, 10)) << at;
  EXPECT_EQ(test::text_of(source), expected);
}

// The memory that stays charged after a model with that learner was read.
uint64_t memory_after(const std::string& learner) {
  const Container container{"m", in_memory(R"({"learner":{)" + learner + R"("gradient_booster":{}}})")};
  std::ignore = read_as("xgboost", container);
  return container.budget->memory_used();
}

TEST(XgboostJson, FactsBeyondTheLimitAreLeftOut) {
  std::string facts;
  for (int i = 0; i < 70'000; ++i) facts += fmt::format(R"("{:05}":0,)", i);
  const std::string learner = metadata_of(well(read(xgboost_json(gbtree_json(kJsonTree), facts))), "learner");
  EXPECT_THAT(learner, HasSubstr(R"("65000":0)"));
  EXPECT_EQ(learner.find("66000"), std::string::npos);
}

TEST(XgboostJson, NamesThatAreLeftOutAreNotReleased) {
  std::string zeros = "0";
  for (int i = 1; i < 1000; ++i) zeros += ",0";
  std::string lists(50, '[');
  for (int i = 0; i < 100; ++i) lists += "[" + zeros + "],";
  for (int i = 0; i < 50; ++i) lists += zeros + "]" + (i < 49 ? "," : "");
  EXPECT_LT(memory_after(R"("feature_names":)" + lists + ","), 1'000'000U);
}

TEST(XgboostJson, InvalidDocumentsAreRefused) {
  EXPECT_EQ(error_of(R"({"learner": 1})"), "xgboost: an object expected at byte 12");
  EXPECT_EQ(error_of(R"({"learner":{}})"), "xgboost: no model of XGBoost: the learner has no gradient_booster");
  EXPECT_THAT(error_of(small_xgboost_json().substr(0, 250)), HasSubstr("ends "));
  EXPECT_EQ(error_of(R"({"learner":{"a":[1,]}})"), "xgboost: unexpected \"]\" at byte 19");
  EXPECT_EQ(error_of(R"({"learner":{"a" 1}})"), "xgboost: unexpected \"1\" at byte 16");
  EXPECT_EQ(error_of(R"({"learner":{"a":nul}})"), "xgboost: \"nul\" at byte 16, a number expected");
  EXPECT_EQ(error_of(R"({"learner":{"a":)" + std::string(200, '[')), "xgboost: nested deeper than 100");
  EXPECT_EQ(error_of(R"({"learner":{"a":")" + std::string(100'000, 'a')), "xgboost: ends in a text");
  EXPECT_EQ(error_of(R"({"learner":{")" + std::string(100'000, 'a')),
            "xgboost: a text of more than 65535 bytes at byte 12");
}

TEST(XgboostUbjson, ArraysInEachFormAreTensors) {
  const Model model = well(read(small_xgboost_ubjson()));
  EXPECT_THAT(
      listing(model),
      ElementsAre("tree_info int32 int32 [1] " + ints({0}),
                  "trees.0.base_weights float32 float32 [2] " + floats({1.5F, -2.0F}),
                  "trees.0.categories_sizes int64 int64 [0] ", "trees.0.default_left uint8 uint8 [2] \1\0"s,
                  "trees.0.left_children int32 int32 [2] " + ints({1, -1}),
                  "trees.0.parents int32 int32 [2] " + ints({1, 7}), "trees.0.split_type uint8 uint8 [2] \1\2"));
  EXPECT_EQ(model.version, "2.1.3");
  EXPECT_THAT(metadata_of(model, "learner"), HasSubstr(R"("objective":{"name":"reg:gamma"})"));
}

TEST(XgboostUbjson, TypedNumbersThatDoNotFitAreRefused) {
  const auto parents = [](const std::string& array) {
    return bytes_of(well(read(xgboost_ubjson(ub_key("trees") + "[{" + ub_key("parents") + array + "}]"))),
                    "trees.0.parents");
  };
  EXPECT_EQ(parents(ub_typed('L', 1, big(5))), ints({5}));
  EXPECT_EQ(parents(ub_typed('I', 1, big(0xFFFE, 2))), ints({-2}));
  EXPECT_EQ(parents(ub_typed('L', 1, big(1ULL << 31))), "refused");
  EXPECT_EQ(parents(ub_typed('d', 1, big(0, 4))), "refused");
  EXPECT_EQ(parents("[S" + ub_key("a") + "]"), "refused");
  EXPECT_EQ(parents("[Ni\1NNi\2N]"s), ints({1, 2}));
}

TEST(XgboostUbjson, InvalidDocumentsAreRefused) {
  const auto error = [](const std::string& model) { return error_of(xgboost_ubjson(ub_key("x") + model)); };
  EXPECT_THAT(error(ub_typed('Z', 1ULL << 40, "")), HasSubstr("values of the type \"Z\""));
  EXPECT_THAT(error(ub_typed('d', 1ULL << 62, "")), HasSubstr("a count of 4611686018427387904"));
  EXPECT_THAT(error(ub_typed('d', -1ULL, "")), HasSubstr("a length of -1"));
  EXPECT_THAT(error("[$d1"), HasSubstr("a type without a count"));
  EXPECT_THAT(error("S" + ub_key("").substr(0, 1) + big(1ULL << 40)), HasSubstr("a text of 1099511627776 bytes"));
  EXPECT_THAT(error("?"), HasSubstr("unexpected \"?\""));
  EXPECT_THAT(error(std::string(200, '[')), HasSubstr("nested deeper than 100"));
  const std::string whole = small_xgboost_ubjson();
  for (size_t size = 10; size < whole.size(); ++size) EXPECT_FALSE(read(whole.substr(0, size))) << size;
}

TEST(XgboostBinary, NodesAreRangesOfTheFile) {
  const Model model = well(read(small_xgboost_binary()));
  EXPECT_EQ(model.version, "1.7");
  EXPECT_EQ(bytes_of(model, "trees.0.nodes"), std::string(20, 'n') + std::string(20, 'm'));
  EXPECT_EQ(bytes_of(model, "trees.0.stats.sum_hess"), "sssstttt");
  EXPECT_EQ(bytes_of(model, "tree_info"), ints({7}));
  EXPECT_EQ(bytes_of(model, "weight_drop"), "DROP");
  EXPECT_EQ(metadata_of(model, "learner_model_param"), R"({"base_score":0.5,"num_feature":2,"num_class":0})");
  EXPECT_EQ(metadata_of(model, "booster"), "\"dart\"");
  EXPECT_EQ(metadata_of(model, "attributes"), R"({"best":"3"})");
  EXPECT_THAT(model.tensors, SizeIs(2 + 5 + 4 + 2));
}

TEST(XgboostBinary, LinearModelsHaveWeights) {
  const Model model =
      well(read(binary_learner("reg:linear", "gblinear") + std::string(136, '\0') + little(2) + "wwwwbbbb"));
  EXPECT_THAT(listing(model), ElementsAre("weights float32 float32 [2] wwwwbbbb"));
  EXPECT_EQ(model.version, "1.7");
}

// Since 2.0 the trees state a leaf vector of 1, and none follows.
TEST(XgboostBinary, ModelsOfVersion2HaveNoLeafVectors) {
  const std::string node = std::string(16, 'n') + floats({0.5F}) + std::string(16, 's');
  const std::string trees = binary_tree(1, node, 1) + binary_tree(1, node, 1);
  for (const uint32_t major : {1U, 2U, 3U}) {
    const Model model =
        well(read(binary_learner("reg:squarederror", "gbtree", false, major) + binary_trees(2) + trees + little(0)));
    EXPECT_EQ(model.version, fmt::format("{}.7", major));
    ASSERT_EQ(model.tensors.size(), 23u);
    EXPECT_EQ(bytes_of(model, "trees.1.nodes.info"), floats({0.5F}));
    EXPECT_EQ(bytes_of(model, "tree_info"), ints({0, 0}));
  }
}

TEST(XgboostBinary, OldModelsHaveTheLeafVectorsThatTheirTreesState) {
  const std::string tree = binary_tree(1, std::string(36, 'n') + little(1) + "leaf", 1);
  const Model model =
      well(read(binary_learner("reg:linear", "gbtree", false, 0) + binary_trees(2) + tree + tree + little(0)));
  EXPECT_EQ(bytes_of(model, "trees.1.leaf_vector"), "leaf");
}

TEST(XgboostBinary, FirstNumberMayBeginLikeJson) {
  for (const char first : {' ', '\n', '{'}) {
    std::string bytes = binary_learner("reg:linear", "gblinear") + std::string(136, '\0') + little(1) + "wwww";
    bytes[0] = first;
    EXPECT_THAT(listing(well(read(bytes))), ElementsAre("weights float32 float32 [1] wwww"));
  }
}

// Its bytes from 70,000 on cannot be read.
class BrokenFile final : public Source {
 public:
  explicit BrokenFile(const std::string& bytes) : bytes_(in_memory(bytes)) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return offset < 70'000 ? bytes_->read(offset, out) : failure(Code::io, "broken disk");
  }

 private:
  SourcePtr bytes_;
};

TEST(XgboostBinary, AttributesThatCannotBeReadFailTheModel) {
  const std::string model = binary_learner("reg:linear", "gblinear", true) + std::string(136, '\0') + little(20'000) +
                            std::string(80'000, 'w');
  EXPECT_THAT(well(read(model)).warnings, ElementsAre(HasSubstr("the file ends in its attributes: ends at byte")));
  const Container broken{"m", std::make_shared<BrokenFile>(model + little(0))};
  EXPECT_EQ(error_in(read_as("xgboost", broken)), "xgboost: broken disk");
}

TEST(XgboostBinary, CutFilesHaveTheirWholeTrees) {
  const std::string learner = binary_learner("reg:linear", "gbtree");
  const std::string tree = binary_tree(1, std::string(36, 'n'));
  const Model model = well(read(learner + binary_trees(2) + tree + tree.substr(0, 170)));
  EXPECT_THAT(model.tensors, SizeIs(11));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("the file ends in tree 1 of 2")));
  EXPECT_EQ(model.lacks->missing_tensors, 11U + 1U);
  EXPECT_THAT(error_of(learner + binary_trees(2)), HasSubstr("a count of 2"));
  EXPECT_THAT(error_of(learner + binary_trees(0x80000000)), HasSubstr("-2147483648 trees"));
  EXPECT_THAT(error_of(learner + binary_trees(1) + binary_tree(0x80000000, "")), HasSubstr("nodes"));
  EXPECT_THAT(error_of(learner + binary_trees(1) + binary_tree(0x7FFFFFFF, "")), HasSubstr("a count of 2147483647"));
}

// What a model of these bytes lacks, as `info` prints it.
std::string lack_of(const std::string& bytes) { return to_sentence(completeness_of(well(read(bytes)))); }

TEST(XgboostBinary, FilesThatAreCutInTheirAttributesAreIncomplete) {
  const std::string whole = small_xgboost_binary();
  EXPECT_EQ(lack_of(whole), "");
  for (size_t size = whole.size() - 29; size < whole.size(); ++size)
    EXPECT_THAT(lack_of(whole.substr(0, size)), HasSubstr("the file ends in its attributes")) << size;
}

TEST(XgboostBinary, FilesThatAreCutInTheNamesOfTheirMetricsAreIncomplete) {
  std::string learner = binary_learner("reg:linear", "gblinear");
  learner[16] = 1;  // contain_eval_metrics
  const std::string whole =
      learner + std::string(136, '\0') + little(1) + "wwww" + little(2) + little(3) + "auc" + little(4) + "rmse";
  EXPECT_EQ(lack_of(whole), "");
  EXPECT_THAT(lack_of(whole.substr(0, whole.size() - 1)), HasSubstr("the file ends in its attributes"));
  EXPECT_THAT(lack_of(whole.substr(0, whole.size() - 31)), HasSubstr("the file ends in its attributes"));
}

TEST(Xgboost, IsDetectedByItsContent) {
  const auto match = [](const std::string& bytes) { return matches_xgboost(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_xgboost_json()), Match::yes);
  EXPECT_EQ(match(" {\n  \"learner\" : {"), Match::yes);
  EXPECT_EQ(match(R"({"Config":{},"Model":{"learner":{}}})"), Match::maybe);
  EXPECT_EQ(match(R"({"Config":{"learner":{)"), Match::yes);
  EXPECT_EQ(match(R"({"Config":{"a":"learner"}})"), Match::maybe);
  EXPECT_EQ(match(R"({"version":1})"), Match::no);
  EXPECT_EQ(match(small_xgboost_ubjson()), Match::yes);
  EXPECT_EQ(match("{i\7learner{"), Match::yes);
  EXPECT_EQ(match("{L" + big(-1ULL) + "learner"), Match::no);
  EXPECT_EQ(match(small_xgboost_binary()), Match::yes);
  EXPECT_EQ(match(binary_learner("rank:pairwise", "gbtree")), Match::yes);
  EXPECT_EQ(match(binary_learner("gpu:reg:linear", "gbtree")), Match::yes);
  EXPECT_EQ(match(binary_learner("other", "gbtree")), Match::no);
  EXPECT_EQ(match(binary_learner("reg:linear", "tree")), Match::no);
  EXPECT_EQ(match("binf"), Match::yes);
  EXPECT_THAT(error_of("binf"), HasSubstr("xgboost: "));
}

}  // namespace
}  // namespace weightfs::xgboost_test
