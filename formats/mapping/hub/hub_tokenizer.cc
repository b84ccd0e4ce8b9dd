#include "formats/mapping/hub/hub_tokenizer.h"

#include <fmt/core.h>

#include "base/values/rendering.h"
#include "formats/mapping/hub/stored_tokens.h"
#include "formats/mapping/hub/token_merges.h"
#include "formats/mapping/hub/tokenizer_parts.h"
#include "formats/mapping/hub/tokenizer_settings.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {
namespace {

// Writes tokenizer.json, whose large parts never become Values.
class TokenizerFile {
 public:
  TokenizerFile(const TokenizerSettings& settings, const StoredTokens& tokens, const TokenMerges& merges)
      : settings_(settings), tokens_(tokens), merges_(merges) {}

  void write(TextSink& out) const {
    out.append("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [");
    write_added(out);
    out.append("],\n");
    const TokenizerParts parts = tokenizer_parts(settings_, tokens_);
    write_part(out, "normalizer", parts.normalizer);
    write_part(out, "pre_tokenizer", parts.pre_tokenizer);
    write_part(out, "post_processor", parts.post_processor);
    write_part(out, "decoder", parts.decoder);
    out.append("  \"model\": {\n");
    for (const auto& [name, value] : parts.model) {
      out.append("  ");
      write_part(out, name, value);
    }
    out.append("    \"vocab\": {");
    write_vocabulary(out);
    out.append(settings_.kind == TokenizerKind::word_piece ? "}" : "},\n    \"merges\": [");
    if (settings_.kind != TokenizerKind::word_piece) write_merges(out);
    out.append("\n  }\n}\n");
  }

 private:
  static void write_part(TextSink& out, std::string_view name, const Value& value) {
    out.append("  ");
    append_json_string(out, name);
    out.append(": ");
    out.append(to_json_line(value));
    out.append(",\n");
  }

  void write_added(TextSink& out) const {
    std::string_view between = "\n";
    for (uint64_t id = 0; id < tokens_.texts.size() && !out.stopped(); ++id) {
      if (!is_added(tokens_, id)) continue;
      const bool is_special = tokens_.types[id] != static_cast<int32_t>(TokenType::user_defined);
      out.append(between);
      out.append(fmt::format("    {{\"id\": {}, \"content\": ", id));
      append_json_string(out, vocabulary_text(settings_, tokens_, id));
      out.append(R"(, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": )");
      out.append(is_special ? "true}" : "false}");
      between = ",\n";
    }
    if (between != "\n") out.append("\n  ");
  }

  void write_vocabulary(TextSink& out) const {
    std::string_view between = "\n      ";
    for (uint64_t id = 0; id < tokens_.texts.size() && !out.stopped(); ++id) {
      if (is_gap(tokens_, id)) continue;
      out.append(between);
      append_json_string(out, vocabulary_text(settings_, tokens_, id));
      out.append(fmt::format(": {}", id));
      between = ",\n      ";
    }
    out.append("\n    ");
  }

  void write_merges(TextSink& out) const {
    std::string_view between = "\n      ";
    for (const auto& [left, right] : merges_.pairs) {
      if (out.stopped()) return;
      out.append(between);
      append_json_string(out, std::string(tokens_.texts[left]).append(" ").append(tokens_.texts[right]));
      between = ",\n      ";
    }
    out.append(merges_.pairs.empty() ? "]" : "\n    ]");
  }

  const TokenizerSettings& settings_;
  const StoredTokens& tokens_;
  const TokenMerges& merges_;
};

Result<TokenMerges> merges_of(TokenizerKind kind, const StoredTokenizer& stored, const StoredTokens& tokens,
                              Budget& budget) {
  if (kind == TokenizerKind::word_piece) return TokenMerges(budget);
  if (kind == TokenizerKind::pieces) return merges_by_scores(tokens, budget);
  return stored_merges(stored, tokens, budget);
}

// A list of named templates, or the only one.
Result<void> add_templates(const Model& gguf, const StoredTokenizer& stored, Map& config) {
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  constexpr size_t kMaxTemplates = 64;
  std::string only = TRY(stored.text(kTemplate));
  List named;
  for (const auto& [key, value] : gguf.metadata) {
    if (!key.starts_with(std::string(kTemplate) + ".") || named.size() == kMaxTemplates) continue;
    Map one;
    one.append("name", key.substr(kTemplate.size() + 1));
    one.append("template", TRY(stored.text(key)));
    named.emplace_back(std::move(one));
  }
  if (named.empty()) {
    if (!only.empty()) config.append("chat_template", std::move(only));
    return {};
  }
  Map one;
  one.append("name", "default");
  one.append("template", std::move(only));
  named.emplace_back(std::move(one));
  config.append("chat_template", std::move(named));
  return {};
}

}  // namespace

Result<std::string> hub_tokenizer(const Model& gguf, Budget& budget) {
  const TokenizerSettings settings = TRY(tokenizer_settings(gguf));
  const auto stored = TRY(StoredTokenizer::find(*gguf.gguf_keys, budget));
  StoredTokens tokens = TRY(read_tokens(stored, budget));
  TRY_VOID(restore_spaces(settings, tokens));
  const TokenMerges merges = TRY(merges_of(settings.kind, stored, tokens, budget));
  if (settings.kind == TokenizerKind::gemma4) define_tokens_without_merges(merges, tokens);
  const TokenizerFile file(settings, tokens, merges);
  return rendered(budget, [&](TextSink& out) { file.write(out); });
}

Result<std::string> hub_tokenizer_config(const Model& gguf, Budget& budget) {
  const TokenizerSettings settings = TRY(tokenizer_settings(gguf));
  const auto stored = TRY(StoredTokenizer::find(*gguf.gguf_keys, budget));
  const StoredTokens tokens = TRY(read_tokens(stored, budget));
  Map config = tokenizer_config_fields(settings, tokens);
  TRY_VOID(add_templates(gguf, stored, config));
  return to_json(Value(std::move(config)), budget);
}

}  // namespace weightfs::mapping
