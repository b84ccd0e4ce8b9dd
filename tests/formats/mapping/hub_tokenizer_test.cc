// tokenizer.json and tokenizer_config.json, made of the keys of a GGUF.
#include "formats/mapping/hub/hub_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/gguf_reading.h"

namespace weightfs::hub_tokenizer_test {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kWord = "\xE2\x96\x81";  // U+2581

struct Token {
  std::string text;
  int32_t type = 1;
  float score = 0;
};

using Text = Result<std::string> (*)(const Model& gguf, Budget& budget);

std::string made(Text text, const GgufBuilder& builder) {
  Budget budget(10'000'000);
  const auto out = text(read_well(builder.build()), budget);
  return out ? *out : "error: " + out.error().message;
}

std::string json(const GgufBuilder& builder) { return made(mapping::hub_tokenizer, builder); }

std::string config(const GgufBuilder& builder) { return made(mapping::hub_tokenizer_config, builder); }

// A GGUF with these tokens and merges.
GgufBuilder tokenizer(std::string_view model, std::string_view pre, const std::vector<Token>& tokens,
                      const std::vector<std::string>& merges = {}, std::endian order = std::endian::little) {
  GgufBuilder out(3, order);
  std::string texts, types, scores, pairs;
  for (const Token& token : tokens) {
    texts += out.text(token.text);
    types += out.number(token.type);
    scores += out.number(token.score);
  }
  for (const std::string& merge : merges) pairs += out.text(merge);
  out.string("general.architecture", "llama").string("tokenizer.ggml.model", model).string("tokenizer.ggml.pre", pre);
  out.key("tokenizer.ggml.tokens", kArray, out.array(kString, tokens.size(), texts));
  out.key("tokenizer.ggml.token_type", kArray, out.array(kI32, tokens.size(), types));
  if (model == "llama") out.key("tokenizer.ggml.scores", kArray, out.array(kF32, tokens.size(), scores));
  if (!merges.empty()) out.key("tokenizer.ggml.merges", kArray, out.array(kString, merges.size(), pairs));
  return out;
}

const std::vector<Token> kBytes = {{"a"}, {"b"}, {"c"}, {"ab"}, {"[PAD4]", 5}, {"<|end|>", 3}, {"<think>", 4}};

TEST(HubTokenizer, ByteLevelHasItsVocabularyMergesAndAddedTokens) {
  EXPECT_EQ(json(tokenizer("gpt2", "gpt-2", kBytes, {"a b"})), R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [
    {"id": 5, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 6, "content": "<think>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}
  ],
  "normalizer": null,
  "pre_tokenizer": {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
  "post_processor": {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false},
  "decoder": {"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {
      "a": 0,
      "b": 1,
      "c": 2,
      "ab": 3,
      "<|end|>": 5,
      "<think>": 6
    },
    "merges": [
      "a b"
    ]
  }
}
)");
}

TEST(HubTokenizer, BigEndianListsAreTheSame) {
  EXPECT_EQ(json(tokenizer("gpt2", "gpt-2", kBytes, {"a b"}, std::endian::big)),
            json(tokenizer("gpt2", "gpt-2", kBytes, {"a b"})));
}

TEST(HubTokenizer, LongListsAreReadFromTheFile) {
  std::vector<Token> tokens = kBytes;
  for (size_t i = tokens.size(); i < 3000; ++i) tokens.push_back({"t" + std::to_string(i)});
  EXPECT_THAT(json(tokenizer("gpt2", "qwen2", tokens, {"a b"})), HasSubstr("\"t2999\": 2999"));
}

TEST(HubTokenizer, MergeOfMissingTokensIsLeftOut) {
  EXPECT_THAT(json(tokenizer("gpt2", "gpt-2", kBytes, {"a b", "a x", "b c", "ab", ""})),
              HasSubstr("\"merges\": [\n      \"a b\"\n    ]"));
}

TEST(HubTokenizer, PreTokenizerIsThatOfItsName) {
  const std::string llama = json(tokenizer("gpt2", "llama-bpe", kBytes, {"a b"}));
  EXPECT_THAT(llama, HasSubstr(R"(\\p{N}{1,3}| ?)"));
  EXPECT_THAT(llama, HasSubstr(R"("ignore_merges": true)"));
  EXPECT_THAT(json(tokenizer("gpt2", "smaug-bpe", kBytes, {"a b"})), HasSubstr(R"("ignore_merges": false)"));
  EXPECT_THAT(json(tokenizer("gpt2", "starcoder", kBytes, {"a b"})),
              HasSubstr(R"({"type":"Digits","individual_digits":true})"));
}

TEST(HubTokenizer, TextsOfQwenAreComposed) {
  EXPECT_THAT(json(tokenizer("gpt2", "qwen2", kBytes, {"a b"})), HasSubstr(R"("normalizer": null)"));
}

TEST(HubTokenizer, TemplateAddsBosAndEos) {
  GgufBuilder out = tokenizer("gpt2", "qwen2", kBytes, {"a b"});
  out.u32("tokenizer.ggml.bos_token_id", 5)
      .u32("tokenizer.ggml.eos_token_id", 6)
      .key("tokenizer.ggml.add_bos_token", kBool, "\1");
  EXPECT_THAT(json(out), HasSubstr(R"("single":[{"SpecialToken":{"id":"<|end|>","type_id":0}},)"
                                   R"({"Sequence":{"id":"A","type_id":0}}])"));
  out.key("tokenizer.ggml.add_eos_token", kBool, "\1");
  EXPECT_THAT(json(out), HasSubstr(R"({"Sequence":{"id":"A","type_id":0}},)"
                                   R"({"SpecialToken":{"id":"<think>","type_id":0}}])"));
}

TEST(HubTokenizer, IdsBeyondTheTokensAreIgnored) {
  GgufBuilder out = tokenizer("gpt2", "llama-bpe", kBytes, {"a b"});
  out.u32("tokenizer.ggml.bos_token_id", 4'000'000'000U);
  EXPECT_THAT(json(out), HasSubstr(R"("post_processor": {"type":"ByteLevel")"));
  EXPECT_THAT(config(out), Not(HasSubstr("bos_token\":  \"")));
}

TEST(HubTokenizer, PiecesAreMergedByTheirScores) {
  const std::string word(kWord);
  const std::string text = json(tokenizer("llama", "default",
                                          {{"<unk>", 2},
                                           {"<s>", 3},
                                           {"</s>", 3},
                                           {"<0x0A>", 6},
                                           {"abc", 1, -1},
                                           {"ab", 1, -2},
                                           {"bc", 1, -3},
                                           {"a", 1, -4},
                                           {"b", 1, -5},
                                           {"c", 1, -6},
                                           {word, 1, -7},
                                           {word + "a", 1, -0.5F},
                                           {"  ", 4, -1000}}));
  EXPECT_THAT(text, HasSubstr("\"merges\": [\n      \"" + word + " a\""));
  EXPECT_THAT(text, HasSubstr("\"ab c\",\n      \"a bc\",\n      \"a b\",\n      \"b c\"\n    ]"));
  EXPECT_THAT(text, HasSubstr(R"("byte_fallback": true)"));
  EXPECT_THAT(text, HasSubstr(R"("unk_token": "<unk>")"));
  EXPECT_THAT(text, HasSubstr(R"({"id": 12, "content": "  ")"));
  EXPECT_THAT(text, HasSubstr(R"({"type":"Prepend")"));
  EXPECT_THAT(text, HasSubstr(R"("special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}})"));
}

TEST(HubTokenizer, TokenThatNoMergeMakesIsAdded) {
  const std::string text = json(tokenizer(
      "gemma4", "default", {{"a"}, {"b"}, {"ab"}, {"</div>"}, {"<bos>", 3}, {"  ", 4}, {std::string(kWord)}}, {"a b"}));
  EXPECT_THAT(text, HasSubstr(R"({"id": 3, "content": "</div>", "single_word": false)"));
  EXPECT_THAT(text, Not(HasSubstr(R"("content": "ab")")));
  EXPECT_THAT(text, HasSubstr("\"" + std::string(kWord) + std::string(kWord) + "\": 5"));
}

TEST(HubTokenizer, WordPieceHasItsPrefixes) {
  const std::string text =
      json(tokenizer("bert", "jina-v2-en",
                     {{"[PAD]", 3}, {"[UNK]", 3}, {"[CLS]", 3}, {"[SEP]", 3}, {std::string(kWord) + "the"}, {"ing"}})
               .u32("tokenizer.ggml.bos_token_id", 2)
               .u32("tokenizer.ggml.seperator_token_id", 3)
               .u32("tokenizer.ggml.unknown_token_id", 1));
  EXPECT_THAT(text, HasSubstr(R"("the": 4)"));
  EXPECT_THAT(text, HasSubstr(R"("##ing": 5)"));
  EXPECT_THAT(text, HasSubstr(R"("[CLS]": 2)"));
  EXPECT_THAT(text, HasSubstr(R"("lowercase":true)"));
  EXPECT_THAT(text, Not(HasSubstr("merges")));
}

TEST(HubTokenizer, WhatCannotBeMadeIsRefusedInASentence) {
  EXPECT_EQ(json(tokenizer("t5", "default", kBytes)), "error: a tokenizer of kind t5 has no tokenizer.json here");
  EXPECT_EQ(json(tokenizer("gpt2", "viking", kBytes, {"a b"})),
            "error: the pre-tokenizer \"viking\" has no known tokenizer.json");
  EXPECT_EQ(json(tokenizer("gpt2", "qwen2", kBytes)), "error: the key tokenizer.ggml.merges is missing");
  EXPECT_EQ(json(GgufBuilder().string("general.architecture", "llama")), "error: the GGUF has no tokenizer");
  EXPECT_EQ(json(GgufBuilder().string("tokenizer.ggml.model", "bert").string("tokenizer.ggml.tokens", "x")),
            "error: tokenizer.ggml.tokens is missing or empty");
}

TEST(HubTokenizer, ListsOfDifferentLengthsAreRefused) {
  GgufBuilder out;
  out.string("tokenizer.ggml.model", "bert").key("tokenizer.ggml.tokens", kArray, out.array(kString, 1, out.text("a")));
  out.key("tokenizer.ggml.token_type", kArray, out.array(kI32, 2, std::string(8, '\1')));
  EXPECT_EQ(json(out), "error: 1 tokens with 2 types and 0 scores");
}

TEST(HubTokenizer, ConfigHasSpecialTokensAndTemplates) {
  GgufBuilder out = tokenizer("gpt2", "qwen2", kBytes, {"a b"});
  out.u32("tokenizer.ggml.eos_token_id", 5).string("tokenizer.chat_template", "{{ x }}");
  EXPECT_EQ(config(out), R"({
  "tokenizer_class": "PreTrainedTokenizerFast",
  "eos_token": "<|end|>",
  "clean_up_tokenization_spaces": false,
  "chat_template": "{{ x }}"
}
)");
  out.string("tokenizer.chat_template.tool_use", "{{ y }}");
  EXPECT_THAT(config(out), HasSubstr("\"name\": \"tool_use\""));
}

}  // namespace
}  // namespace weightfs::hub_tokenizer_test
