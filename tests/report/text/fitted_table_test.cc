#include "report/text/fitted_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/name_lists.h"

namespace weightfs::fitted_table_test {
namespace {

using info::Charset;
using info::Colours;
using info::FittedColumn;
using info::FittedRow;
using info::FittedTable;
using info::NameForm;
using info::ShownNames;
using info::Style;
using testing::ElementsAre;

constexpr Style kUtf8{80, Charset::utf8, Colours::off};

ShownNames names_of(const std::vector<std::string>& names) {
  return {names.size(), [&](size_t row) { return names[row]; }};
}

std::string printed(const std::vector<FittedColumn>& columns, const std::vector<FittedRow>& rows, size_t width) {
  const Style style{width, Charset::utf8, Colours::off};
  return "\n" + info::emit(info::fitted_table(columns, rows, style).lines, style);
}

const std::vector<FittedColumn> kFigures = {{"tensor", 0, true}, {"dtype", 6, true},      {"elements", 5, false},
                                            {"std", 1, false},   {"min", 1, false},       {"max", 1, false},
                                            {"zeros", 4, false}, {"flags", 1, true, true}};

FittedRow figures_of(const std::string& name) {
  return {name, "bfloat16", "16.8 M", "0.01234", "-0.1234", "0.1234", "12", ""};
}

std::vector<std::string> numbers_in(std::string_view name) {
  std::vector<std::string> numbers;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string component(name.substr(begin, end - begin));
    if (component.find_first_not_of("0123456789") == component.npos) numbers.push_back(component);
    begin = end + 1;
  }
  return numbers;
}

TEST(ShownNames, LoseWhatMostBeginWithThenWeight) {
  const ShownNames names = names_of(test::llama_names());
  EXPECT_EQ(names.shortest(), NameForm::without_weight);
  const std::string q = "model.layers.7.self_attn.q_proj.weight";
  EXPECT_EQ(names.shown(q, NameForm::whole), q);
  EXPECT_EQ(names.shown(q, NameForm::without_beginning), "7.self_attn.q_proj.weight");
  EXPECT_EQ(names.shown(q, NameForm::without_weight), "7.self_attn.q_proj");
  EXPECT_EQ(names.shown("lm_head.weight", NameForm::without_weight), "lm_head");
  EXPECT_EQ(names.header("tensor", NameForm::whole, kUtf8), "tensor");
  EXPECT_EQ(names.header("tensor", NameForm::without_weight, kUtf8), "tensor (model.layers.….weight)");
  EXPECT_EQ(names.header("tensor", NameForm::without_beginning, kUtf8), "tensor (model.layers.)");
}

// `x` and `x.weight`, or `x` and `model.x`, would look equal.
TEST(ShownNames, KeepWhatTellsThemApart) {
  EXPECT_EQ(names_of({"a.x.weight", "a.x", "b.y.weight"}).shortest(), NameForm::without_beginning);
  EXPECT_EQ(names_of({"a.b.x", "a.b.y", "x"}).shortest(), NameForm::whole);
  EXPECT_EQ(names_of({"a.", "a.b.c", "a.b.d"}).shown("a.", NameForm::without_weight), "a.");
  EXPECT_EQ(names_of({".weight", "weight", "."}).shown(".weight", NameForm::without_weight), ".weight");
}

TEST(ShownNames, NeverLoseANumber) {
  const ShownNames names = names_of({"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.ffn_up.weight"});
  EXPECT_EQ(names.shown("blk.0.attn_q.weight", names.shortest()), "0.attn_q");
}

TEST(ShownNames, UnderscoresSeparateTheNamesOfKohya) {
  const ShownNames names =
      names_of({"lora_unet_down_blocks_0_to_q.lora_up.weight", "lora_unet_down_blocks_1_to_q.alpha"});
  EXPECT_EQ(names.shown("lora_unet_down_blocks_0_to_q.lora_up.weight", names.shortest()), "0_to_q.lora_up");
  EXPECT_EQ(names_of({"self_attn.q", "self_attn.k"}).shown("self_attn.q", NameForm::without_weight), "q");
}

TEST(ShownNames, RealNamesAreDistinctAndKeepTheirLayers) {
  for (const auto& [model, list] : test::name_lists()) {
    const ShownNames names = names_of(list);
    EXPECT_EQ(names.shortest(), NameForm::without_weight) << model;
    std::set<std::string> shown;
    for (const std::string& name : list) {
      const std::string text(names.shown(name, names.shortest()));
      shown.insert(text);
      EXPECT_NE(name.find(text), name.npos) << model;
      EXPECT_EQ(numbers_in(text), numbers_in(name)) << model << ": " << name;
    }
    EXPECT_EQ(shown.size(), list.size()) << model;
  }
}

// A row shows its whole name but for what the header has.
TEST(FittedTable, RealNamesAreNeverCut) {
  for (const auto& [model, list] : test::name_lists())
    for (const size_t width : {40U, 80U, 120U}) {
      FittedTable table(kFigures, names_of(list), kUtf8, width);
      for (const std::string& name : list) table.measure(figures_of(name));
      table.fit();
      const ShownNames names = names_of(list);
      std::string header;
      for (const std::string& line : table.header_lines()) header += line;
      const NameForm form = header.find("….weight") != header.npos ? NameForm::without_weight
                            : header.find('(') != header.npos      ? NameForm::without_beginning
                                                                   : NameForm::whole;
      for (const std::string& name : list) {
        std::string text;
        for (const std::string& line : table.lines_of(figures_of(name))) {
          EXPECT_LE(info::width_of(line), width) << model << ": " << line;
          text += line;
        }
        EXPECT_TRUE(text.starts_with(names.shown(name, form))) << model << " at " << width << ": " << text;
        EXPECT_NE(text.find("0.01234"), text.npos) << text;
      }
    }
}

TEST(FittedTable, LongNamesHaveLinesOfTheirOwn) {
  const std::vector<FittedRow> rows = {figures_of("model.layers.0.mlp.up_proj.weight"),
                                       figures_of("model.layers.1.mlp.up_proj.weight"),
                                       figures_of("model.layers.1.post_attention_layernorm_of_a_long_name.weight")};
  EXPECT_EQ(printed(kFigures, rows, 100), R"(
tensor (model.layers.….weight)             dtype     elements      std      min     max  zeros
0.mlp.up_proj                              bfloat16    16.8 M  0.01234  -0.1234  0.1234     12
1.mlp.up_proj                              bfloat16    16.8 M  0.01234  -0.1234  0.1234     12
1.post_attention_layernorm_of_a_long_name  bfloat16    16.8 M  0.01234  -0.1234  0.1234     12
)");
  EXPECT_EQ(printed(kFigures, rows, 60), R"(
tensor (model.layers.….weight)          std      min     max
0.mlp.up_proj                       0.01234  -0.1234  0.1234
1.mlp.up_proj                       0.01234  -0.1234  0.1234
1.post_attention_layernorm_of_a_long_name
                                    0.01234  -0.1234  0.1234
)");
}

TEST(FittedTable, LongNoteIsPrintedBelowItsRow) {
  std::vector<FittedRow> rows = {figures_of("a"), figures_of("b")};
  rows[1].back() = "refused: 12 bytes left, 64 needed; the file is cut";
  EXPECT_EQ(printed(kFigures, rows, 60), R"(
tensor  elements      std      min     max  zeros  flags
a         16.8 M  0.01234  -0.1234  0.1234     12
b         16.8 M  0.01234  -0.1234  0.1234     12
    refused: 12 bytes left, 64 needed; the file is cut
)");
}

TEST(BrokenName, BreaksAfterSeparators) {
  EXPECT_THAT(info::broken_name("conditioner.embedders.1.model", 14),
              ElementsAre("conditioner.", "embedders.1.", "model"));
  EXPECT_THAT(info::broken_name("transformer_blocks_0_attn1_to_q", 14),
              ElementsAre("transformer_", "blocks_0_", "attn1_to_q"));
  EXPECT_THAT(info::broken_name("abcdefghij", 4), ElementsAre("abcd", "efgh", "ij"));
  EXPECT_THAT(info::broken_name("", 4), ElementsAre(""));
}

}  // namespace
}  // namespace weightfs::fitted_table_test
