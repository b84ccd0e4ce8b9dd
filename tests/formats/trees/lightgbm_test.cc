#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/trees_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::lightgbm_test {
namespace {

using namespace test::trees;
using test::error_in;
using test::listing;
using test::little;
using test::metadata_of;
using test::well;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Result<Model> read(const std::string& bytes) { return read_as("lightgbm", {"m.txt", in_memory(bytes)}); }

std::string doubles(std::initializer_list<double> numbers) {
  std::string bytes;
  for (const double number : numbers) bytes += little(std::bit_cast<uint64_t>(number));
  return bytes;
}

// A model with one tree of these rows.
std::string with_tree(std::string_view rows) {
  return std::string(kLightGbmHeader) + lightgbm_tree(0, rows) + std::string(kLightGbmEnd);
}

TEST(LightGbm, RowsOfTreesAreTensors) {
  const Model model = well(read(small_lightgbm()));
  EXPECT_EQ(model.format, "lightgbm");
  EXPECT_EQ(model.version, "v4");
  EXPECT_THAT(
      listing(model),
      ElementsAre("trees.0.split_feature int32 int32 [1] " + little(1, 4),
                  "trees.0.threshold float64 float64 [1] " + doubles({0.5}),
                  "trees.0.left_child int32 int32 [1] " + little(0xFFFFFFFF, 4),
                  "trees.0.right_child int32 int32 [1] " + little(0xFFFFFFFE, 4),
                  "trees.0.leaf_value float64 float64 [2] " + doubles({-std::numeric_limits<double>::infinity(), 0.1}),
                  "trees.1.split_feature int32 int32 [0] ", "trees.1.leaf_value float64 float64 [1] " + doubles({3})));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(LightGbm, TheRestIsMetadata) {
  const Model model = well(read(small_lightgbm()));
  EXPECT_EQ(metadata_of(model, "objective"), "\"binary sigmoid:1\"");
  EXPECT_EQ(metadata_of(model, "max_feature_idx"), "1");
  EXPECT_EQ(metadata_of(model, "average_output"), "true");
  EXPECT_EQ(metadata_of(model, "feature_names"), R"(["a","b"])");
  EXPECT_EQ(metadata_of(model, "feature_infos"), R"(["[0:1]","none"])");
  EXPECT_EQ(metadata_of(model, "parameters"), R"({"boosting":"gbdt"})");
  EXPECT_EQ(metadata_of(model, "pandas_categorical"), "\"[]\"");
  EXPECT_EQ(metadata_of(model, "trees"), R"({"count":2,"num_leaves":[2,1],"num_cat":[0,0],"shrinkage":[0.1,1],)"
                                         R"("is_linear":[null,null]})");
}

TEST(LightGbm, CarriageReturnsAreWhiteSpace) {
  std::string text;
  for (const char c : small_lightgbm()) text += c == '\n' ? "\r\n" : std::string(1, c);
  const Model model = well(read(text));
  EXPECT_EQ(listing(model), listing(well(read(small_lightgbm()))));
  EXPECT_EQ(metadata_of(model, "trees"), metadata_of(well(read(small_lightgbm())), "trees"));
}

TEST(LightGbm, CategoricalAndLinearRowsHaveLengthsOfTheirOwn) {
  const Model model =
      well(read(with_tree("num_leaves=2\nnum_cat=1\ncat_boundaries=0 2\ncat_threshold=4294967295 1\n"
                          "is_linear=1\nleaf_features=0 1  1 \nsplit_gain=1e-45\nthreshold=-0\n")));
  EXPECT_EQ(model.tensors[1].shape.front(), 2U);
  EXPECT_EQ(listing(model)[2], "trees.0.leaf_features int32 int32 [3] " + little(0, 4) + little(1, 4) + little(1, 4));
  EXPECT_EQ(listing(model)[3], "trees.0.split_gain float32 float32 [1] " + little(1, 4));
  EXPECT_EQ(listing(model)[4], "trees.0.threshold float64 float64 [1] " + doubles({-0.0}));
  EXPECT_THAT(model.warnings, Not(Contains(HasSubstr("elements"))));
}

TEST(LightGbm, MissingRowsOfTreesMakeTheModelIncomplete) {
  for (const char* const key : {"split_feature", "threshold", "left_child", "right_child", "leaf_value"}) {
    std::string text = small_lightgbm();
    text.replace(text.find(std::string("\n") + key) + 1, 1, "x");
    const Model model = well(read(text));
    EXPECT_EQ(model.lacks->missing_tensors, 1U);
    EXPECT_THAT(model.warnings, Contains(fmt::format("trees.0: {} is missing", key)));
  }
  EXPECT_TRUE(completeness_of(well(read(small_lightgbm()))).is_complete())
      << "a tree of one leaf has no rows of splits";
}

TEST(LightGbm, TreesOutOfOrderMakeTheModelIncomplete) {
  const auto sentence = [](const std::string& number) {
    std::string text = small_lightgbm();
    text.replace(text.find("Tree=1"), 6, "Tree=" + number);
    return to_sentence(completeness_of(well(read(text))));
  };
  EXPECT_EQ(sentence("1"), "");
  EXPECT_EQ(sentence("0"), "the model is incomplete: Tree=0 follows Tree=0");
  EXPECT_EQ(sentence("3"), "the model is incomplete: Tree=3 follows Tree=0");
  EXPECT_EQ(sentence("x"), "the model is incomplete: Tree=? follows Tree=0");
}

TEST(LightGbm, RowsThatAreNoNumbersAreRefused) {
  const auto row = [](const std::string& text) { return listing(well(read(with_tree(text + "\n")))).at(0); };
  EXPECT_EQ(row("leaf_value=abc 1"), "trees.0.leaf_value float64 float64 [] refused");
  EXPECT_EQ(row("leaf_count=1.5"), "trees.0.leaf_count int32 int32 [] refused");
  EXPECT_EQ(row("decision_type=128"), "trees.0.decision_type int8 int8 [] refused");
  EXPECT_EQ(row("leaf_value=" + std::string(200'000, '1')), "trees.0.leaf_value float64 float64 [] refused");
}

TEST(LightGbm, LengthsThatDifferAreWarnings) {
  const Model model = well(read(with_tree("num_leaves=2000000000\nnum_cat=0\nleaf_value=1 2\n")));
  EXPECT_THAT(model.warnings[0], HasSubstr("2 elements, num_leaves is 2000000000"));
}

TEST(LightGbm, LengthsAtTheEndsOfTheirRangeAreWarnings) {
  const Model model =
      well(read(with_tree("num_leaves=-9223372036854775808\nnum_cat=-9223372036854775808\n"
                          "leaf_value=1\nthreshold=1\ncat_boundaries=1\n")));
  EXPECT_THAT(model.warnings, SizeIs(4));
}

TEST(LightGbm, TreesThatAreMissingMakeTheModelIncomplete) {
  std::string text = small_lightgbm();
  text.replace(text.find("Tree=1"), 4, "Trxe");
  const Model model = well(read(text));
  EXPECT_THAT(model.warnings, ElementsAre("1 trees, tree_sizes has 2"));
  EXPECT_EQ(model.lacks->missing_tensors, 1U);
}

TEST(LightGbm, WhatIsNotShownIsAWarning) {
  std::string text = small_lightgbm();
  text.insert(text.find("leaf_value=3"), "new_row=1 2\n");
  EXPECT_THAT(well(read(text)).warnings, ElementsAre("1 lines are not shown"));
  text = small_lightgbm() + "pandas_categorical:" + std::string(5000, 'x') + "\n";
  EXPECT_THAT(well(read(text)).warnings, ElementsAre("1 values of the metadata are longer than 4096 bytes, and cut"));
}

TEST(LightGbm, CutFilesHaveTheirWholeTrees) {
  const std::string whole = small_lightgbm();
  const Model model = well(read(whole.substr(0, whole.find("leaf_value=3"))));
  EXPECT_THAT(model.tensors, SizeIs(5));
  EXPECT_THAT(model.warnings, ElementsAre("the file was cut: 1 whole trees of 2"));
  EXPECT_EQ(error_in(read(whole.substr(0, whole.find("num_leaves")))), "lightgbm: no trees");
  EXPECT_EQ(error_in(read("tree\n")), "lightgbm: no trees");
}

// What a model of these bytes lacks, as `info` prints it.
std::string lack_of(const std::string& bytes) { return to_sentence(completeness_of(well(read(bytes)))); }

TEST(LightGbm, CutFilesAreIncomplete) {
  const std::string whole = small_lightgbm();
  for (size_t size = whole.find("Tree=1"); size < whole.find("[boosting"); ++size) {
    // How many features have importances, and whether parameters follow, is not stated.
    if (size > whole.find("feature_imp") && whole[size - 1] == '\n' && size <= whole.find("parameters:")) continue;
    EXPECT_THAT(lack_of(whole.substr(0, size)), HasSubstr("the file was cut")) << size;
  }
  EXPECT_EQ(lack_of(whole.substr(0, whole.find("end of par"))),
            "the model is incomplete: the file was cut behind its trees");
  EXPECT_NE(lack_of(whole.substr(0, whole.find("[]"))), "");
  EXPECT_NE(lack_of(whole.substr(0, whole.find(":[]"))), "");
}

TEST(LightGbm, CutFilesWithoutSizesAreIncomplete) {
  std::string text = small_lightgbm();
  text.erase(text.find("tree_sizes"), sizeof("tree_sizes=10 10"));
  EXPECT_EQ(lack_of(text), "");
  EXPECT_EQ(lack_of(text.substr(0, text.find("end of trees"))),
            "the model is incomplete: the file was cut: 2 whole trees");
}

TEST(LightGbm, LastLineBreakMayBeMissing) {
  std::string text = small_lightgbm();
  text.pop_back();
  EXPECT_EQ(lack_of(text), "");
  text.resize(text.find("\n\npandas"));
  EXPECT_EQ(lack_of(text), "");
}

TEST(LightGbm, FilesOfVersionsWithoutTheLineBehindTheTreesAreWhole) {
  std::string text = small_lightgbm();
  text.erase(text.find("end of trees\n"), sizeof("end of trees"));
  EXPECT_EQ(lack_of(text), "");
}

TEST(LightGbm, LinesOfManyCategoriesAreRead) {
  std::string infos = "0", threshold;
  for (int i = 1; i < 200'000; ++i) infos += fmt::format(":{}", i);
  for (int i = 0; i < 200'000; ++i) threshold += "4294967295 ";
  std::string text = with_tree("num_cat=1\ncat_boundaries=0 200000\ncat_threshold=" + threshold + "\n");
  text.replace(text.find("[0:1]"), 5, infos);
  const Model model = well(read(text));
  EXPECT_EQ(model.tensors[1].shape, Shape{200'000});
  EXPECT_THAT(model.warnings, ElementsAre("1 trees, tree_sizes has 2",
                                          "1 texts in lists of the metadata are longer than 1048576 bytes, and cut"));
}

TEST(LightGbm, NulBytesEndTheText) {
  const std::string zeros(10, '\0');
  EXPECT_THAT(well(read(small_lightgbm() + zeros)).warnings, ElementsAre("10 bytes after the text"));
  EXPECT_EQ(error_in(read("tree\nversion=v4" + zeros)), "lightgbm: a NUL byte at 15");
  EXPECT_EQ(error_in(read("tree\nfeature_names=a" + zeros)), "lightgbm: a NUL byte at 20");
  EXPECT_EQ(error_in(read("tree\n\nTree=0\nleaf_value=1" + zeros)), "lightgbm: a NUL byte at 25");
}

TEST(LightGbm, LongListsAreDocuments) {
  std::string header = "tree\nversion=v3\nfeature_names=", expected;
  for (int i = 0; i < 1025; ++i) header += fmt::format("f{} ", i);
  for (int i = 0; i < 1025; ++i) expected += fmt::format("{}\n  \"f{}\"", i == 0 ? "" : ",", i);
  const Model model = well(read(header + "\n\nend of trees\n"));
  EXPECT_EQ(metadata_of(model, "feature_names"), R"({"path":"metadata/feature_names.json"})");
  ASSERT_THAT(model.documents, SizeIs(1));
  EXPECT_EQ(test::text_of(*well(model.documents[0].source.get())), "[" + expected + "\n]\n");
}

TEST(LightGbm, IsDetectedByItsFirstLines) {
  const auto match = [](const std::string& bytes) { return matches_lightgbm(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_lightgbm()), Match::yes);
  EXPECT_EQ(match("tree\r\nversion=v2"), Match::yes);
  EXPECT_EQ(match("tree\n"), Match::no);
  EXPECT_EQ(match("trees\nversion="), Match::no);
}

}  // namespace
}  // namespace weightfs::lightgbm_test
