#include "formats/mapping/tokenizer/pre_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.h"
#include "formats/mapping/tokenizer/tokens.h"

namespace weightfs::mapping {
namespace {

struct FamilyRow {
  std::string_view name;   // tokenizer.ggml.pre; see name_of()
  std::string_view steps;  // as steps_of() describes them
};

// From published tokenizer.json files. A step is on a line: a regular expression that splits, `<digits>` for single
// digits, `<bytes>` for ByteLevel without its own expression, `<gpt2>` for ByteLevel with it.
constexpr auto kFamilies = std::to_array<FamilyRow>({
    {"llama-bpe",
     R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
<bytes>
)re"},
    {"qwen2",
     R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
<bytes>
)re"},
    {"qwen35",
     R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
<bytes>
)re"},
    {"deepseek-v3",
     R"re(\p{N}{1,3}
[一-龥぀-ゟ゠-ヿ]+
[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
<bytes>
)re"},
    {"gpt-4o",
     R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)re"
     R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)re"
     R"re(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
<bytes>
)re"},
    {"tekken", R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)re"
               R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)re"
               R"re(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
<bytes>
)re"},
    {"gpt-2", "<gpt2>\n"},
    {"refact", "<digits>\n<gpt2>\n"},
    {"seed-coder",
     R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+
<bytes>
)re"},
    {"minicpm5",
     R"re(\p{N}{1,3}
(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
<bytes>
)re"},
});

// Other names of the families in GGUFs, for tokenizers that were published with the same expressions.
struct AliasRow {
  std::string_view name;
  std::string_view family;
};

constexpr auto kAliases = std::to_array<AliasRow>({
    {"llama3", "llama-bpe"},
    {"llama-v3", "llama-bpe"},
    {"lfm2", "llama-bpe"},
    {"smaug-bpe", "llama-bpe"},
    {"dbrx", "llama-bpe"},
    {"glm4", "llama-bpe"},
    {"chatglm-bpe", "llama-bpe"},
    {"deepseek-r1-qwen", "qwen2"},
    {"stablelm2", "qwen2"},
    {"megrez", "qwen2"},
    {"hunyuan", "qwen2"},
    {"hunyuan-dense", "deepseek-v3"},
    {"llama4", "gpt-4o"},
    {"phi-2", "gpt-2"},
    {"mpt", "gpt-2"},
    {"olmo", "gpt-2"},
    {"smollm", "refact"},
    {"starcoder", "refact"},
    {"command-r", "refact"},
});

constexpr auto kIgnoresMerges =
    std::to_array<std::string_view>({"llama-bpe", "llama3", "llama-v3", "lfm2", "tekken", "gpt-4o", "llama4"});

// The steps of a normalizer or pre-tokenizer: those of a Sequence, or itself; none of null.
void append_steps(const Value& value, std::string_view list_name, std::vector<const Map*>& out) {
  const auto* const map = std::get_if<Map>(&value);
  if (map == nullptr) return;
  const auto* const list = map->find_as<List>(list_name);
  if (text_in(*map, "type") != "Sequence" || list == nullptr) return out.push_back(map);
  for (const Value& each : *list) append_steps(each, list_name, out);
}

std::vector<const Map*> normalizers_of(const TokenizerJson& json) {
  std::vector<const Map*> steps;
  append_steps(json.normalizer, "normalizers", steps);
  return steps;
}

std::vector<const Map*> pre_tokenizers_of(const TokenizerJson& json) {
  std::vector<const Map*> steps;
  append_steps(json.pre_tokenizer, "pretokenizers", steps);
  return steps;
}

bool flag_in(const Map& map, std::string_view name, bool otherwise) {
  const auto* const flag = map.find_as<bool>(name);
  return flag == nullptr ? otherwise : *flag;
}

std::string_view pattern_in(const Map& map, std::string_view form) {
  const auto* const pattern = map.find_as<Map>("pattern");
  return pattern == nullptr ? std::string_view() : text_in(*pattern, form);
}

// Some files have line ends in an expression, others their escapes.
std::string with_escapes(std::string_view regex) {
  std::string out;
  for (const char c : regex) {
    if (c == '\r' || c == '\n')
      out += c == '\r' ? "\\r" : "\\n";
    else
      out += c;
  }
  return out;
}

// Splitting at the matches is the same as removing all else where an expression matches every character, which the only
// expression of a pre-tokenizer does.
bool is_plain_split(const Map& step, bool is_only_one) {
  const std::string_view behavior = text_in(step, "behavior");
  return behavior == "Isolated" || (behavior == "Removed" && flag_in(step, "invert", false) && is_only_one);
}

// The steps as lines; empty if one is of another form.
std::string steps_of(const TokenizerJson& json) {
  const std::vector<const Map*> steps = pre_tokenizers_of(json);
  std::string out;
  for (const Map* const step : steps) {
    const std::string_view type = text_in(*step, "type");
    const std::string_view regex = pattern_in(*step, "Regex");
    if (type == "Split" && !regex.empty() && is_plain_split(*step, steps.size() <= 2))
      out += with_escapes(regex);
    else if (type == "Digits" && flag_in(*step, "individual_digits", false))
      out += "<digits>";
    else if (type == "ByteLevel" && !flag_in(*step, "add_prefix_space", true))
      out += flag_in(*step, "use_regex", true) ? "<gpt2>" : "<bytes>";
    else
      return "";
    out += '\n';
  }
  return out;
}

// The name of the family, or of a member of it that llama.cpp treats in another way.
std::string_view name_of(std::string_view family, const TokenizerJson& json, const NamedBy& by) {
  if (family == "llama-bpe" && by.is_glm) return "glm4";
  if (family == "llama-bpe" && !json.ignores_merges) return "smaug-bpe";
  if (family == "refact" && !by.cleans_spaces) return "smollm";
  return family;
}

Error unknown_pre_tokenizer() {
  return {Code::unsupported, "the pre-tokenizer of tokenizer.json is not one that llama.cpp has"};
}

Error unknown_normalizer(std::string_view type) {
  return {Code::unsupported,
          fmt::format("the normalizer {} of tokenizer.json is not one that llama.cpp applies", printable(type))};
}

}  // namespace

Result<PreTokenizer> find_pre_tokenizer(const TokenizerJson& json, const NamedBy& by) {
  // llama.cpp applies no normalizer to byte-level BPE; NFC changes few texts, and the converter accepts it.
  for (const Map* const step : normalizers_of(json))
    if (text_in(*step, "type") != "NFC") return failure(unknown_normalizer(text_in(*step, "type")));
  const std::string steps = steps_of(json);
  const auto* const row = std::ranges::find(kFamilies, std::string_view(steps), &FamilyRow::steps);
  if (row == kFamilies.end()) return failure(unknown_pre_tokenizer());
  return PreTokenizer{row->name, name_of(row->name, json, by)};
}

std::string_view steps_of_pre_tokenizer(std::string_view name) {
  const auto* const alias = std::ranges::find(kAliases, name, &AliasRow::name);
  const auto* const row =
      std::ranges::find(kFamilies, alias == kAliases.end() ? name : alias->family, &FamilyRow::name);
  return row == kFamilies.end() ? std::string_view() : row->steps;
}

bool ignores_merges(std::string_view pre_tokenizer) {
  return std::ranges::find(kIgnoresMerges, pre_tokenizer) != kIgnoresMerges.end();
}

bool adds_bos_by_default(std::string_view pre_tokenizer) {
  return pre_tokenizer == "llama-bpe" || pre_tokenizer == "llama3" || pre_tokenizer == "llama-v3" ||
         pre_tokenizer == "lfm2" || pre_tokenizer == "tekken";
}

bool is_byte_level(const TokenizerJson& json) {
  return std::ranges::any_of(pre_tokenizers_of(json),
                             [](const Map* step) { return text_in(*step, "type") == "ByteLevel"; });
}

Result<bool> prepends_space(const TokenizerJson& json) {
  bool prepends = false;
  for (const Map* const step : normalizers_of(json)) {
    const std::string_view type = text_in(*step, "type");
    const bool is_prefix = type == "Prepend" && text_in(*step, "prepend") == kSpaceOfPieces;
    const bool is_space =
        type == "Replace" && pattern_in(*step, "String") == " " && text_in(*step, "content") == kSpaceOfPieces;
    if (!is_prefix && !is_space) return failure(unknown_normalizer(type));
    prepends = prepends || is_prefix;
  }
  for (const Map* const step : pre_tokenizers_of(json)) {
    const std::string_view type = text_in(*step, "type");
    const bool is_metaspace = type == "Metaspace";
    if (!is_metaspace && (type != "Split" || pattern_in(*step, "String") != " "))
      return failure(unknown_pre_tokenizer());
    const std::string_view scheme = text_in(*step, "prepend_scheme");
    const bool is_prefix = scheme.empty() ? flag_in(*step, "add_prefix_space", true) : scheme != "never";
    prepends = prepends || (is_metaspace && is_prefix);
  }
  return prepends;
}

}  // namespace weightfs::mapping
