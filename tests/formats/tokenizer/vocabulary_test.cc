// The tokens of models: from each kind of file, found by text and id.
#include "formats/tokenizer/vocabulary.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "formats/tokenizer/marked_tokens.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/protobuf_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::vocabulary_test {
namespace {

using namespace tokenizer;
using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<VocabularyPtr> tokens_of(Files files) {
  Model model;
  model.beside = std::make_shared<MemoryFolder>(std::move(files));
  return read_vocabulary(model);
}

Result<VocabularyPtr> tokens_of(const std::string& gguf) {
  return read_vocabulary(read_model({"m.gguf", in_memory(gguf)}).value());
}

// "2 <s> control": the tokens that a query finds.
std::vector<std::string> rows(const VocabularyPtr& vocabulary, const std::string& query = "",
                              std::optional<TokenKind> kind = {}) {
  std::vector<std::string> out;
  const auto found = vocabulary->find({query, kind}).value();
  for (const uint32_t place : found) {
    const Token& token = vocabulary->tokens()[place];
    std::string row = fmt::format("{} {} {}", token.id, token.text, to_text(token.kind));
    if (const auto text = vocabulary->readable(token)) row += fmt::format(" '{}'", *text);
    out.push_back(vocabulary->has_scores() ? fmt::format("{} {}", row, token.score) : row);
  }
  return out;
}

std::string gguf(std::string_view model, const std::vector<std::string>& texts, const std::vector<int32_t>& types,
                 const std::vector<float>& scores = {}, std::endian order = std::endian::little) {
  GgufBuilder b(3, order);
  std::string list, kinds, numbers;
  for (const std::string& text : texts) list += b.text(text);
  for (const int32_t type : types) kinds += b.number(type);
  for (const float score : scores) numbers += b.number(score);
  b.string("general.architecture", "llama").string("tokenizer.ggml.model", model);
  b.key("tokenizer.ggml.tokens", kArray, b.array(kString, texts.size(), list));
  if (!types.empty()) b.key("tokenizer.ggml.token_type", kArray, b.array(kI32, types.size(), kinds));
  if (!scores.empty()) b.key("tokenizer.ggml.scores", kArray, b.array(kF32, scores.size(), numbers));
  return b.build();
}

TEST(Vocabulary, OfGgufHasTypesAndScores) {
  for (const auto order : {std::endian::little, std::endian::big}) {
    const auto read =
        tokens_of(gguf("llama", {"<s>", "\xE2\x96\x81the", "<0x0A>"}, {3, 1, 6}, {0, -1.5F, 0}, order)).value();
    EXPECT_EQ(read->stated_in(), "tokenizer.ggml.tokens");
    EXPECT_THAT(rows(read), ElementsAre("0 <s> control 0", "1 \xE2\x96\x81the normal ' the' -1.5", "2 <0x0A> byte 0"));
  }
}

TEST(Vocabulary, ShortListsOfTypesAreUsedAsFarAsTheyGo) {
  EXPECT_THAT(rows(tokens_of(gguf("gpt2", {"a", "b", "c"}, {3, 99})).value()),
              ElementsAre("0 a control", "1 b ", "2 c "));
}

TEST(Vocabulary, OfAModelWithoutTokensIsNull) {
  EXPECT_EQ(tokens_of(GgufBuilder().string("general.architecture", "clip").build()).value(), nullptr);
  EXPECT_EQ(tokens_of(Files{}).value(), nullptr);
}

// U+0120 is a space; three bytes of a character of Chinese are three characters.
TEST(Vocabulary, ByteLevelTokensAreFoundByWhatTheyStandFor) {
  const auto read =
      tokens_of(gguf("gpt2", {"\xC4\xA0Hello", "hello", "\xC3\xA4\xC2\xBD\xC5\x82", "<|im_end|>"}, {1, 1, 1, 3}))
          .value();
  EXPECT_THAT(rows(read, " hello"), ElementsAre("0 \xC4\xA0Hello normal ' Hello'"));
  EXPECT_THAT(rows(read, "\xE4\xBD\xA0"), ElementsAre("2 \xC3\xA4\xC2\xBD\xC5\x82 normal '\xE4\xBD\xA0'"));
  EXPECT_THAT(rows(read, "HELLO"), ElementsAre("0 \xC4\xA0Hello normal ' Hello'", "1 hello normal"));
}

TEST(Vocabulary, IsSearchedByIdTextAndType) {
  std::vector<std::string> texts;
  for (int i = 0; i < 30; ++i) texts.push_back(fmt::format("t{}", i));
  texts[3] = "12";
  const auto read = tokens_of(gguf("none", texts, {})).value();
  EXPECT_THAT(rows(read, "12"), ElementsAre("12 t12 ", "3 12 ")) << "the id first";
  EXPECT_THAT(rows(read, "id 12"), ElementsAre("12 t12 "));
  EXPECT_THAT(rows(read, "id 27-40"), ElementsAre("27 t27 ", "28 t28 ", "29 t29 "));
  EXPECT_THAT(rows(read, "id 30"), IsEmpty());
  EXPECT_THAT(rows(read, "id x"), IsEmpty()) << "a text";
  EXPECT_EQ(rows(read).size(), 30u);
  EXPECT_THAT(rows(read, "t1", TokenKind::control), IsEmpty());
}

TEST(Vocabulary, OfTokenizerJsonHasAddedTokens) {
  const auto read = tokens_of(Files{{"tokenizer.json", R"({"added_tokens": [
      {"id": 0, "content": "<s>", "special": true}, {"id": 9, "content": "<think>", "special": false}],
      "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<s>": 0, "<0x41>": 2, "▁a": 1},
                "merges": [["▁", "a"]]}})"}})
                        .value();
  EXPECT_EQ(read->stated_in(), "tokenizer.json");
  EXPECT_THAT(rows(read), ElementsAre("0 <s> control", "1 ▁a normal ' a'", "2 <0x41> byte", "9 <think> user-defined"));
}

TEST(Vocabulary, OfUnigramHasScores) {
  const auto read =
      tokens_of(Files{{"tokenizer.json", R"({"added_tokens": [{"id": 0, "content": "<pad>", "special": true}],
      "model": {"type": "Unigram", "unk_id": 1, "vocab": [["<pad>", 0], ["▁x", -2.5], ["y", -3]]}})"}})
          .value();
  EXPECT_THAT(rows(read), ElementsAre("0 <pad> control 0", "1 ▁x normal ' x' -2.5", "2 y normal -3"));
}

TEST(Vocabulary, MalformedUnigramIsRefused) {
  for (const char* const piece : {R"("a")", R"(["a"])", R"([1, 2])", R"(["a", "b"])", R"(["a", 1, 2])", "[[]]", "{}"})
    EXPECT_EQ(
        tokens_of(Files{{"tokenizer.json", fmt::format(R"({{"model": {{"type": "Unigram", "vocab": [{}]}}}})", piece)}})
            .error()
            .code,
        Code::corrupt)
        << piece;
}

TEST(Vocabulary, OfOtherFilesHasTheTokensOfItsConfiguration) {
  const std::string config = R"({"added_tokens_decoder": {"0": {"content": "[PAD]", "special": true}}})";
  EXPECT_THAT(rows(tokens_of(Files{{"vocab.txt", "[PAD]\nthe\r\n##s\n"}, {"tokenizer_config.json", config}}).value()),
              ElementsAre("0 [PAD] control", "1 the normal", "2 ##s normal"));
  EXPECT_THAT(
      rows(tokens_of(Files{{"vocab.json", R"({"b": 1, "[PAD]": 0})"}, {"tokenizer_config.json", config}}).value()),
      ElementsAre("0 [PAD] control", "1 b normal"));
  // ModelProto: pieces (1) of a text (1), a score (2) and a type (3); the trainer (2) says Unigram.
  ProtobufBuilder model, piece, trainer;
  piece.bytes(1, "▁w").number(3, 4);
  trainer.number(3, 1);
  model.message(1, piece).message(2, trainer);
  EXPECT_THAT(rows(tokens_of(Files{{"tokenizer.model", model.build()}}).value()), ElementsAre("0 ▁w user-defined 0"));
}

TEST(Vocabulary, TooManyTokensAreRefused) {
  EXPECT_EQ(tokens_of(Files{{"vocab.json", R"({"a": 2000000})"}}).error().code, Code::unsupported);
  EXPECT_EQ(tokens_of(Files{{"vocab.json", "["}}).error().code, Code::corrupt);
}

// "<|im_start|>|user\n".
std::string marked(std::string_view text, const VocabularyPtr& vocabulary) {
  std::string out;
  for (const MarkedPart& part : marked_tokens(text, *vocabulary))
    out += part.id ? fmt::format("[{}:{}]", *part.id, part.text) : std::string(part.text);
  return out;
}

TEST(MarkedTokens, AreTheLongestSpecialOnes) {
  const auto read =
      tokens_of(gguf("gpt2", {"user", "<|im", "<|im_start|>", "<", "\n", "<think>"}, {1, 3, 3, 1, 4, 4})).value();
  EXPECT_EQ(marked("<|im_start|>user\n<|imx<think><", read), "[2:<|im_start|>]user\n[1:<|im]x[5:<think>]<");
  EXPECT_EQ(marked("", read), "");
  EXPECT_EQ(marked("\xFF<|im", read), "\xFF[1:<|im]");
}

TEST(MarkedTokens, OfManySimilarTokensEndEarly) {
  std::vector<std::string> texts;
  for (size_t size = 2; size < 250; ++size) texts.push_back(std::string(size, 'a') + "b");
  const auto read = tokens_of(gguf("gpt2", texts, std::vector<int32_t>(texts.size(), 3))).value();
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(marked(text, read), text);
}

}  // namespace
}  // namespace weightfs::vocabulary_test
