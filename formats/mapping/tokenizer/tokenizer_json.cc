#include "formats/mapping/tokenizer/tokenizer_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/grouped.h"
#include "formats/mapping/keys.h"

namespace weightfs::mapping {
namespace {

constexpr uint64_t kMaxDescription = 100'000;           // values of the normalizer, the pre-tokenizer, …
constexpr std::string_view kSpaceInMerge = "\xC4\xA0";  // U+0120

Error malformed(std::string problem) { return {Code::corrupt, "tokenizer.json: " + std::move(problem)}; }

// A stream of events as a TokenizerJson.
class TokenizerReader final : public JsonEvents {
 public:
  TokenizerReader(TokenizerJson& out, Keep keep) : out_(out), keep_(keep) {}

  bool scalar(Value value) override { return take(std::move(value)); }
  bool unsigned_integer(uint64_t n) override;
  bool string(std::string& text) override;
  bool key(std::string& text) override;
  bool begin_object() override;
  bool end_object() override { return end(&ValueBuilder::end_object); }
  bool begin_array() override;
  bool end_array() override { return end(&ValueBuilder::end_array); }

  const std::optional<Error>& error() const { return error_; }

 private:
  enum class At : uint8_t {
    outside,
    file,
    added_tokens,
    added_token,
    model,
    vocab,
    pieces,
    piece,
    merges,
    pair,
    description,
    skipped
  };

  At at() const { return open_.empty() ? At::outside : open_.back(); }
  bool enter(At at) {
    open_.push_back(at);
    return true;
  }
  bool enter_nested(At at) {
    depth_ = 1;
    return enter(at);
  }
  bool fail(Error error) {
    error_ = std::move(error);
    return false;
  }
  bool fail(std::string problem) { return fail(malformed(std::move(problem))); }
  bool charge(Cost cost, uint64_t count);

  Value* description();
  bool begin_description();
  bool take(Value value);
  void take_field_of_token(Value value);
  void take_field_of_model(const Value& value);
  bool add_entry(uint64_t id, float score = 0);
  bool take_score(const Value& value);
  bool add_piece();
  bool add_token();
  bool add_merge(std::string_view text);
  bool add_part(std::string_view text);
  bool add_pair();
  bool end(bool (ValueBuilder::*end_of_value)());
  bool build(bool (ValueBuilder::*event)());
  bool has_built(bool has_room);

  TokenizerJson& out_;
  const Keep keep_;
  std::vector<At> open_;
  uint64_t depth_ = 0;  // of what is open in a description or in what is skipped
  std::string key_;
  std::optional<ValueBuilder> builder_;
  AddedToken token_;
  bool has_id_ = false;
  bool has_text_ = false;
  std::string pair_;
  int parts_ = 0;
  double score_ = 0;  // of a piece
  std::optional<Error> error_;
};

bool TokenizerReader::charge(Cost cost, uint64_t count) {
  const auto charged = out_.charges.charge(cost, count);
  return charged || fail(charged.error());
}

bool TokenizerReader::has_built(bool has_room) {
  return has_room ? charge(Cost::value, 1) : fail(fmt::format("more than {} values in a part", kMaxDescription));
}

bool TokenizerReader::build(bool (ValueBuilder::*event)()) { return has_built((*builder_.*event)()); }

Value* TokenizerReader::description() {
  if (key_ == "normalizer") return &out_.normalizer;
  if (key_ == "pre_tokenizer") return &out_.pre_tokenizer;
  if (key_ == "post_processor") return &out_.post_processor;
  return key_ == "decoder" ? &out_.decoder : nullptr;
}

bool TokenizerReader::unsigned_integer(uint64_t n) {
  if (at() == At::vocab) return add_entry(n);
  if (at() == At::description) return has_built(builder_->unsigned_integer(n));
  return take(n <= INT64_MAX ? Value(static_cast<int64_t>(n)) : Value(n));
}

bool TokenizerReader::string(std::string& text) {
  if (at() == At::merges) return add_merge(text);
  if (at() == At::pair) return add_part(text);
  if (at() == At::piece && parts_ == 0) {
    key_.swap(text);
    return ++parts_ > 0;
  }
  if (at() == At::description) return charge(Cost::kept, text.size()) && has_built(builder_->string(text));
  return take(Value(std::move(text)));
}

bool TokenizerReader::key(std::string& text) {
  if (at() == At::description) return charge(Cost::kept, text.size()) && has_built(builder_->key(text));
  if (at() != At::skipped) key_.assign(text);
  return true;
}

bool TokenizerReader::take(Value value) {
  switch (at()) {
    case At::outside:
      return fail("not a JSON object");
    case At::file:
      if (Value* const field = description()) *field = nullptr;
      return true;
    case At::added_token:
      take_field_of_token(std::move(value));
      return true;
    case At::model:
      take_field_of_model(value);
      return true;
    case At::description:
      return has_built(builder_->scalar(std::move(value)));
    case At::skipped:
      return true;
    case At::added_tokens:
      return fail("an added token is not an object");
    case At::vocab:
      return fail(fmt::format("the id of {} is not a whole number", quoted(key_)));
    case At::piece:
      return take_score(value);
    case At::pieces:
      return fail(fmt::format("token {} is not a text with a score", out_.vocab_count));
    case At::merges:
    case At::pair:
      break;
  }
  return fail(fmt::format("merge {} is neither a text nor two texts", out_.merge_count));
}

void TokenizerReader::take_field_of_token(Value value) {
  if (key_ == "id") {
    const auto* const id = std::get_if<int64_t>(&value);
    has_id_ = id != nullptr && *id >= 0;
    if (has_id_) token_.id = static_cast<uint64_t>(*id);
  } else if (auto* const text = std::get_if<std::string>(&value); key_ == "content" && text != nullptr) {
    token_.text = std::move(*text);
    has_text_ = true;
  } else if (const auto* const flag = std::get_if<bool>(&value); key_ == "special" && flag != nullptr) {
    token_.is_special = *flag;
  }
}

void TokenizerReader::take_field_of_model(const Value& value) {
  const auto* const text = std::get_if<std::string>(&value);
  const auto* const flag = std::get_if<bool>(&value);
  if (key_ == "type" && text != nullptr) out_.type = *text;
  if (key_ == "continuing_subword_prefix" && text != nullptr) out_.subword_prefix = *text;
  if (key_ == "byte_fallback" && flag != nullptr) out_.has_byte_fallback = *flag;
  if (key_ == "ignore_merges" && flag != nullptr) out_.ignores_merges = *flag;
}

bool TokenizerReader::take_score(const Value& value) {
  const auto* const real = std::get_if<double>(&value);
  const auto* const whole = std::get_if<int64_t>(&value);
  if (parts_ != 1 || (real == nullptr && whole == nullptr))
    return fail(fmt::format("token {} is not a text with a score", out_.vocab_count));
  ++parts_;
  score_ = real != nullptr ? *real : static_cast<double>(*whole);
  return true;
}

bool TokenizerReader::add_piece() {
  if (parts_ != 2) return fail(fmt::format("token {} is not a text with a score", out_.vocab_count));
  return add_entry(out_.vocab_count, static_cast<float>(score_));
}

bool TokenizerReader::add_entry(uint64_t id, float score) {
  if (id >= kMaxTokens || out_.vocab_count >= kMaxTokens)
    return fail({Code::unsupported, fmt::format("tokenizer.json: id {} of a vocabulary of more than {} tokens",
                                                grouped(id), grouped(kMaxTokens))});
  ++out_.vocab_count;
  out_.end_of_ids = std::max(out_.end_of_ids, id + 1);
  if (keep_ == Keep::counts) return true;
  if (key_.size() > kMaxTokenText) return fail("a token of more than 64 KiB");
  if (!charge(Cost::kept, key_.size() + 2 * sizeof(VocabEntry))) return false;
  out_.vocab.push_back({out_.texts.add(key_), static_cast<uint32_t>(id), score});
  return true;
}

bool TokenizerReader::add_token() {
  if (!has_id_ || !has_text_) return fail("an added token without an id or content");
  if (out_.added.size() >= kMaxTokens || token_.id >= kMaxTokens || token_.text.size() > kMaxTokenText)
    return fail({Code::unsupported, fmt::format("tokenizer.json: added token {} with the id {}", quoted(token_.text),
                                                grouped(token_.id))});
  if (!charge(Cost::kept, token_.text.size() + 2 * sizeof(AddedToken))) return false;
  out_.end_of_ids = std::max(out_.end_of_ids, token_.id + 1);
  out_.added.push_back(std::move(token_));
  return true;
}

bool TokenizerReader::add_merge(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == 0 || space == text.npos || space + 1 == text.size() || text.find(' ', space + 1) != text.npos)
    return fail(fmt::format("merge {} is {}, not two tokens", out_.merge_count, quoted(text)));
  if (out_.merge_count >= kMaxTokens)
    return fail({Code::unsupported, fmt::format("tokenizer.json: more than {} merges", grouped(kMaxTokens))});
  ++out_.merge_count;
  if (keep_ != Keep::everything) return true;
  if (!charge(Cost::kept, text.size() + sizeof(uint64_t))) return false;
  append_gguf_text(out_.merges.encoded, text);
  ++out_.merges.count;
  return true;
}

bool TokenizerReader::add_part(std::string_view text) {
  if (++parts_ > 2 || text.size() > kMaxTokenText) return take(nullptr);
  if (parts_ == 2) pair_ += ' ';
  for (const char c : text) {
    if (c == ' ')
      pair_ += kSpaceInMerge;
    else
      pair_ += c;
  }
  return true;
}

bool TokenizerReader::add_pair() { return parts_ == 2 ? add_merge(pair_) : take(nullptr); }

bool TokenizerReader::begin_description() {
  builder_.emplace(kMaxDescription);
  return enter_nested(At::description);
}

bool TokenizerReader::begin_object() {
  switch (at()) {
    case At::outside:
      return enter(At::file);
    case At::file:
      if (description() != nullptr) return begin_description() && build(&ValueBuilder::begin_object);
      return key_ == "model" ? enter(At::model) : enter_nested(At::skipped);
    case At::added_tokens:
      token_ = {};
      has_id_ = has_text_ = false;
      return enter(At::added_token);
    case At::model:
      return key_ == "vocab" ? enter(At::vocab) : enter_nested(At::skipped);
    case At::added_token:
      return enter_nested(At::skipped);
    case At::description:
      ++depth_;
      return build(&ValueBuilder::begin_object);
    case At::skipped:
      ++depth_;
      return true;
    case At::vocab:
    case At::pieces:
    case At::piece:
    case At::merges:
    case At::pair:
      break;
  }
  return take(nullptr);
}

bool TokenizerReader::begin_array() {
  switch (at()) {
    case At::outside:
      return fail("not a JSON object");
    case At::file:
      return key_ == "added_tokens" ? enter(At::added_tokens) : enter_nested(At::skipped);
    case At::model:
      if (key_ == "vocab" && out_.type.empty()) out_.type = "Unigram";
      if (key_ == "vocab" && keep_ == Keep::vocabulary) return enter(At::pieces);
      return key_ == "merges" ? enter(At::merges) : enter_nested(At::skipped);
    case At::merges:
      pair_.clear();
      parts_ = 0;
      return enter(At::pair);
    case At::pieces:
      parts_ = 0;
      return enter(At::piece);
    case At::added_token:
      return enter_nested(At::skipped);
    case At::description:
      ++depth_;
      return build(&ValueBuilder::begin_array);
    case At::skipped:
      ++depth_;
      return true;
    case At::added_tokens:
    case At::vocab:
    case At::piece:
    case At::pair:
      break;
  }
  return take(nullptr);
}

bool TokenizerReader::end(bool (ValueBuilder::*end_of_value)()) {
  const At ended = at();
  if (ended == At::description && !build(end_of_value)) return false;
  if ((ended == At::description || ended == At::skipped) && --depth_ > 0) return true;
  open_.pop_back();
  if (ended == At::added_token) return add_token();
  if (ended == At::pair) return add_pair();
  if (ended == At::piece) return add_piece();
  if (ended != At::description) return true;
  if (Value* const field = description()) *field = builder_->take();
  builder_.reset();
  return true;
}

// Files of before 2020 do not name the type of their model.
void set_type(TokenizerJson& json) {
  if (!json.type.empty()) return;
  json.type = json.merge_count == 0 && !json.subword_prefix.empty() ? "WordPiece" : "BPE";
}

}  // namespace

Result<std::unique_ptr<TokenizerJson>> read_tokenizer_json(const Source& file, Keep keep, Budget& budget) {
  if (file.size() > kMaxTokenizerFile)
    return failure(Code::unsupported, fmt::format("tokenizer.json: {} is more than 64 MiB", human_size(file.size())));
  TRY_VOID(budget.charge(Cost::input, file.size()));
  auto out = std::make_unique<TokenizerJson>(budget);
  TokenizerReader reader(*out, keep);
  const auto read = read_json(file, 0, file.size(), reader);
  if (reader.error()) return failure(*reader.error());
  if (!read) return failure(with_message(read.error(), "tokenizer.json: " + read.error().message));
  set_type(*out);
  return out;
}

}  // namespace weightfs::mapping
