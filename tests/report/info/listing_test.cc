#include "report/info/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/command_line.h"
#include "tests/report/info/summaries.h"

namespace weightfs::info_listing_test {
namespace {

using info::Names;
using info::Style;
using test::Summarised;

std::string tensors_of(const Summarised& model, const Style& style, Names names) {
  std::string out = "\n";
  info::list_tensors(model.subject(), style, names, [&](const std::string& line) { out += info::emit({line}, style); });
  return out;
}

std::string metadata_of(const Model& model, const Style& style) {
  std::string out = "\n";
  info::list_metadata(model, "m.gguf", style, [&](const std::string& line) { out += line + "\n"; });
  return out;
}

Summarised small() {
  test::NamedTensors tensors;
  tensors.add("model.embed_tokens.weight", "bfloat16", {4096, 256});
  tensors.add_counted({summary::Role::parameter, 1'048'576}, "model.layers.0.mlp.down_proj.qweight", "int32",
                      {128, 1024});
  tensors.add_refused("lm_head.weight", "bfloat16", {4096, 256});
  return test::summarised(std::move(tensors));
}

TEST(InfoListing, TensorsHaveTheirLogicalElements) {
  EXPECT_EQ(tensors_of(small(), {}, Names::complete), R"(
  tensor                                dtype     shape        elements      size
  model.embed_tokens.weight             bfloat16  [4096,256]  1,048,576  2.00 MiB
  model.layers.0.mlp.down_proj.qweight  int32     [128,1024]  1,048,576   512 KiB
  lm_head.weight                        bfloat16  [4096,256]  1,048,576  2.00 MiB  refused
)");
}

TEST(InfoListing, NamesLoseWhatMostHaveInCommonOnATerminal) {
  EXPECT_EQ(tensors_of(small(), {.width = 72}, Names::shortened), R"(
  tensor (model.….weight)         dtype     shape
  embed_tokens                    bfloat16  [4096,256]
  layers.0.mlp.down_proj.qweight  int32     [128,1024]
  lm_head                         bfloat16  [4096,256]  refused
Columns are left out; a wider terminal, a pipe or --json has them all.
)");
}

TEST(InfoListing, ColumnsThatDoNotFitAreLeftOut) {
  EXPECT_EQ(tensors_of(small(), {.width = 60}, Names::shortened), R"(
  tensor (model.….weight)         dtype
  embed_tokens                    bfloat16
  layers.0.mlp.down_proj.qweight  int32
  lm_head                         bfloat16  refused
Columns are left out; a wider terminal, a pipe or --json has
them all.
)");
}

TEST(InfoListing, TensorsFitAnyWidth) {
  test::NamedTensors tensors;
  tensors.add_refused("a.name.of.a.tensor.that.is.longer.than.a.terminal", "bfloat16", {1, 4096, 4096, 16, 16, 3});
  const Summarised model = test::summarised(std::move(tensors));
  for (size_t width = 40; width < 120; ++width)
    for (const std::string& line : test::lines_of(tensors_of(model, {.width = width}, Names::shortened)))
      EXPECT_LE(info::width_of(line), width) << line;
}

TEST(InfoListing, LongMetadataIsReplacedByItsLengthAndFile) {
  Model model;
  Map tokens;
  tokens.append("count", uint64_t{128'256});
  tokens.append("type", "string");
  tokens.append("path", "metadata/tokenizer.ggml.tokens.json");
  Map object;
  object.append("a", 1);
  model.common.append("name", "Tiny");
  model.common.append("signature", object);
  model.metadata.append("tokenizer.ggml.tokens", tokens);
  model.metadata.append("tokenizer.ggml.eos_token_ids", List(312, Value(1)));
  model.metadata.append("tokenizer.chat_template", std::string(5000, 'x'));
  model.metadata.append("short", List{1, 2, 3});
  model.metadata.append("object", object);
  model.metadata.append("text", "a text that is longer than the column that it is in, so that it is wrapped");
  model.metadata.append("a.key.that.is.longer.than.the.column.of.the.keys", true);
  EXPECT_EQ(metadata_of(model, {}), R"(
  name         Tiny
  signature.a  1

metadata
  tokenizer.ggml.tokens         128,256 tokens (--tokens)
  tokenizer.ggml.eos_token_ids  312 values (metadata.json)
  tokenizer.chat_template       text of 4.9 KiB (--template)
  short                         [1,2,3]
  object                        {"a":1}
  text                          a text that is longer than the column that it is
                                in, so that it is wrapped
  a.key.that.is.longer.than.the.column.of.the.keys
                                true

to print a file in brackets: weightfs cat m.gguf FILE
)");
}

}  // namespace
}  // namespace weightfs::info_listing_test
