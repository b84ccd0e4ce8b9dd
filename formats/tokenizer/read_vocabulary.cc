// Reads the tokens of a model from the keys of its GGUF, or from the files of its repository.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/gguf_keys.h"
#include "formats/grouped.h"
#include "formats/mapping/hub/stored_tokens.h"
#include "formats/mapping/tokenizer/pieces.h"
#include "formats/mapping/tokenizer/pre_tokenizer.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"
#include "formats/mapping/tokenizer/vocabulary.h"
#include "formats/summary/small_files.h"
#include "formats/tokenizer/vocabulary.h"

namespace weightfs::tokenizer {
namespace {

using mapping::AddedToken;
using mapping::kMaxTokens;

using Made = std::shared_ptr<Vocabulary>;

constexpr const char* kTokens = "tokenizer.ggml.tokens";

Error too_many(std::string_view file) {
  return {Code::unsupported, fmt::format("{}: more than {} tokens", file, grouped(kMaxTokens))};
}

TokenKind kind_of(double type) {
  const bool is_known = type >= 1 && type <= static_cast<double>(TokenKind::byte);
  return is_known ? static_cast<TokenKind>(static_cast<int>(type)) : TokenKind::unstated;
}

Spelling spelling_of(std::string_view gguf_model) {
  if (gguf_model == "gpt2") return Spelling::byte_level;
  for (const std::string_view name : {"llama", "bert", "t5", "gemma4"})
    if (gguf_model == name) return Spelling::pieces;
  return Spelling::plain;
}

// Null if the GGUF has no tokens. Lists of other lengths than that of the tokens are used as far as they go.
Result<Made> read_keys(const GgufKeys& keys, Budget& budget) {
  const auto stored = TRY(mapping::StoredTokenizer::find(keys, budget));
  const auto out = std::make_shared<Vocabulary>(kTokens, spelling_of(TRY(stored.text("tokenizer.ggml.model"))));
  Charges charges(budget, Charges::Pass::together);
  const auto add = [&](std::string_view text) -> Result<void> {
    const uint64_t id = out->tokens().size();
    if (id == kMaxTokens) return failure(too_many(kTokens));
    TRY_VOID(charges.charge(Cost::kept, sizeof(Token) + text.size()));
    out->add({.id = static_cast<uint32_t>(id), .text = text});
    return {};
  };
  TRY_VOID(stored.each_text(kTokens, add));
  if (out->tokens().empty()) return Made();
  const size_t count = out->tokens().size();
  const auto types = TRY(stored.numbers("tokenizer.ggml.token_type"));
  for (size_t i = 0; i < std::min(count, types.size()); ++i) out->set_kind(i, kind_of(types[i]));
  const auto scores = TRY(stored.numbers("tokenizer.ggml.scores"));
  for (size_t i = 0; i < std::min(count, scores.size()); ++i) out->set_score(i, static_cast<float>(scores[i]));
  if (!scores.empty()) out->set_scored();
  return out;
}

std::vector<Token> special_of(const std::vector<AddedToken>& added) {
  std::vector<Token> out;
  for (const AddedToken& token : added) {
    if (token.id >= kMaxTokens) continue;
    out.push_back({.id = static_cast<uint32_t>(token.id),
                   .kind = token.is_special ? TokenKind::control : TokenKind::user_defined,
                   .text = token.text});
  }
  return out;
}

// Whether pieces of SentencePiece are the tokens: a space is U+2581.
bool has_pieces(const mapping::TokenizerJson& json) {
  return json.type == "Unigram" || json.has_byte_fallback ||
         std::ranges::any_of(json.vocab,
                             [](const mapping::VocabEntry& entry) { return entry.text == mapping::kSpaceOfPieces; });
}

Result<Made> read_json_file(const Source& file, Budget& budget) {
  const auto json = TRY(mapping::read_tokenizer_json(file, mapping::Keep::vocabulary, budget));
  const Spelling spelling = mapping::is_byte_level(*json) ? Spelling::byte_level
                            : has_pieces(*json)           ? Spelling::pieces
                                                          : Spelling::plain;
  const auto out = std::make_shared<Vocabulary>("tokenizer.json", spelling);
  const bool has_scores = json->type == "Unigram";
  for (const mapping::VocabEntry& entry : json->vocab) {
    const bool is_byte = json->has_byte_fallback && mapping::is_byte_token(entry.text);
    out->add({.id = entry.id,
              .kind = is_byte ? TokenKind::byte : TokenKind::normal,
              .score = entry.score,
              .text = entry.text});
  }
  if (has_scores) out->set_scored();
  out->add_special(special_of(json->added));
  return out;
}

Result<Made> read_pieces_file(const Source& file, Budget& budget) {
  const mapping::Pieces pieces = TRY(mapping::read_pieces(file, budget, mapping::PiecesFor::people));
  const auto out = std::make_shared<Vocabulary>("tokenizer.model", Spelling::pieces);
  for (uint32_t id = 0; id < pieces.all.size(); ++id) {
    const mapping::Piece& piece = pieces.all[id];
    out->add({.id = id, .kind = kind_of(static_cast<double>(piece.type)), .score = piece.score, .text = piece.text});
  }
  out->set_scored();
  return out;
}

// vocab.json of GPT-2: an object of ids by tokens. Keeps nothing of other values.
class IdReader final : public JsonEvents {
 public:
  IdReader(Vocabulary& out, Charges& charges) : out_(out), charges_(charges) {}

  bool scalar(Value /*value*/) override { return true; }
  bool unsigned_integer(uint64_t id) override {
    if (depth_ != 1) return true;
    if (id >= kMaxTokens || out_.tokens().size() == kMaxTokens || key_.size() > mapping::kMaxTokenText)
      return fail(too_many("vocab.json"));
    if (const auto charged = charges_.charge(Cost::kept, sizeof(Token) + key_.size()); !charged)
      return fail(charged.error());
    out_.add({.id = static_cast<uint32_t>(id), .kind = TokenKind::normal, .text = key_});
    return true;
  }
  bool string(std::string& /*text*/) override { return true; }
  bool key(std::string& text) override {
    key_.swap(text);
    return true;
  }
  bool begin_object() override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool begin_array() override { return ++depth_ > 0; }
  bool end_array() override { return --depth_ >= 0; }

  const std::optional<Error>& error() const { return error_; }

 private:
  bool fail(Error error) {
    error_ = std::move(error);
    return false;
  }

  Vocabulary& out_;
  Charges& charges_;
  int depth_ = 0;
  std::string key_;
  std::optional<Error> error_;
};

Result<Made> read_ids_file(const Source& file, Budget& budget) {
  TRY_VOID(budget.charge(Cost::input, file.size()));
  Charges charges(budget, Charges::Pass::together);
  const auto out = std::make_shared<Vocabulary>("vocab.json", Spelling::byte_level);
  IdReader reader(*out, charges);
  const auto read = read_json(file, 0, file.size(), reader);
  if (reader.error()) return failure(*reader.error());
  if (!read) return failure(with_message(read.error(), "vocab.json: " + read.error().message));
  return out;
}

// vocab.txt of BERT: a token a line.
Result<Made> read_lines_file(const Source& file, Budget& budget) {
  TRY_VOID(budget.charge(Cost::input, file.size()));
  Charges charges(budget, Charges::Pass::together);
  TRY_VOID(charges.charge(Cost::kept, file.size()));
  const std::string text = TRY(read_text(file, 0, file.size()));
  const auto out = std::make_shared<Vocabulary>("vocab.txt", Spelling::plain);
  for (std::string_view rest = text; !rest.empty();) {
    const uint64_t id = out->tokens().size();
    if (id == kMaxTokens) return failure(too_many("vocab.txt"));
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    TRY_VOID(charges.charge(Cost::kept, sizeof(Token) + line.size()));
    out->add({.id = static_cast<uint32_t>(id), .kind = TokenKind::normal, .text = line});
  }
  return out;
}

using Read = Result<Made> (*)(const Source& file, Budget& budget);

struct File {
  const char* path;
  Read read;
};

constexpr auto kFiles = std::to_array<File>({{"tokenizer.json", read_json_file},
                                             {"tokenizer.model", read_pieces_file},
                                             {"vocab.json", read_ids_file},
                                             {"vocab.txt", read_lines_file}});

// The added tokens of tokenizer_config.json, which tokenizer.json has itself.
Result<void> add_of_config(summary::SmallFiles& files, Vocabulary& out) {
  const Map* const config = TRY(files.checked_object("tokenizer_config.json"));
  const auto added = TRY(mapping::tokens_of_config(config));
  out.add_special(special_of(added));
  return {};
}

Result<VocabularyPtr> read_files(const Model& model) {
  summary::SmallFiles files(model);
  for (const File& each : kFiles) {
    const SourcePtr file = TRY(files.checked_open(each.path));
    if (file == nullptr) continue;
    if (file->size() > mapping::kMaxTokenizerFile)
      return failure(Code::unsupported, fmt::format("{}: {} is more than 64 MiB", each.path, human_size(file->size())));
    Budget budget(file->size());
    const Made read = TRY(each.read(*file, budget));
    if (read->stated_in() != "tokenizer.json") TRY_VOID(add_of_config(files, *read));
    return read;
  }
  return VocabularyPtr();
}

}  // namespace

Result<VocabularyPtr> read_vocabulary(const Model& model) {
  if (model.gguf_keys != nullptr) {
    uint64_t bytes = 0;
    for (const GgufKeys::Entries& entries : model.gguf_keys->entries) bytes += entries.bytes.size();
    Budget budget(bytes);
    if (const Made read = TRY(read_keys(*model.gguf_keys, budget))) return read;
  }
  return read_files(model);
}

}  // namespace weightfs::tokenizer
