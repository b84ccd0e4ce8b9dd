#include "formats/mapping/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "formats/mapping/tokenizer/chat_template.h"
#include "formats/mapping/tokenizer/merge_scores.h"
#include "formats/mapping/tokenizer/pieces.h"
#include "formats/mapping/tokenizer/post_processor.h"
#include "formats/mapping/tokenizer/pre_tokenizer.h"
#include "formats/mapping/tokenizer/pre_tokens.h"
#include "formats/mapping/tokenizer/repository_files.h"
#include "formats/mapping/tokenizer/special_tokens.h"
#include "formats/mapping/tokenizer/vocabulary.h"

namespace weightfs::mapping {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kPre = "tokenizer.ggml.pre";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kAddSpacePrefix = "tokenizer.ggml.add_space_prefix";
constexpr std::string_view kEot = "tokenizer.ggml.eot_token_id";

// CodeLlama and its end of an infill; vocabularies of small Granite and of SmolLM, whose models begin without bos.
constexpr uint64_t kVocabularyOfCodeLlama = 32'016;
constexpr uint64_t kEotOfCodeLlama = 32'010;
constexpr uint64_t kVocabularyWithoutBos = 49'152;

// tokenizer.ggml.pre of WordPiece, which llama.cpp does not read. The converter finds it by the tokens of a text, here
// it is found by the size: that of bert-base-uncased is listed twice, and the last name counts.
std::string_view pre_of_wordpiece(uint64_t count) {
  constexpr uint64_t kUncasedEnglish = 30'522;
  constexpr uint64_t kChinese = 21'128;
  if (count == kUncasedEnglish) return "jina-v2-en";
  return count == kChinese ? "bert-bge-large" : "bert-bge";
}

bool is_llama(Arch arch) {
  return arch == Arch::llama || arch == Arch::granite || arch == Arch::smollm3 || arch == Arch::mistral3;
}

bool is_gemma(Arch arch) { return arch == Arch::gemma2 || arch == Arch::gemma3; }

// How many rows of the embeddings the converter keeps; without a tokenizer.model, it counts an added token twice that
// is in the vocabulary too. It would drop rows of tokens if an id were left out, which is not done here.
Result<uint64_t> kept_rows(Repository& repository, const OpenedFiles& files, const TokenizerJson& json) {
  if (!drops_rows(repository)) return kMaxTokens;
  const uint64_t size = TRY(vocabulary_size(repository, json.end_of_ids));
  if (files.pieces != nullptr) return size;
  return std::min(size, std::max(json.vocab_count + json.added.size(), json.end_of_ids));
}

// Adds the keys of one tokenizer.
class TokenizerKeys {
 public:
  TokenizerKeys(Repository& repository, OpenedFiles files, Budget& budget, Keys& keys)
      : repository_(repository), files_(std::move(files)), budget_(budget), keys_(keys), written_(budget) {}

  Result<void> add() {
    TRY_VOID(add_vocabulary());
    add_of_class();
    written_.keep();
    return {};
  }

 private:
  Arch arch() const { return repository_.architecture().id; }

  Result<void> add_vocabulary() {
    const bool has_pieces = reads_pieces(repository_, files_);
    if (files_.json != nullptr)
      json_ = TRY(read_tokenizer_json(*files_.json, has_pieces ? Keep::counts : Keep::everything, budget_));
    add_prefix_of_config();
    if (has_pieces) return add_pieces();
    if (arch() == Arch::bert) return add_wordpiece();
    if (json_->type != "BPE")
      return failure(Code::unsupported, fmt::format("the tokenizer is {} only", printable(json_->type)));
    if (arch() == Arch::gemma4) return add_gemma4();
    return json_->has_byte_fallback && !is_byte_level(*json_) ? add_scored() : add_byte_level();
  }

  void add_prefix_of_config() {
    if (!is_llama(arch()) || files_.tokenizer_config == nullptr) return;
    if (const auto* const flag = files_.tokenizer_config->find_as<bool>("add_prefix_space"))
      keys_.flag(kAddSpacePrefix, *flag);
  }

  Result<void> add_pieces() {
    const Pieces pieces = TRY(read_pieces(*files_.pieces, budget_));
    const uint64_t count = TRY(vocabulary_size(repository_, pieces.all.size()));
    const auto of_file = TRY(tokens_of_added_file());
    const auto of_config = TRY(tokens_of_config(files_.tokenizer_config));
    const AddedRule rule = arch() == Arch::phi3 ? AddedRule::as_written : AddedRule::by_look;
    Tokens tokens = TRY(piece_tokens(pieces, count, budget_));
    TRY_VOID(replace_pieces(of_file, AddedRule::as_written, tokens));
    TRY_VOID(replace_pieces(of_config, rule, tokens));
    if (arch() == Arch::phi3 && json_ != nullptr) TRY_VOID(replace_pieces(json_->added, rule, tokens));
    TRY_VOID(add_scored_tokens(tokens));
    return add_special(count);
  }

  // added_tokens.json: ids by their texts.
  Result<std::vector<AddedToken>> tokens_of_added_file() {
    std::vector<AddedToken> out;
    const Map* const stated = TRY(repository_.object("added_tokens.json"));
    if (stated == nullptr) return out;
    for (const auto& [text, value] : *stated) {
      const auto id = summary::number_of(value);
      if (!id) return failure(Code::corrupt, fmt::format("added_tokens.json: token {} has no id", quoted(text)));
      out.push_back({text, *id});
    }
    return out;
  }

  Result<void> add_scored_tokens(const Tokens& tokens) {
    keys_.text(kModel, "llama");
    keys_.text(kPre, "default");
    TRY_VOID(tokens.add_texts(keys_, written_));
    TRY_VOID(tokens.add_scores(keys_, written_));
    return tokens.add_types(keys_, written_);
  }

  Result<void> add_scored() {
    const bool has_prefix = TRY(prepends_space(*json_));
    const uint64_t size = TRY(vocabulary_size(repository_, json_->end_of_ids));
    const uint64_t count = std::min(size, TRY(kept_rows(repository_, files_, *json_)));
    const Tokens tokens = TRY(scored_tokens(*json_, files_.tokenizer_config, count, budget_));
    TRY_VOID(add_scored_tokens(tokens));
    TRY_VOID(add_special(count));
    // tokenizer.json decides: add_prefix_space of tokenizer_config.json is for a class that needs tokenizer.model.
    if (!has_prefix || keys_.has(kAddSpacePrefix)) keys_.flag(kAddSpacePrefix, has_prefix);
    return {};
  }

  Result<void> add_gemma4() {
    const uint64_t rows = embedding_rows(repository_.model()).value_or(json_->end_of_ids);
    const uint64_t count = std::min(rows, TRY(kept_rows(repository_, files_, *json_)));
    const Tokens tokens = TRY(gemma4_tokens(*json_, files_.tokenizer_config, count, budget_));
    keys_.text(kModel, "gemma4");
    TRY_VOID(tokens.add_texts(keys_, written_));
    TRY_VOID(tokens.add_scores(keys_, written_));
    TRY_VOID(tokens.add_types(keys_, written_));
    TRY_VOID(check_merges(json_->merges, tokens, budget_));
    TRY_VOID(add_merges());
    TRY_VOID(add_special(std::nullopt));
    keys_.flag(kAddSpacePrefix, false);
    keys_.flag(kAddBos, true);
    return {};
  }

  Result<void> add_byte_level() {
    const Map* const config = files_.tokenizer_config;
    const auto* const cleans = config == nullptr ? nullptr : config->find_as<bool>("clean_up_tokenization_spaces");
    const PreTokenizer by_expression =
        TRY(find_pre_tokenizer(*json_, {.is_glm = arch() == Arch::glm4,
                                        .cleans_spaces = cleans == nullptr ? arch() == Arch::granite : *cleans}));
    const std::string_view by_tokens = name_by_tokens_of_text(by_expression.family);
    const std::string_view pre = by_tokens.empty() ? by_expression.name : by_tokens;
    if (json_->merges.count == 0) return failure(Code::unsupported, "tokenizer.json has no merges");
    const uint64_t count = TRY(vocabulary_size(repository_, json_->end_of_ids));
    const Tokens tokens = TRY(byte_level_tokens(*json_, config, count, budget_));
    keys_.text(kModel, "gpt2");
    keys_.text(kPre, pre);
    TRY_VOID(tokens.add_texts(keys_, written_));
    TRY_VOID(tokens.add_types(keys_, written_));
    TRY_VOID(check_merges(json_->merges, tokens, budget_));
    TRY_VOID(add_merges());
    TRY_VOID(add_special(std::nullopt));
    if (by_tokens.empty() && adds_bos_by_default(pre) && !keys_.has(kAddBos) && !class_adds_bos())
      keys_.flag(kAddBos, false);
    return {};
  }

  // The name that the converter has for this very tokenizer; empty if it has none.
  std::string_view name_by_tokens_of_text(std::string_view family) const {
    TextsAround around = texts_around(json_->post_processor);
    const Map* const config = files_.tokenizer_config;
    if (config != nullptr && class_adds_bos()) {
      const auto texts = [&](std::string_view token, std::string_view added, bool by_default) {
        const auto* const flag = config->find_as<bool>(added);
        const auto text = text_of_token(config->find(token));
        return text && (flag == nullptr ? by_default : *flag) ? std::vector{*text} : std::vector<std::string>();
      };
      around = {texts("bos_token", "add_bos_token", true), texts("eos_token", "add_eos_token", false)};
    }
    return name_by_tokens(*json_, family, ids_of(around.before), ids_of(around.after));
  }

  std::vector<uint64_t> ids_of(const std::vector<std::string>& texts) const {
    std::vector<uint64_t> ids;
    for (const std::string& text : texts)
      if (const auto token = std::ranges::find(json_->added, text, &AddedToken::text); token != json_->added.end())
        ids.push_back(token->id);
    return ids;
  }

  // LlamaTokenizerFast adds bos unless add_bos_token denies it.
  bool class_adds_bos() const {
    const Map* const config = files_.tokenizer_config;
    return config != nullptr && text_in(*config, "tokenizer_class").starts_with("LlamaTokenizer");
  }

  Result<void> add_wordpiece() {
    if (json_->type != "WordPiece" || (!json_->subword_prefix.empty() && json_->subword_prefix != "##"))
      return failure(Code::unsupported, fmt::format("the tokenizer is {} only", printable(json_->type)));
    const uint64_t count = TRY(vocabulary_size(repository_, json_->end_of_ids));
    const Tokens tokens = TRY(wordpiece_tokens(*json_, files_.tokenizer_config, count, budget_));
    keys_.u32("tokenizer.ggml.token_type_count", repository_.config().number({"type_vocab_size"}).value_or(1));
    keys_.text(kModel, "bert");
    keys_.text(kPre, pre_of_wordpiece(count));
    TRY_VOID(tokens.add_texts(keys_, written_));
    TRY_VOID(tokens.add_types(keys_, written_));
    return add_special(count);
  }

  Result<void> add_merges() {
    TRY_VOID(written_.charge(Cost::kept, json_->merges.encoded.size()));
    keys_.array(kMerges, gguf::ValueType::string, json_->merges.count, std::move(json_->merges.encoded));
    return {};
  }

  TokenizerFiles special_files() const {
    return {.json = json_.get(), .tokenizer_config = files_.tokenizer_config, .config = config_};
  }

  // Special tokens, the chat template and the normalizer. Ids from `count` on are ignored, if it is known.
  Result<void> add_special(std::optional<uint64_t> count) {
    config_ = TRY(repository_.object("config.json"));
    SpecialTokens special(special_files(), count);
    if (arch() == Arch::glm4) set_of_glm(special);
    special.add_to(keys_);
    if (files_.tokenizer_config != nullptr) TRY_VOID(add_chat_template(repository_, *files_.tokenizer_config, keys_));
    if (json_ != nullptr) add_normalizer(json_->normalizer, keys_);
    return {};
  }

  void set_of_glm(SpecialTokens& special) const {
    constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
        {"eos", "<|endoftext|>"}, {"eot", "<|user|>"}, {"unk", "<|endoftext|>"}, {"bos", "<|endoftext|>"}};
    for (const auto& [type, text] : kTexts) {
      const auto token = std::ranges::find(json_->added, text, &AddedToken::text);
      if (token != json_->added.end()) special.set(type, token->id);
    }
  }

  void add_of_class() {
    if (is_gemma(arch())) keys_.flag(kAddSpacePrefix, false);
    if (!is_llama(arch())) return;
    const auto size = repository_.config().number({"vocab_size"});
    if (size == kVocabularyOfCodeLlama && !keys_.has(kEot)) keys_.u32(kEot, kEotOfCodeLlama);
    if (size == kVocabularyWithoutBos) keys_.flag(kAddBos, false);
  }

  Repository& repository_;
  const OpenedFiles files_;
  Budget& budget_;
  Keys& keys_;
  Charges written_;
  std::unique_ptr<TokenizerJson> json_;  // null if there is none
  const Map* config_ = nullptr;
};

BudgetPtr budget_of_files(const Repository& repository, const OpenedFiles& files) {
  const Model& model = repository.model();
  BudgetPtr budget = model.budget != nullptr ? model.budget : std::make_shared<Budget>(0);
  for (const SourcePtr& file : {files.json, files.pieces})
    if (file != nullptr) budget->add_file(*file);
  return budget;
}

}  // namespace

Result<void> add_tokenizer(Repository& repository, Keys& keys) {
  OpenedFiles files = TRY(open_tokenizer_files(repository));
  const BudgetPtr budget = budget_of_files(repository, files);
  return TokenizerKeys(repository, std::move(files), *budget, keys).add();
}

Result<std::optional<uint64_t>> rows_of_embeddings(Repository& repository) {
  const std::optional<uint64_t> rows = embedding_rows(repository.model());
  if (!drops_rows(repository) || !rows) return std::nullopt;
  const OpenedFiles files = TRY(open_tokenizer_files(repository));
  const BudgetPtr budget = budget_of_files(repository, files);
  uint64_t kept = 0;
  if (files.pieces != nullptr) {
    const Pieces pieces = TRY(read_pieces(*files.pieces, *budget));
    kept = TRY(vocabulary_size(repository, pieces.all.size()));
  } else {
    const auto json = TRY(read_tokenizer_json(*files.json, Keep::counts, *budget));
    kept = TRY(kept_rows(repository, files, *json));
  }
  return kept < *rows ? std::optional(kept) : std::nullopt;
}

}  // namespace weightfs::mapping
