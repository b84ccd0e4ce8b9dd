#include "formats/mapping/hub/tokenizer_parts.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {
namespace {

constexpr std::string_view kPieceSpace = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kSubword = "##";

bool has_type(const StoredTokens& tokens, uint64_t id, TokenType type) {
  return tokens.types[id] == static_cast<int32_t>(type);
}

Map typed(std::string_view type) {
  Map out;
  out.append("type", type);
  return out;
}

Value sequence_of(std::string_view field, List steps) {
  Map out = typed("Sequence");
  out.append(std::string(field), std::move(steps));
  return out;
}

Value replacement(std::string_view from, std::string_view to) {
  Map pattern;
  pattern.append("String", from);
  Map out = typed("Replace");
  out.append("pattern", std::move(pattern));
  out.append("content", to);
  return out;
}

Map byte_level(bool adds_space, bool trims, bool has_regex) {
  Map out = typed("ByteLevel");
  out.append("add_prefix_space", adds_space);
  out.append("trim_offsets", trims);
  out.append("use_regex", has_regex);
  return out;
}

Value normalizer_of(const TokenizerSettings& settings) {
  if (settings.kind == TokenizerKind::byte_level) return settings.composes ? Value(typed("NFC")) : Value();
  if (settings.kind == TokenizerKind::word_piece) {
    Map out = typed("BertNormalizer");
    out.append("clean_text", true);
    out.append("handle_chinese_chars", true);
    out.append("strip_accents", settings.strips_accents ? Value(*settings.strips_accents) : Value());
    out.append("lowercase", settings.is_lower_case);
    return out;
  }
  if (!settings.prepends_space) return replacement(" ", kPieceSpace);
  Map prefix = typed("Prepend");
  prefix.append("prepend", kPieceSpace);
  return sequence_of("normalizers", {Value(std::move(prefix)), replacement(" ", kPieceSpace)});
}

Value pre_tokenizer_step(std::string_view step) {
  if (step == "<gpt2>" || step == "<bytes>") return byte_level(false, true, step == "<gpt2>");
  if (step == "<digits>") {
    Map out = typed("Digits");
    out.append("individual_digits", true);
    return out;
  }
  Map pattern;
  pattern.append("Regex", step);
  Map out = typed("Split");
  out.append("pattern", std::move(pattern));
  out.append("behavior", "Isolated");
  out.append("invert", false);
  return out;
}

Value pre_tokenizer_of(const TokenizerSettings& settings) {
  if (settings.kind == TokenizerKind::word_piece) return typed("BertPreTokenizer");
  if (settings.kind != TokenizerKind::byte_level) return {};
  List steps;
  for (std::string_view rest = settings.steps; !rest.empty();) {
    const size_t end = rest.find('\n');
    steps.push_back(pre_tokenizer_step(rest.substr(0, end)));
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  return steps.size() == 1 ? std::move(steps.front()) : sequence_of("pretokenizers", std::move(steps));
}

Value template_item(std::string_view kind, std::string_view id, uint64_t type) {
  Map item;
  item.append("id", id);
  item.append("type_id", type);
  Map out;
  out.append(std::string(kind), std::move(item));
  return out;
}

// bos A eos, and for a pair bos A eos bos B eos; of WordPiece [CLS] A [SEP] B [SEP].
Value template_of(const TokenizerSettings& settings, const StoredTokens& tokens) {
  const bool is_word_piece = settings.kind == TokenizerKind::word_piece;
  const auto text_at = [&](const std::optional<uint64_t>& id) {
    return id && *id < tokens.texts.size() ? std::optional(std::string(tokens.texts[*id])) : std::nullopt;
  };
  const auto& last_id = is_word_piece ? settings.ids.separator : settings.ids.eos;
  const auto first = settings.adds_bos ? text_at(settings.ids.bos) : std::nullopt;
  const auto last = settings.adds_eos || is_word_piece ? text_at(last_id) : std::nullopt;
  if (!first && !last) return {};
  List single, pair;
  const auto add = [&](List& to, std::string_view sequence, uint64_t type, bool begins) {
    if (first && begins) to.push_back(template_item("SpecialToken", *first, type));
    to.push_back(template_item("Sequence", sequence, type));
    if (last) to.push_back(template_item("SpecialToken", *last, type));
  };
  add(single, "A", 0, true);
  add(pair, "A", 0, true);
  add(pair, "B", 1, !is_word_piece);
  Map special;
  const auto define = [&](const std::optional<std::string>& text, const std::optional<uint64_t>& id) {
    if (!text) return;
    Map token;
    token.append("id", *text);
    token.append("ids", List{Value(*id)});
    token.append("tokens", List{Value(*text)});
    special.set(*text, Value(std::move(token)));
  };
  define(first, settings.ids.bos);
  define(last, last_id);
  Map out = typed("TemplateProcessing");
  out.append("single", std::move(single));
  out.append("pair", std::move(pair));
  out.append("special_tokens", std::move(special));
  return out;
}

Value post_processor_of(const TokenizerSettings& settings, const StoredTokens& tokens) {
  Value by_template = template_of(settings, tokens);
  if (std::holds_alternative<Map>(by_template) || settings.kind != TokenizerKind::byte_level) return by_template;
  return byte_level(false, false, false);
}

Value decoder_of(const TokenizerSettings& settings) {
  if (settings.kind == TokenizerKind::byte_level) return byte_level(true, true, true);
  if (settings.kind == TokenizerKind::word_piece) {
    Map out = typed("WordPiece");
    out.append("prefix", kSubword);
    out.append("cleanup", true);
    return out;
  }
  List steps = {replacement(kPieceSpace, " "), Value(typed("ByteFallback")), Value(typed("Fuse"))};
  if (settings.prepends_space) {
    Map strip = typed("Strip");
    strip.append("content", " ");
    strip.append("start", 1);
    strip.append("stop", 0);
    steps.emplace_back(std::move(strip));
  }
  return sequence_of("decoders", std::move(steps));
}

Value text_or_null(const StoredTokens& tokens, const std::optional<uint64_t>& id) {
  return id && *id < tokens.texts.size() ? Value(tokens.texts[*id]) : Value();
}

Map model_of(const TokenizerSettings& settings, const StoredTokens& tokens) {
  if (settings.kind == TokenizerKind::word_piece) {
    Map out = typed("WordPiece");
    out.append("unk_token", text_or_null(tokens, settings.ids.unknown));
    out.append("continuing_subword_prefix", kSubword);
    out.append("max_input_chars_per_word", 100);
    return out;
  }
  const bool has_bytes = settings.kind != TokenizerKind::byte_level;
  Map out = typed("BPE");
  out.append("dropout", Value());
  out.append("unk_token", has_bytes ? text_or_null(tokens, settings.ids.unknown) : Value());
  out.append("continuing_subword_prefix", Value());
  out.append("end_of_word_suffix", Value());
  out.append("fuse_unk", has_bytes);
  out.append("byte_fallback", has_bytes);
  out.append("ignore_merges", settings.ignores_merges);
  return out;
}

}  // namespace

TokenizerParts tokenizer_parts(const TokenizerSettings& settings, const StoredTokens& tokens) {
  return {.normalizer = normalizer_of(settings),
          .pre_tokenizer = pre_tokenizer_of(settings),
          .post_processor = post_processor_of(settings, tokens),
          .decoder = decoder_of(settings),
          .model = model_of(settings, tokens)};
}

Map tokenizer_config_fields(const TokenizerSettings& settings, const StoredTokens& tokens) {
  Map out;
  const bool is_word_piece = settings.kind == TokenizerKind::word_piece;
  const auto add = [&](std::string_view field, const std::optional<uint64_t>& id) {
    if (id && *id < tokens.texts.size()) out.append(std::string(field), tokens.texts[*id]);
  };
  out.append("tokenizer_class", is_word_piece ? "BertTokenizerFast" : "PreTrainedTokenizerFast");
  if (!is_word_piece) {
    if (settings.states_bos) out.append("add_bos_token", settings.adds_bos);
    if (settings.states_eos) out.append("add_eos_token", settings.adds_eos);
    add("bos_token", settings.ids.bos);
    add("eos_token", settings.ids.eos);
    add("sep_token", settings.ids.separator);
  } else {
    out.append("do_lower_case", settings.is_lower_case);
    add("cls_token", settings.ids.bos);
    add("sep_token", settings.ids.separator);
  }
  add("mask_token", settings.ids.mask);
  add("unk_token", settings.ids.unknown);
  add("pad_token", settings.ids.padding);
  out.append("clean_up_tokenization_spaces", is_word_piece);
  return out;
}

bool is_added(const StoredTokens& tokens, uint64_t id) {
  return has_type(tokens, id, TokenType::unknown) || has_type(tokens, id, TokenType::control) ||
         has_type(tokens, id, TokenType::user_defined);
}

bool is_gap(const StoredTokens& tokens, uint64_t id) {
  if (!has_type(tokens, id, TokenType::unused)) return false;
  std::string_view text = tokens.texts[id];
  if (text.starts_with(kPieceSpace)) text.remove_prefix(kPieceSpace.size());
  return text == fmt::format("[PAD{}]", id);
}

std::string vocabulary_text(const TokenizerSettings& settings, const StoredTokens& tokens, uint64_t id) {
  const std::string_view text = tokens.texts[id];
  if (settings.kind != TokenizerKind::word_piece || has_type(tokens, id, TokenType::control)) return std::string(text);
  if (text.starts_with(kPieceSpace)) return std::string(text.substr(kPieceSpace.size()));
  return std::string(kSubword).append(text);
}

Result<void> restore_spaces(const TokenizerSettings& settings, StoredTokens& tokens) {
  if (settings.kind != TokenizerKind::gemma4) return {};
  std::string restored;
  for (uint64_t id = 0; id < tokens.texts.size(); ++id) {
    std::string_view& text = tokens.texts[id];
    if (!has_type(tokens, id, TokenType::user_defined) || text.find(' ') == text.npos) continue;
    restored.clear();
    for (const char c : text) {
      if (c == ' ')
        restored += kPieceSpace;
      else
        restored += c;
    }
    TRY_VOID(tokens.charges.charge(Cost::kept, restored.size()));
    text = tokens.arena.add(restored);
  }
  return {};
}

}  // namespace weightfs::mapping
