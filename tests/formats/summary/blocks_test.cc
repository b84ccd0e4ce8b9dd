#include "formats/summary/blocks.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "formats/summary/name_tree.h"
#include "tests/builders/named_tensors.h"

namespace weightfs::summary_blocks_test {
namespace {

using summary::Block;
using summary::fold_blocks;
using summary::Role;
using test::NamedTensors;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<Block> fold(const NamedTensors& model, size_t lines = 12) {
  return fold_blocks(model.tensors, model.counted, lines);
}

// "path 5 × 32, 41.9 million parameters each, 737 MiB": numbers as in the table for people, but exact.
std::vector<std::string> rows_of(std::span<const Block> blocks) {
  std::vector<std::string> out;
  for (const Block& block : blocks)
    out.push_back(fmt::format("{} | {} x {} | {} | {}", block.path, block.tensors / block.members, block.members,
                              block.parameters / block.members, block.bytes));
  return out;
}

std::vector<std::string> paths_of(std::span<const Block> blocks) {
  std::vector<std::string> out;
  for (const Block& block : blocks) out.push_back(block.path);
  return out;
}

std::vector<std::string> paths(const std::vector<std::string>& names, size_t lines = 12) {
  NamedTensors model;
  for (const std::string& name : names) model.add(name, "float32", {16});
  return paths_of(fold(model, lines));
}

uint64_t tensors_in(std::span<const Block> blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), uint64_t{0},
                         [](uint64_t sum, const Block& block) { return sum + block.tensors; });
}

TEST(Blocks, LayersOfAGgufAreFoldedByTheFirstWordOfTheirTensors) {
  const NamedTensors model = test::llama_8b_gguf();
  ASSERT_EQ(model.tensors.size(), 291u);
  const auto blocks = fold(model);
  EXPECT_THAT(rows_of(blocks), ElementsAre("token_embd | 1 x 1 | 525336576 | 295501824",        //
                                           "blk.0…31.attn_* | 5 x 32 | 41947136 | 772800512",   //
                                           "blk.0…31.ffn_* | 4 x 32 | 176164864 | 3413639168",  //
                                           "output_norm | 1 x 1 | 4096 | 16384",                //
                                           "output | 1 x 1 | 525336576 | 430940160"));
  EXPECT_EQ(blocks[1].members_with, (std::map<std::string, uint64_t>{{"float32", 32}, {"q4_k", 32}, {"q6_k", 16}}));
}

TEST(Blocks, ExpertsOfAllLayersAreOneRow) {
  const NamedTensors model = test::deepseek_v3();
  const auto blocks = fold(model);
  EXPECT_EQ(tensors_in(blocks), 46'183u);
  EXPECT_THAT(rows_of(blocks),
              ElementsAre("model.embed_tokens | 1 x 1 | 926679040 | 1853358080",             //
                          "model.layers.0…2 | 12 x 3 | 583483392 | 1750927008",              //
                          "model.layers.3…60.self_attn | 7 x 58 | 187107328 | 10854999744",  //
                          "model.layers.3…60: other | 7 x 58 | 45889792 | 2769538048",       //
                          "model.layers.3…60.mlp.experts.0…255 | 3 x 14848 | 44040192 | 654068416512",
                          "model.layers.61 | 788 x 1 | 13463426304 | 15424227552",  //
                          "model.norm | 1 x 1 | 7168 | 14336",                      //
                          "lm_head | 1 x 1 | 926679040 | 1853358080"));
}

TEST(Blocks, LayersOfAHybridModelAreFoldedByTheirKind) {
  const NamedTensors model = test::qwen3_next_80b();
  const auto blocks = fold(model);
  EXPECT_EQ(tensors_in(blocks), 74'391u);
  EXPECT_THAT(rows_of(blocks),
              ElementsAre("model.embed_tokens | 1 x 1 | 311164928 | 622329856",
                          "model.layers.0, 1, 2, …, 46.linear_attn | 7 x 36 | 33718464 | 2427729408",
                          "model.layers.0, 1, 2, …, 46: other | 7 x 36 | 4200448 | 302432256",
                          "model.layers.0, 1, 2, …, 46.mlp.experts.0…511 | 3 x 18432 | 3145728 | 115964116992",
                          "model.layers.3, 7, …, 47: other | 13 x 12 | 31463936 | 755134464",
                          "model.layers.3, 7, …, 47.mlp.experts.0…511 | 3 x 6144 | 3145728 | 38654705664",
                          "model.norm | 1 x 1 | 2048 | 4096", "lm_head | 1 x 1 | 311164928 | 622329856"));
}

std::vector<std::string> numbered(std::string_view before, std::vector<int> numbers, std::string_view after) {
  std::vector<std::string> out;
  for (const int number : numbers) out.push_back(fmt::format("{}{}{}", before, number, after));
  return out;
}

TEST(Blocks, LabelOfNumbersShowsTheirOrder) {
  const auto label = [](std::vector<int> numbers) { return paths(numbered("h.", std::move(numbers), ".a.b.w")); };
  EXPECT_THAT(label({0}), ElementsAre("h.0.a.b"));
  EXPECT_THAT(label({0, 1}), ElementsAre("h.0…1.a.b"));
  EXPECT_THAT(label({2, 0, 1, 3}), ElementsAre("h.0…3.a.b"));
  EXPECT_THAT(label({3, 7}), ElementsAre("h.3, 7.a.b"));
  EXPECT_THAT(label({3, 7, 11}), ElementsAre("h.3, 7, 11.a.b"));
  EXPECT_THAT(label({3, 7, 11, 15}), ElementsAre("h.3, 7, …, 15.a.b"));
  EXPECT_THAT(label({0, 1, 4, 5}), ElementsAre("h.0, 1, 4, 5.a.b"));
  EXPECT_THAT(label({0, 1, 4, 5, 9}), ElementsAre("h.0, 1, 4, …, 9.a.b"));
}

TEST(Blocks, LayerOfAnotherShapeIsARowOfItsOwn) {
  NamedTensors model;
  for (int layer = 0; layer < 4; ++layer)
    model.add(fmt::format("h.{}.a.w", layer), "float32", {layer == 3 ? 32u : 16u})
        .add(fmt::format("h.{}.b.w", layer), "float32", {16});
  EXPECT_THAT(paths_of(fold(model, 2)), ElementsAre("h.0…2", "h.3"));
}

TEST(Blocks, TypesAndTheOrderOfTensorsDoNotMatter) {
  NamedTensors model;
  model.add("h.0.a.w", "float32", {16}).add("h.0.b.w", "float32", {16});
  model.add("h.1.b.w", "float16", {16}).add("h.1.a.w", "float32", {16});
  const auto blocks = fold(model, 2);
  EXPECT_THAT(paths_of(blocks), ElementsAre("h.0…1"));
  EXPECT_EQ(blocks.front().dtypes, (std::map<std::string, uint64_t>{{"float16", 32}, {"float32", 192}}));
  EXPECT_EQ(blocks.front().members_with, (std::map<std::string, uint64_t>{{"float16", 1}, {"float32", 2}}));
}

TEST(Blocks, LayersPackedWithDifferentNumbersOfBitsAreEqual) {
  NamedTensors model;
  model.add_counted({Role::parameter, 64}, "h.0.q.w", "uint32", {8}).add("h.0.n.w", "float32", {4});
  model.add_counted({Role::parameter, 64}, "h.1.q.w", "uint32", {16}).add("h.1.n.w", "float32", {4});
  EXPECT_THAT(paths_of(fold(model)), ElementsAre("h.0…1"));
}

TEST(Blocks, NumbersAfterAStemCountIfThreeSiblingsShareIt) {
  EXPECT_THAT(paths({"dense_1/k", "dense_2/k", "dense_3/k", "out/k"}), ElementsAre("dense_1…3", "out"));
  EXPECT_THAT(paths({"dense_1/k", "dense_2/k", "out/k"}), ElementsAre("dense_1", "dense_2", "out"));
  EXPECT_THAT(paths({"conv1.w", "conv2.w", "conv3.w"}), ElementsAre("conv1…3"));
  EXPECT_THAT(paths({"unet_blocks_0_attn.w", "unet_blocks_1_attn.w", "unet_blocks_2_attn.w", "a"}),
              ElementsAre("unet_blocks_0…2_attn", "a"));
}

TEST(Blocks, CompanionsAndDuplicatesAreNotCounted) {
  NamedTensors model;
  model.add_as(Role::companion, "a.scales", "float32", {4}).add("a.weight", "uint8", {8});
  model.add_as(Role::buffer, "a.mask", "bool", {2}).add_as(Role::duplicate, "b", "uint8", {8});
  const auto blocks = fold(model);
  EXPECT_THAT(rows_of(blocks), ElementsAre("a | 2 x 1 | 8 | 26", "b | 1 x 1 | 0 | 0"));
  EXPECT_EQ(blocks[0].dtypes, (std::map<std::string, uint64_t>{{"bool", 2}, {"uint8", 8}}));
  EXPECT_EQ(blocks[1].duplicates, 1u);
  EXPECT_THAT(blocks[1].dtypes, IsEmpty());
}

TEST(Blocks, RefusedTensorsHaveTheSizeOfTheirShape) {
  NamedTensors model;
  model.add("h.0.w", "float32", {4}).add_refused("h.1.w", "float32", {4}).add("x", "float32", {1});
  const auto blocks = fold(model);
  EXPECT_THAT(rows_of(blocks), ElementsAre("h | 2 x 1 | 8 | 32", "x | 1 x 1 | 1 | 4"));
  EXPECT_EQ(blocks[0].refused, 1u);
}

TEST(Blocks, SmallestOfTooManyTopLevelNamesAreMerged) {
  NamedTensors model;
  for (unsigned i = 0; i < 20; ++i) model.add(fmt::format("net.{}.fc.w", static_cast<char>('a' + i)), "uint8", {i + 1});
  EXPECT_THAT(paths_of(fold(model, 4)), ElementsAre("net: other", "net.r.fc", "net.s.fc", "net.t.fc"));
  EXPECT_EQ(tensors_in(fold(model, 4)), 20u);
}

TEST(Blocks, SmallRowsOutsideOfFoldsAreKept) {
  NamedTensors model;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = fmt::format("h.{}.", layer);
    model.add(name + "ln_1.w", "uint8", {1}).add(name + "mlp.up.w", "uint8", {9000});
    model.add(name + "mlp.down.x.w", "uint8", {8000}).add(name + "ln_2.w", "uint8", {1});
  }
  model.add("norm.w", "uint8", {1}).add("norm.b", "uint8", {1}).add("bias", "uint8", {1});
  EXPECT_THAT(paths_of(fold(model)), ElementsAre("h.0…2: other", "h.0…2.mlp.up", "h.0…2.mlp.down.x", "norm", "bias"));
  EXPECT_THAT(paths_of(fold(model, 4)), ElementsAre("h.0…2: other", "h.0…2.mlp", "norm", "bias"));
}

TEST(Blocks, BudgetOfLinesIsNeverExceeded) {
  const NamedTensors model = test::qwen3_30b();
  for (size_t lines = 1; lines <= 40; lines += 3) {
    const auto blocks = fold(model, lines);
    EXPECT_LE(blocks.size(), std::max<size_t>(lines, 2));
    EXPECT_EQ(tensors_in(blocks), 18'867u);
  }
}

TEST(Blocks, NamesOfAnyBytesAreFolded) {
  EXPECT_THAT(fold(NamedTensors()), IsEmpty());
  EXPECT_THAT(paths({""}), ElementsAre(""));
  EXPECT_THAT(paths({"."}), ElementsAre(""));
  EXPECT_THAT(paths({"a..b.w", "a..c.x.w"}), ElementsAre("a..b", "a..c.x"));
  EXPECT_THAT(paths({"/a//w", "/b/c/w"}), ElementsAre("/a/", "/b/c"));
  EXPECT_THAT(paths({"a", "a.b.x", "a.c.d.x"}), ElementsAre("a", "a.b", "a.c.d"));
  EXPECT_THAT(paths({std::string("a\0b.x", 5), "\x1B[31m.x", "\xFF\xFE.x"}),
              ElementsAre(std::string("a\0b", 3), "\x1B[31m", "\xFF\xFE"));
  EXPECT_THAT(paths({"same", "same"}), ElementsAre("same"));
}

TEST(Blocks, LeadingZerosStayInLabels) {
  EXPECT_THAT(paths({"h.00.a.w.x", "h.01.a.w.x", "h.02.a.w.x"}), ElementsAre("h.00…02.a.w"));
  EXPECT_THAT(paths({"h.1.a.w.x", "h.01.a.w.x"}), ElementsAre("h.01, 1.a.w"));
}

TEST(Blocks, HugeNumbersAreNames) {
  EXPECT_THAT(paths({"h.999999999999999999.a.w.x", "h.0.a.w.x"}), ElementsAre("h.0, 999999999999999999.a.w"));
  EXPECT_THAT(paths({"h.9999999999999999999999.a.w", "h.0.a.w"}), ElementsAre("h.9999999999999999999999.a", "h.0.a"));
}

TEST(Blocks, DeepNamesEndAfterSixteenComponents) {
  std::string name = "0";
  for (int i = 1; i < 50'000; ++i) name += ".0";
  const auto rows = paths({name, name + ".x", "y"});
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[1], "y");
  EXPECT_LE(rows[0].size(), 2 * summary::NameTree::kMaxComponents);
}

TEST(Blocks, HundredThousandDistinctNamesAreOneRowOfOthers) {
  NamedTensors model;
  for (uint64_t i = 0; i < 100'000; ++i) model.add(fmt::format("a{}.b{}x.c", i * i, i), "uint8", {i % 5 + 1});
  const auto blocks = fold(model);
  EXPECT_LE(blocks.size(), 12u);
  EXPECT_EQ(tensors_in(blocks), 100'000u);
}

TEST(Blocks, TooManyComponentsAreATableOfTypes) {
  NamedTensors model;
  for (uint64_t i = 0; i < 10; ++i) model.add(fmt::format("{0}.a{0}.b", i), i == 7 ? "float32" : "uint8", {2});
  EXPECT_THAT(paths_of(fold_blocks(model.tensors, model.counted, 12, 30)), SizeIs(10));
  const auto blocks = fold_blocks(model.tensors, model.counted, 12, 29);
  EXPECT_THAT(paths_of(blocks), ElementsAre("uint8", "float32"));
  EXPECT_EQ(tensors_in(blocks), 10u);
}

TEST(Blocks, JsonHasNumbersOfAllMembers) {
  const Value list = to_list(fold(test::llama_lora(), 2));
  EXPECT_EQ(to_json_line(list),
            R"([{"path":"base_model.model.model.layers.0…31.self_attn.q_proj","members":32,"tensors":64,)"
            R"("parameters":4194304,"bytes":16777216,"dtypes":{"float32":16777216}},)"
            R"({"path":"base_model.model.model.layers.0…31.self_attn.v_proj","members":32,"tensors":64,)"
            R"("parameters":2621440,"bytes":10485760,"dtypes":{"float32":10485760}}])");
}

}  // namespace
}  // namespace weightfs::summary_blocks_test
