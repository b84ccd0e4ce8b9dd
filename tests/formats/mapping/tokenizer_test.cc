// The tokenizer of a repository as keys of a GGUF: which tokens, types, scores, special ids and flags each kind has.
#include "formats/mapping/tokenizer.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"
#include "tests/builders/named_tensors.h"
#include "tests/builders/protobuf_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::tokenizer_test {
namespace {

using test::Files;
using test::ProtobufBuilder;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSplitOfQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
constexpr const char* kSplitOfLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
constexpr const char* kBytes = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
constexpr const char* kSmallVocabulary = R"({"a": 0, "b": 1, "ab": 2})";

std::string split(std::string_view regex, std::string_view more = R"("behavior": "Isolated")") {
  return fmt::format(R"({{"type": "Split", "pattern": {{"Regex": "{}"}}, {}}})", regex, more);
}

std::string sequence(std::string_view steps) {
  return fmt::format(R"({{"type": "Sequence", "pretokenizers": [{}]}})", steps);
}

std::string qwen2_split() { return sequence(split(kSplitOfQwen2) + ", " + kBytes); }

std::string added(uint64_t id, std::string_view text, bool is_special = true) {
  return fmt::format(R"({{"id": {}, "content": "{}", "special": {}, "normalized": false}})", id, text, is_special);
}

// A tokenizer.json of byte-level BPE with the parts that differ.
struct Json {
  std::string vocab = kSmallVocabulary;
  std::string merges = R"([["a", "b"]])";
  std::string model = R"("type": "BPE")";
  std::string added = "";
  std::string normalizer = "null";
  std::string pre_tokenizer = qwen2_split();
  std::string post_processor = "null";

  std::string build() const {
    return fmt::format(
        R"({{"version": "1.0", "added_tokens": [{}], "normalizer": {}, "pre_tokenizer": {}, "post_processor": {}, )"
        R"("decoder": null, "model": {{{}, "vocab": {}, "merges": {}}}}})",
        added, normalizer, pre_tokenizer, post_processor, model, vocab, merges);
  }
};

std::shared_ptr<Model> model_of(Files files, uint64_t rows, std::string_view config) {
  auto model = std::make_shared<Model>();
  model->budget = std::make_shared<Budget>(0);
  if (rows > 0)
    model->tensors.append(test::NamedTensors().add("model.embed_tokens.weight", "bfloat16", {rows, 4}).tensors);
  for (const auto& [path, bytes] : files) model->parts.push_back({path, Later<SourcePtr>::of(in_memory(bytes))});
  files["config.json"] = config;
  model->beside = std::make_shared<test::MemoryFolder>(std::move(files));
  return model;
}

std::string config_of(std::string_view class_name, std::string_view fields) {
  return fmt::format(R"({{"architectures": ["{}"]{}{}}})", class_name, fields.empty() ? "" : ", ", fields);
}

// JSON with a space after each comma and colon, as people write it.
std::string spaced(std::string_view json) {
  std::string out;
  bool is_in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    out += json[i];
    if (json[i] == '"' && (i == 0 || json[i - 1] != '\\')) is_in_text = !is_in_text;
    if (!is_in_text && (json[i] == ',' || json[i] == ':')) out += ' ';
  }
  return out;
}

// The keys as a reader of GGUF has them, as a line of JSON without "tokenizer."; or the error.
std::string keys_of(const ModelPtr& model) {
  const auto repository = mapping::Repository::open(model, "m");
  if (!repository) return "error: " + repository.error().message;
  mapping::Keys keys;
  if (const auto added = mapping::add_tokenizer(**repository, keys); !added) return "error: " + added.error().message;
  const auto number = [](uint64_t n, size_t size) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(n >> (8 * i) & 0xFF);
    return bytes;
  };
  const std::string gguf = "GGUF" + number(3, 4) + number(0, 8) + number(keys.count(), 8) + keys.bytes();
  const auto read = read_model({.name = "m.gguf", .bytes = in_memory(gguf)});
  if (!read) return "unreadable: " + read.error().message;
  Map shown;
  for (const auto& [key, value] : read->metadata)
    if (key.starts_with("tokenizer.")) shown.append(key.substr(key.starts_with("tokenizer.ggml.") ? 15 : 10), value);
  return spaced(to_json_line(shown));
}

std::string keys_of(Files files, std::string_view class_name = "Qwen2ForCausalLM",
                    std::string_view fields = R"("vocab_size": 4)", uint64_t rows = 4) {
  return keys_of(model_of(std::move(files), rows, config_of(class_name, fields)));
}

std::string keys_of(const Json& json, std::string_view tokenizer_config = "",
                    std::string_view fields = R"("vocab_size": 4)", std::string_view class_name = "Qwen2ForCausalLM",
                    uint64_t rows = 4) {
  Files files{{"tokenizer.json", json.build()}};
  if (!tokenizer_config.empty()) files["tokenizer_config.json"] = tokenizer_config;
  return keys_of(std::move(files), class_name, fields, rows);
}

TEST(Tokenizer, ByteLevelHasTokensTypesMergesAndPads) {
  EXPECT_EQ(keys_of(Json{.added = added(3, "<eos>") + "," + added(4, "a\u2581b", false)},
                    R"({"eos_token": {"content": "<eos>"}})",
                    R"("vocab_size": 6, "bos_token_id": 5, "pad_token_id": [1])", "Qwen2ForCausalLM", 6),
            R"({"model": "gpt2", "pre": "qwen2", "tokens": ["a", "b", "ab", "<eos>", "a b", "[PAD5]"], )"
            R"("token_type": [1, 1, 1, 3, 4, 5], "merges": ["a b"], "eos_token_id": 3, "bos_token_id": 5})");
}

TEST(Tokenizer, MergesAreTextsOrPairsWithEncodedSpaces) {
  const std::string by_text = keys_of(Json{.merges = R"(["a b"])"});
  EXPECT_EQ(by_text, keys_of(Json{}));
  EXPECT_THAT(
      keys_of(Json{.vocab = "{\"a\": 0, \"b\": 1, \"a\u0120b\": 2}", .merges = R"([["a ", "b"], ["a", " b"]])"}),
      HasSubstr("\"merges\": [\"a\u0120 b\", \"a \u0120b\"]"));
}

TEST(Tokenizer, AddedTokensThatLookSpecialAreOfControl) {
  for (const char* const text : {"<|x|>", "<\uFF5Cx\uFF5C>", "<unused1>", "<pad>", "<mask>", "<2mass>", "[@BOS@]"})
    EXPECT_THAT(keys_of(Json{.added = added(3, text, false)}), HasSubstr(R"("token_type": [1, 1, 1, 3])")) << text;
  EXPECT_THAT(keys_of(Json{.added = added(3, "<tool>", false)}), HasSubstr(R"("token_type": [1, 1, 1, 4])"));
}

TEST(Tokenizer, SpecialTokensOfTheVocabularyAreOfControl) {
  EXPECT_THAT(keys_of(Json{}, R"({"eos_token": "ab", "additional_special_tokens": ["b"]})"),
              HasSubstr(R"("token_type": [1, 3, 3, 5])"));
  EXPECT_THAT(keys_of(Json{}, R"({"added_tokens_decoder": {"3": {"content": "<x>", "special": true}}})"),
              HasSubstr(R"("tokens": ["a", "b", "ab", "<x>"], "token_type": [1, 1, 1, 3])"));
}

TEST(Tokenizer, VocabularySizeIsThatOfTheTokenizerIfNothingStatesIt) {
  EXPECT_THAT(keys_of(Json{}, "", "", "Qwen2ForCausalLM", 0), HasSubstr(R"("tokens": ["a", "b", "ab"])"));
}

TEST(Tokenizer, PreTokenizerIsNamedByItsExpression) {
  const auto pre = [](const std::string& steps, const char* model = R"("type": "BPE")",
                      const char* class_name = "LlamaForCausalLM", const char* config = "{}") {
    const std::string keys =
        keys_of(Json{.model = model, .pre_tokenizer = steps}, config, R"("vocab_size": 4)", class_name);
    const size_t at = keys.find("\"pre\": \"");
    return at == keys.npos ? keys : keys.substr(at + 8, keys.find('"', at + 8) - at - 8);
  };
  const std::string llama3 = sequence(split(kSplitOfLlama3) + ", " + kBytes);
  constexpr const char* kGpt2 = R"({"type": "ByteLevel", "add_prefix_space": false})";
  constexpr const char* kDigits = R"({"type": "Digits", "individual_digits": true})";
  EXPECT_EQ(pre(llama3, R"("type": "BPE", "ignore_merges": true)"), "llama-bpe");
  EXPECT_EQ(pre(llama3), "smaug-bpe");
  EXPECT_EQ(pre(llama3, R"("type": "BPE")", "Glm4ForCausalLM"), "glm4");
  EXPECT_EQ(pre(qwen2_split()), "qwen2");
  EXPECT_EQ(pre(sequence(split(kSplitOfQwen2, R"("behavior": "Removed", "invert": true)") + ", " + kBytes)), "qwen2");
  EXPECT_EQ(pre(kGpt2), "gpt-2");
  EXPECT_EQ(pre(sequence(std::string(kDigits) + ", " + kGpt2)), "smollm");
  EXPECT_EQ(pre(sequence(std::string(kDigits) + ", " + kGpt2), R"("type": "BPE")", "GraniteForCausalLM"), "refact");
  EXPECT_EQ(
      pre(sequence(
          split(R"(\\p{N}{1,3})") + ", " + split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+") + ", " +
          split(R"([!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?)"
                R"([\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+)") +
          ", " + kBytes)),
      "deepseek-v3");
}

TEST(Tokenizer, BosIsDeniedWhereLlamaCppWouldAddIt) {
  const auto bos = [](const char* post_processor, const char* config) {
    const std::string keys = keys_of(Json{.model = R"("type": "BPE", "ignore_merges": true)",
                                          .added = added(3, "<s>"),
                                          .pre_tokenizer = sequence(split(kSplitOfLlama3) + ", " + kBytes),
                                          .post_processor = post_processor},
                                     config);
    const size_t at = keys.find("add_bos_token");
    return at == keys.npos ? "" : keys.substr(at + 16, keys.find_first_of(",}", at) - at - 16);
  };
  EXPECT_EQ(bos("null", "{}"), "false");
  EXPECT_EQ(bos("null", R"({"tokenizer_class": "LlamaTokenizerFast"})"), "");
  EXPECT_EQ(bos("null", R"({"add_bos_token": true})"), "true");
  EXPECT_EQ(
      bos(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]})",
          R"({"bos_token": "<s>"})"),
      "true");
}

// Refusals say what the tokenizer is instead.
TEST(Tokenizer, UnknownTokenizersAreRefused) {
  constexpr const char* kNoPreTokenizer = "error: the pre-tokenizer of tokenizer.json is not one that llama.cpp has";
  for (const std::string& steps :
       {std::string("null"), sequence(split("x+") + ", " + kBytes), sequence(split(kSplitOfQwen2)),
        sequence(split(kSplitOfQwen2, R"("behavior": "MergedWithNext")") + ", " + kBytes), std::string(kBytes),
        std::string(R"({"type": "ByteLevel", "add_prefix_space": true})"), std::string(R"({"type": "Whitespace"})"),
        sequence(std::string(kBytes) + ", " + split(kSplitOfQwen2))})
    EXPECT_EQ(keys_of(Json{.pre_tokenizer = steps}), kNoPreTokenizer) << steps;
  EXPECT_EQ(
      keys_of(Json{.normalizer = R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]})"}),
      "error: the normalizer Lowercase of tokenizer.json is not one that llama.cpp applies");
  EXPECT_EQ(keys_of(Json{.merges = "[]"}), "error: tokenizer.json has no merges");
  EXPECT_EQ(keys_of(Json{.vocab = R"([["a", -1.5]])", .model = R"("type": "Unigram")"}),
            "error: the tokenizer is Unigram only");
  EXPECT_EQ(keys_of(Json{.vocab = R"([["a", -1.5]])", .model = R"("unk_id": 0)"}),
            "error: the tokenizer is Unigram only");
  EXPECT_EQ(keys_of(Json{.model = R"("type": "WordPiece")"}), "error: the tokenizer is WordPiece only");
  EXPECT_EQ(keys_of(Json{}, "", R"("vocab_size": 4)", "BertModel"), "error: the tokenizer is BPE only");
  EXPECT_EQ(keys_of(Files{{"tekken.json", "{}"}}), "error: the tokenizer is tekken.json only");
  EXPECT_EQ(keys_of(Files{{"tokenizer.model", "IQ== 0\nIg== 1\n"}}), "error: the tokenizer is tiktoken only");
  EXPECT_EQ(keys_of(Files{}), "error: no tokenizer.json or tokenizer.model beside the tensors");
}

TEST(Tokenizer, TemplateSaysWhichTokensAreAdded) {
  constexpr const char* kTemplate =
      R"({{"type": "Sequence", "processors": [{{"type": "ByteLevel"}}, {{"type": "TemplateProcessing", "single": [{}], "pair": [{}]}}]}})";
  constexpr const char* kA = R"({"Sequence": {"id": "A"}})";
  constexpr const char* kB = R"({"Sequence": {"id": "B"}})";
  const auto special = [](const char* text) { return fmt::format(R"({{"SpecialToken": {{"id": "{}"}}}})", text); };
  const auto flags = [&](const std::string& single, const std::string& pair, const char* config) {
    const std::string keys = keys_of(Json{.added = added(3, "<s>") + "," + added(4, "</s>") + "," + added(5, "<end>"),
                                          .post_processor = fmt::format(fmt::runtime(kTemplate), single, pair)},
                                     config, R"("vocab_size": 6)", "Qwen2ForCausalLM", 6);
    return keys.substr(keys.find("\"merges\"") + 19);
  };
  const std::string begun = special("<s>") + ", " + kA;
  const std::string ended = std::string(kA) + ", " + special("</s>");
  EXPECT_EQ(flags(begun, begun + ", " + special("<s>") + ", " + kB, R"({"bos_token": "<s>"})"),
            R"("bos_token_id": 3, "add_bos_token": true, "add_sep_token": false})");
  EXPECT_EQ(flags(begun, "", R"({"bos_token": "<s>", "add_bos_token": false, "add_eos_token": true})"),
            R"("bos_token_id": 3, "add_bos_token": false, "add_eos_token": true})");
  EXPECT_EQ(flags(begun, "", "{}"), R"("add_bos_token": true})") << "a file without fields is none";
  EXPECT_EQ(flags(begun, "", R"({"cls_token": "<s>"})"), R"("bos_token_id": 3, "add_bos_token": true})");
  EXPECT_EQ(flags(ended, "", R"({"eos_token": "<end>"})"),
            R"("eos_token_id": 4, "eot_token_id": 5, "add_eos_token": true})");
  EXPECT_EQ(flags(kA, std::string(kA) + ", " + special("</s>") + ", " + kB, R"({"eos_token": "</s>"})"),
            R"("eos_token_id": 4, "seperator_token_id": 4, "add_sep_token": true})");
}

TEST(Tokenizer, RobertaProcessingAddsAllThree) {
  EXPECT_THAT(
      keys_of(Json{.added = added(3, "<s>"),
                   .post_processor = R"({"type": "RobertaProcessing", "cls": ["<s>", 3], "sep": ["<s>", 3]})"},
              R"({"bos_token": "<s>"})"),
      HasSubstr(
          R"("bos_token_id": 3, "seperator_token_id": 3, "add_bos_token": true, "add_eos_token": true, "add_sep_token": true)"));
}

TEST(Tokenizer, ClassesHaveTokensOfTheirOwn) {
  EXPECT_THAT(
      keys_of(Json{.added = added(3, "<|endoftext|>") + "," + added(4, "<|user|>")}, "",
              R"("vocab_size": 5, "eos_token_id": [3], "pad_token_id": 3)", "Glm4ForCausalLM", 5),
      HasSubstr(
          R"("padding_token_id": 3, "eos_token_id": 3, "eot_token_id": 4, "unknown_token_id": 3, "bos_token_id": 3})"));
  EXPECT_THAT(keys_of(Json{}, R"({"add_prefix_space": false, "add_bos_token": true})", R"("vocab_size": 49152)",
                      "LlamaForCausalLM", 49152),
              testing::AllOf(HasSubstr(R"({"add_space_prefix": false, "model": "gpt2")"),
                             HasSubstr(R"("add_bos_token": false)")));
  EXPECT_THAT(keys_of(Json{}, "", R"("vocab_size": 32016)", "LlamaForCausalLM", 32016),
              HasSubstr(R"("eot_token_id": 32010})"));
}

TEST(Tokenizer, TextConfigHasIdsThatTheOuterOneLacks) {
  EXPECT_THAT(keys_of(Json{}, "",
                      R"("vocab_size": 9, "bos_token_id": 1, "eos_token_id": null, "pad_token_id": -1, )"
                      R"("text_config": {"vocab_size": 4, "bos_token_id": 2, "eos_token_id": 0})"),
              HasSubstr(R"("merges": ["a b"], "bos_token_id": 1, "eos_token_id": 0})"));
}

// A tokenizer.model: text, score, type.
std::string piece(std::string_view text, float score, uint64_t type = 1) {
  return ProtobufBuilder().message(1, ProtobufBuilder().bytes(1, text).real(2, score).number(3, type)).build();
}

std::string small_pieces() {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("<0x0A>", 0, 6) + piece("\u2581a", -0.5F) +
         piece("own", -1, 4);
}

TEST(Tokenizer, PiecesHaveScoresAndTypes) {
  EXPECT_EQ(
      keys_of(Files{{"tokenizer.model", small_pieces()}, {"tokenizer_config.json", R"({"add_bos_token": true})"}},
              "LlamaForCausalLM", R"("vocab_size": 6, "bos_token_id": 1, "eos_token_id": 6)", 6),
      "{\"model\": \"llama\", \"pre\": \"default\", \"tokens\": [\"<unk>\", \"<s>\", \"<0x0A>\", \"\u2581a\", \"own\", "
      "\"[PAD5]\"], \"scores\": [0.0, 0.0, 0.0, -0.5, -1.0, -10000.0], \"token_type\": [2, 3, 6, 1, 1, 5], "
      "\"bos_token_id\": 1, \"add_bos_token\": true}");
}

TEST(Tokenizer, AddedTokensReplacePieces) {
  const Files files{{"tokenizer.model", small_pieces()},
                    {"added_tokens.json", R"({"\u2581x": 5, "far": 99})"},
                    {"tokenizer_config.json", R"({"tokenizer_class": "X", "added_tokens_decoder":
                        {"1": {"content": "<s>", "special": true}, "6": {"content": "\u2581y", "special": false},
                         "7": {"content": "<|z|>", "special": false}, "88": {"content": "far"}}})"},
                    {"tokenizer.json", Json{.added = added(8, "<|json|>")}.build()}};
  constexpr const char* kFields = R"("vocab_size": 9)";
  EXPECT_THAT(keys_of(files, "Gemma2ForCausalLM", kFields, 9),
              testing::AllOf(HasSubstr("\"own\", \"\u2581x\", \" y\", \"<|z|>\", \"[PAD8]\"]"),
                             HasSubstr("[0.0, -1000.0, 0.0, -0.5, -1.0, -1000.0, -1000.0, -1000.0, -10000.0]"),
                             HasSubstr(R"("token_type": [2, 3, 6, 1, 1, 4, 4, 3, 5])"),
                             HasSubstr(R"("add_space_prefix": false})")));
  EXPECT_THAT(keys_of(files, "Phi3ForCausalLM", kFields, 9),
              testing::AllOf(HasSubstr("\"own\", \"\u2581x\", \"\u2581y\", \"<|z|>\", \"<|json|>\"]"),
                             HasSubstr(R"("token_type": [2, 3, 6, 1, 1, 4, 4, 4, 3])")));
}

TEST(Tokenizer, ClassDecidesWhetherPiecesOrJsonCount) {
  const Files files{{"tokenizer.model", small_pieces()}, {"tokenizer.json", Json{}.build()}};
  for (const char* const name : {"LlamaForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM", "Phi3ForCausalLM"})
    EXPECT_THAT(keys_of(files, name, R"("vocab_size": 5)", 5), HasSubstr(R"("model": "llama")")) << name;
  for (const char* const name : {"Qwen3MoeForCausalLM", "GptOssForCausalLM", "DeepseekV3ForCausalLM"})
    EXPECT_THAT(keys_of(files, name, R"("vocab_size": 5)", 5), HasSubstr(R"("model": "gpt2")")) << name;
  Files phi4 = files;
  phi4["tokenizer_config.json"] = R"({"tokenizer_class": "GPT2Tokenizer"})";
  EXPECT_THAT(keys_of(phi4, "Phi3ForCausalLM", R"("vocab_size": 5)", 5), HasSubstr(R"("model": "gpt2")"));
}

TEST(Tokenizer, DamagedPiecesAreRefused) {
  const auto refusal = [](std::string bytes) { return keys_of(Files{{"tokenizer.model", std::move(bytes)}}); };
  EXPECT_EQ(refusal(ProtobufBuilder().message(2, ProtobufBuilder().number(3, 1)).build() + piece("a", 0)),
            "error: tokenizer.model: the tokenizer is Unigram only");
  EXPECT_EQ(refusal(piece("a", 0, 7)), "error: tokenizer.model: a piece of the type 7");
  EXPECT_EQ(refusal(piece("\xff", 0)), "error: tokenizer.model: piece 0 is not UTF-8");
  EXPECT_EQ(refusal(ProtobufBuilder().bytes(9, "x").build()), "error: tokenizer.model: no pieces");
  for (size_t size = 1; size + 1 < small_pieces().size(); ++size)
    EXPECT_THAT(refusal(small_pieces().substr(0, size)), Not(HasSubstr("unreadable"))) << size;
}

Json byte_fallback() {
  return {.vocab = R"({"<unk>": 0, "<0x0A>": 1, "a": 2, "b": 3, "ab": 4, "aab": 5, "\u2581": 6})",
          .merges = R"([["a", "b"], ["a", "ab"], ["aa", "b"]])",
          .model = R"("type": "BPE", "byte_fallback": true)",
          .added = added(0, "<unk>") + "," + added(7, "<s>") + "," + added(8, "<x>", false),
          .normalizer = R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
              {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})",
          .pre_tokenizer = "null"};
}

// Known deviation: the converter writes -1000 for each.
TEST(Tokenizer, ByteFallbackHasScoresByTheFirstMerge) {
  EXPECT_EQ(
      keys_of(byte_fallback(), R"({"bos_token": "<s>"})", R"("vocab_size": 10)", "LlamaForCausalLM", 10),
      "{\"model\": \"llama\", \"pre\": \"default\", \"tokens\": [\"<unk>\", \"<0x0A>\", \"a\", \"b\", \"ab\", \"aab\", "
      "\"\u2581\", \"<s>\", \"<x>\", \"[PAD9]\"], \"scores\": [-1000000.0, -1000000.0, -1000000.0, -1000000.0, 0.0, "
      "-1.0, "
      "-1000000.0, -1000000.0, -1000000.0, -10000.0], \"token_type\": [3, 6, 1, 1, 1, 1, 1, 3, 4, 5], "
      "\"bos_token_id\": 7}");
}

TEST(Tokenizer, ByteFallbackWithoutPrefixDeniesIt) {
  const auto keys = [](const char* normalizer, const char* pre_tokenizer, const char* name = "LlamaForCausalLM",
                       const char* config = "") {
    Json json = byte_fallback();
    json.normalizer = normalizer;
    json.pre_tokenizer = pre_tokenizer;
    return keys_of(json, config, R"("vocab_size": 10)", name, 10);
  };
  constexpr const char* kReplace = R"({"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})";
  EXPECT_THAT(keys(kReplace, "null"), HasSubstr(R"("add_space_prefix": false})"));
  EXPECT_THAT(keys("null", R"({"type": "Metaspace", "prepend_scheme": "never"})"),
              HasSubstr(R"("add_space_prefix": false})"));
  EXPECT_THAT(keys("null", R"({"type": "Metaspace", "prepend_scheme": "first"})"), Not(HasSubstr("add_space_prefix")));
  EXPECT_THAT(keys(kReplace, "null", "LlamaForCausalLM", R"({"add_prefix_space": true})"),
              HasSubstr(R"({"add_space_prefix": false, "model")"));
  EXPECT_THAT(keys("null", R"({"type": "Metaspace", "prepend_scheme": "first"})", "LlamaForCausalLM",
                   R"({"add_prefix_space": false})"),
              HasSubstr(R"({"add_space_prefix": true, "model")"));
  EXPECT_THAT(keys(kReplace, R"({"type": "Split", "pattern": {"String": " "}})", "Gemma2ForCausalLM"),
              HasSubstr(R"("add_space_prefix": false})"));
  EXPECT_EQ(keys(R"({"type": "NFKC"})", "null"),
            "error: the normalizer NFKC of tokenizer.json is not one that llama.cpp applies");
  EXPECT_EQ(keys("null", R"({"type": "Whitespace"})"),
            "error: the pre-tokenizer of tokenizer.json is not one that llama.cpp has");
}

TEST(Tokenizer, Gemma4HasMergesAndVisibleTokens) {
  Json json = byte_fallback();
  json.added = added(7, "<|tool_call>") + "," + added(8, "<bos>");
  EXPECT_EQ(
      keys_of(json, R"({"bos_token": "<bos>", "extra_special_tokens": {"x": "<|tool_call>"}})", "", "Gemma4ForCausalLM",
              9),
      "{\"model\": \"gemma4\", \"tokens\": [\"<unk>\", \"<0x0A>\", \"a\", \"b\", \"ab\", \"aab\", \"\u2581\", "
      "\"<|tool_call>\", "
      "\"<bos>\"], \"scores\": [-1000.0, -1000.0, -1000.0, -1000.0, -1000.0, -1000.0, -1000.0, -1000.0, -1000.0], "
      "\"token_type\": [1, 6, 1, 1, 1, 1, 1, 4, 3], \"merges\": [\"a b\", \"a ab\", \"aa b\"], \"bos_token_id\": 8, "
      "\"add_space_prefix\": false, \"add_bos_token\": true}");
}

TEST(Tokenizer, WordPieceHasPhantomSpaces) {
  const Json json{.vocab = R"({"[CLS]": 0, "[SEP]": 1, "a": 2, "##b": 3})",
                  .merges = "[]",
                  .model = R"("type": "WordPiece", "continuing_subword_prefix": "##")",
                  .added = added(0, "[CLS]") + "," + added(1, "[SEP]"),
                  .normalizer = R"({"type": "BertNormalizer", "lowercase": true, "strip_accents": null})",
                  .pre_tokenizer = R"({"type": "BertPreTokenizer"})",
                  .post_processor = R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]"}},
                      {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "[SEP]"}}]})"};
  EXPECT_EQ(keys_of(json, R"({"cls_token": "[CLS]", "sep_token": "[SEP]"})", R"("vocab_size": 5, "type_vocab_size": 2)",
                    "BertModel", 5),
            "{\"token_type_count\": 2, \"model\": \"bert\", \"pre\": \"bert-bge\", \"tokens\": [\"[CLS]\", \"[SEP]\", "
            "\"\u2581a\", \"b\", "
            "\"\u2581[PAD4]\"], \"token_type\": [3, 3, 1, 1, 5], \"bos_token_id\": 0, \"eos_token_id\": 1, "
            "\"seperator_token_id\": 1, "
            "\"add_bos_token\": true, \"add_eos_token\": true, \"normalizer.lowercase\": true}");
}

TEST(Tokenizer, ChatTemplateIsThatOfTheFirstFile) {
  const auto templates = [](const char* config, Files files) {
    files["tokenizer.json"] = Json{}.build();
    files["tokenizer_config.json"] = config;
    const std::string keys = keys_of(files);
    return keys.substr(keys.find("\"merges\"") + 17);
  };
  const Files jinja{{"chat_template.jinja", "one\r\ntwo"}, {"chat_template.json", R"({"chat_template": "json"})"}};
  EXPECT_EQ(templates(R"({"chat_template": "own"})", jinja), R"(, "chat_template": "own"})");
  EXPECT_EQ(templates(R"({"x": 1})", jinja), R"(, "chat_template": "one\ntwo"})");
  EXPECT_EQ(templates(R"({"chat_template": null})", jinja), "}");
  EXPECT_EQ(templates("{}", jinja), "}");
  EXPECT_EQ(templates(R"({"x": 1})", {{"chat_template.json", R"({"chat_template": "json"})"}}),
            R"(, "chat_template": "json"})");
  EXPECT_EQ(templates(R"({"x": 1})", {{"chat_template.jinja", "j"}, {"additional_chat_templates/tool-use.jinja", "t"}}),
            R"(, "chat_template.tool_use": "t", "chat_templates": ["tool_use"], "chat_template": "j"})");
  EXPECT_EQ(
      templates(R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "rag \u00fc", "template": "r"}]})",
                {}),
      R"(, "chat_template.rag__": "r", "chat_templates": ["rag__"], "chat_template": "d"})");
}

TEST(Tokenizer, DamagedFilesBesideItAreRefused) {
  EXPECT_EQ(keys_of(Json{}, "[1]"), "error: tokenizer_config.json is not an object of JSON");
  EXPECT_EQ(keys_of(Json{}, "{"), "error: tokenizer_config.json: invalid JSON near byte 2");
  EXPECT_EQ(keys_of(Json{}, R"({"added_tokens_decoder": {"x": {"content": "a"}}})"),
            "error: tokenizer_config.json: added token \"x\" has no content");
  EXPECT_EQ(keys_of(Files{{"tokenizer.model", small_pieces()}, {"added_tokens.json", R"({"a": -1})"}},
                    "LlamaForCausalLM", R"("vocab_size": 5)", 5),
            "error: added_tokens.json: token \"a\" has no id");
  EXPECT_EQ(keys_of(Files{{"tokenizer.json", Json{}.build()},
                          {"tokenizer_config.json", R"({"x": 1})"},
                          {"chat_template.jinja", "\xff"}}),
            "error: chat_template.jinja is not UTF-8");
}

struct Hostile {
  const char* what;
  Json json;
  const char* error;
};

TEST(Tokenizer, HostileVocabulariesAreRefused) {
  const std::vector<Hostile> rows = {
      {"id twice", {.vocab = R"({"a": 0, "b": 0})"}, "tokenizer.json: two tokens have the id 0"},
      {"id twice among added",
       {.added = added(3, "x") + "," + added(3, "y")},
       "tokenizer.json: two tokens have the id 3"},
      {"text twice among added",
       {.added = added(2, "x") + "," + added(3, "x")},
       "tokenizer.json: token \"x\" has two ids"},
      {"another id", {.added = added(3, "ab")}, "tokenizer.json: token \"ab\" has two ids"},
      {"id beyond the vocabulary",
       {.vocab = R"({"a": 4})"},
       "tokenizer.json has the id 4, the vocabulary of the model has 4 tokens"},
      {"added id beyond it",
       {.added = added(4, "x")},
       "tokenizer.json has the id 4, the vocabulary of the model has 4 tokens"},
      {"huge id",
       {.vocab = R"({"a": 18446744073709551615})"},
       "tokenizer.json: id 18,446,744,073,709,551,615 of a vocabulary of more than 2,000,000 tokens"},
      {"negative id", {.vocab = R"({"a": -1})"}, "tokenizer.json: the id of \"a\" is not a whole number"},
      {"nested id", {.vocab = R"({"a": {"b": 1}})"}, "tokenizer.json: the id of \"a\" is not a whole number"},
      {"no vocabulary", {.vocab = "{}"}, "tokenizer.json: no vocabulary"},
      {"merge of one", {.merges = R"(["ab"])"}, "tokenizer.json: merge 0 is \"ab\", not two tokens"},
      {"merge of three", {.merges = R"(["a b", "a b c"])"}, "tokenizer.json: merge 1 is \"a b c\", not two tokens"},
      {"merge of a space", {.merges = R"([" a"])"}, "tokenizer.json: merge 0 is \" a\", not two tokens"},
      {"long pair", {.merges = R"([["a", "b", "c"]])"}, "tokenizer.json: merge 0 is neither a text nor two texts"},
      {"short pair", {.merges = R"([["a"]])"}, "tokenizer.json: merge 0 is neither a text nor two texts"},
      {"empty part", {.merges = R"([["", "b"]])"}, "tokenizer.json: merge 0 is \" b\", not two tokens"},
      {"numbers", {.merges = "[1]"}, "tokenizer.json: merge 0 is neither a text nor two texts"},
      {"nested pair", {.merges = R"([[["a"], "b"]])"}, "tokenizer.json: merge 0 is neither a text nor two texts"},
      {"added text", {.added = R"("x")"}, "tokenizer.json: an added token is not an object"},
      {"added list", {.added = "[]"}, "tokenizer.json: an added token is not an object"},
      {"no content", {.added = R"({"id": 3})"}, "tokenizer.json: an added token without an id or content"},
      {"depth",
       {.normalizer = std::string(200, '[') + std::string(200, ']')},
       "tokenizer.json: JSON nested deeper than 100"},
  };
  for (const Hostile& row : rows) EXPECT_THAT(keys_of(row.json), HasSubstr(row.error)) << row.what;
}

TEST(Tokenizer, VocabularyIsAsLargeAsTheEmbeddings) {
  EXPECT_EQ(keys_of(Json{}, "", R"("vocab_size": 5)"), "error: a vocabulary of 5 tokens, and embeddings of 4 rows");
  EXPECT_EQ(keys_of(Json{}, "", R"("vocab_size": 3)"), "error: a vocabulary of 3 tokens, and embeddings of 4 rows");
  EXPECT_THAT(keys_of(Json{}, "", ""), HasSubstr("[PAD3]")) << "as many as the embeddings have rows";
  EXPECT_EQ(keys_of(Json{}, "", R"("vocab_size": 1000000000)", "Qwen2ForCausalLM", 0),
            "error: a vocabulary of 1,000,000,000 tokens; at most 2,000,000 are supported");
  EXPECT_THAT(keys_of(Json{}, "", R"("vocab_size": 2000000)", "Qwen2ForCausalLM", 0), HasSubstr("error: "))
      << "the budget";
}

TEST(Tokenizer, NothingStaysChargedAfterARefusal) {
  const auto model = model_of({{"tokenizer.json", Json{.added = added(9, "x")}.build()}}, 4,
                              config_of("Qwen2ForCausalLM", R"("vocab_size": 4)"));
  EXPECT_THAT(keys_of(model), HasSubstr("error: "));
  EXPECT_EQ(model->budget->memory_used(), 0u);
}

TEST(Tokenizer, EveryTruncationAndFlippedByteIsReadOrRefused) {
  const std::string whole = Json{.added = added(3, "<s>"), .normalizer = R"({"type": "NFC"})"}.build();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(keys_of(Files{{"tokenizer.json", whole.substr(0, size)}}), testing::StartsWith("error: ")) << size;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_THAT(keys_of(Files{{"tokenizer.json", damaged}}), Not(HasSubstr("unreadable"))) << at;
  }
}

TEST(Tokenizer, RowsOfGemmaWithoutATokenAreDropped) {
  const auto rows = [](Files files, const char* class_name, const char* fields, uint64_t rows_stored) -> int64_t {
    const auto repository =
        mapping::Repository::open(model_of(std::move(files), rows_stored, config_of(class_name, fields)), "m").value();
    const auto kept = mapping::rows_of_embeddings(*repository);
    return kept ? static_cast<int64_t>(kept->value_or(0)) : -1;
  };
  const Files json{{"tokenizer.json", byte_fallback().build()}};
  EXPECT_EQ(rows(json, "Gemma3ForCausalLM", R"("vocab_size": 12)", 12), 10) << "7 of the vocabulary and 3 added";
  EXPECT_EQ(rows(json, "Gemma3ForCausalLM", R"("vocab_size": 10)", 10), 0);
  EXPECT_EQ(rows(json, "Gemma4ForCausalLM", "", 16), 9);
  EXPECT_EQ(rows(json, "Gemma4ForCausalLM", R"("vocab_size": 10)", 10), 0);
  Json with_gap = byte_fallback();
  with_gap.added = added(19, "<s>");
  EXPECT_EQ(rows({{"tokenizer.json", with_gap.build()}}, "Gemma3ForCausalLM", R"("vocab_size": 22)", 22), 20);
  EXPECT_EQ(rows(json, "LlamaForCausalLM", R"("vocab_size": 12)", 12), 0);
  const Files pieces{{"tokenizer.model", small_pieces()}};
  EXPECT_EQ(rows(pieces, "Gemma3ForCausalLM", R"("vocab_size": 6)", 8), 6);
  EXPECT_EQ(rows(pieces, "Gemma3ForCausalLM", "", 8), 5);
  EXPECT_EQ(rows({}, "Gemma3ForCausalLM", "", 8), -1);
  EXPECT_THAT(keys_of(json, "Gemma3ForCausalLM", R"("vocab_size": 12)", 12), Not(HasSubstr("[PAD10]")));
}

}  // namespace
}  // namespace weightfs::tokenizer_test
