#include "formats/mapping/hub/tokenizer_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/mapping/tokenizer/pre_tokenizer.h"
#include "formats/summary/fields.h"

namespace weightfs::mapping {
namespace {

struct KindRow {
  std::string_view name;
  TokenizerKind kind;
  std::string_view list;  // that it needs besides its tokens
  SpecialIds ids;         // where no key has another (llama.cpp, llama_vocab::impl::load)
};

constexpr auto kKinds = std::to_array<KindRow>({
    {"gpt2", TokenizerKind::byte_level, "tokenizer.ggml.merges", {}},
    {"llama", TokenizerKind::pieces, "tokenizer.ggml.scores", {.bos = 1, .eos = 2, .unknown = 0}},
    {"gemma4", TokenizerKind::gemma4, "tokenizer.ggml.merges", {}},
    {"bert", TokenizerKind::word_piece, "", {.bos = 101, .unknown = 100, .separator = 102, .padding = 0, .mask = 103}},
});

Result<KindRow> kind_of(const Map& keys) {
  const std::string_view name = text_in(keys, "tokenizer.ggml.model");
  if (name.empty()) return failure(Code::unsupported, "the GGUF has no tokenizer");
  const auto* const row = std::ranges::find(kKinds, name, &KindRow::name);
  if (row == kKinds.end())
    return failure(Code::unsupported,
                   fmt::format("a tokenizer of kind {} has no tokenizer.json here", printable(name)));
  for (const std::string_view list : {std::string_view("tokenizer.ggml.tokens"), row->list})
    if (!list.empty() && keys.find(list) == nullptr)
      return failure(Code::unsupported, fmt::format("the key {} is missing", list));
  return *row;
}

void read_ids(const summary::Fields& keys, SpecialIds& ids) {
  const auto read = [&](summary::Names names, std::optional<uint64_t>& id) {
    if (const summary::Number found = keys.number(names)) id = found;
  };
  read({"bos_token_id", "cls_token_id"}, ids.bos);
  read({"eos_token_id"}, ids.eos);
  read({"unknown_token_id"}, ids.unknown);
  read({"seperator_token_id", "separator_token_id"}, ids.separator);
  read({"padding_token_id"}, ids.padding);
  read({"mask_token_id"}, ids.mask);
}

// The tokenizers of Qwen compose; the name of the pre-tokenizer alone is that of others, too.
bool composes(const Map& keys, std::string_view steps) {
  const std::string_view architecture = text_in(keys, "general.architecture");
  return architecture.starts_with("qwen") &&
         (steps == steps_of_pre_tokenizer("qwen2") || steps == steps_of_pre_tokenizer("qwen35"));
}

}  // namespace

Result<TokenizerSettings> tokenizer_settings(const Model& gguf) {
  const KindRow row = TRY(kind_of(gguf.metadata));
  std::vector<std::string> warnings;
  const summary::Fields keys(&gguf.metadata, "the keys", warnings, "tokenizer.ggml.");
  TokenizerSettings out = {.kind = row.kind, .ids = row.ids};
  read_ids(keys, out.ids);
  const std::string pre = keys.text({"pre"});
  if (row.kind == TokenizerKind::byte_level) {
    out.steps = steps_of_pre_tokenizer(pre);
    if (out.steps.empty())
      return failure(Code::unsupported, fmt::format("the pre-tokenizer {} has no known tokenizer.json",
                                                    pre.empty() ? "is missing: it" : quoted(pre)));
    out.ignores_merges = ignores_merges(pre);
    out.composes = composes(gguf.metadata, out.steps);
  }
  const bool is_default = row.kind == TokenizerKind::byte_level ? adds_bos_by_default(pre) : true;
  // [SEP] is written as eos, too, and is often only that.
  if (row.kind == TokenizerKind::word_piece && !keys.has("seperator_token_id") && out.ids.eos)
    out.ids.separator = out.ids.eos;
  out.states_bos = keys.has("add_bos_token");
  out.states_eos = keys.has("add_eos_token");
  out.adds_bos = keys.flag("add_bos_token").value_or(is_default) && out.ids.bos;
  out.adds_eos = keys.flag("add_eos_token").value_or(false) && out.ids.eos;
  out.prepends_space = keys.flag("add_space_prefix").value_or(row.kind == TokenizerKind::pieces);
  out.is_lower_case = keys.flag("normalizer.lowercase").value_or(true);
  out.strips_accents = keys.flag("normalizer.strip_accents");
  return out;
}

}  // namespace weightfs::mapping
