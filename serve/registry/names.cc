#include "serve/registry/names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "formats/one_model.h"

namespace weightfs::distribution {
namespace {

constexpr size_t kMaxTag = 128;

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_word(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '_'; }

// Separators that may stand between letters: one point, one or two underscores, or hyphens.
bool is_separator(std::string_view run) {
  return run == "." || run == "_" || run == "__" || run.find_first_not_of('-') == run.npos;
}

}  // namespace

std::string component_of(std::string_view name) {
  std::string out, run;
  for (const char c : lower_case(name)) {
    if (!is_lower_or_digit(c)) {
      run += c == '.' || c == '_' ? c : '-';
      continue;
    }
    if (!run.empty() && !out.empty()) out += is_separator(run) ? run : "-";
    run.clear();
    out += c;
  }
  return out.empty() ? "model" : out;
}

bool is_component(std::string_view text) { return component_of(text) == lower_case(text); }

bool is_tag(std::string_view text) {
  const auto is_permitted = [](char c) { return is_word(c) || c == '.' || c == '-'; };
  return !text.empty() && text.size() <= kMaxTag && is_word(text.front()) && std::ranges::all_of(text, is_permitted);
}

bool is_other_digest(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, size_t>, 2> kAlgorithms = {{{"sha512:", 128}, {"blake3:", 64}}};
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return std::ranges::any_of(kAlgorithms, [&](const auto& each) {
    return text.starts_with(each.first) && text.size() == each.first.size() + each.second &&
           std::ranges::all_of(text.substr(each.first.size()), is_hex);
  });
}

std::string_view without_ending(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos || dot == 0 || !is_named_as_weights(name) ? name : name.substr(0, dot);
}

SourceName name_of_source(std::string_view source) {
  while (source.ends_with('/')) source.remove_suffix(1);
  std::string_view last = source.substr(source.rfind('/') + 1);
  if (source.find(':') < source.find('/')) last = last.substr(0, last.find('@'));
  const bool is_name = source.starts_with("oci:") || source.starts_with("ollama:");
  if (is_name && source.find('/') == source.npos) last.remove_prefix(std::min(last.find(':') + 1, last.size()));
  const size_t colon = is_name ? last.find(':') : last.npos;
  SourceName out{std::string(last.substr(0, colon)), colon == last.npos ? "" : std::string(last.substr(colon + 1))};
  if (!is_tag(out.tag)) out.tag.clear();
  return out;
}

}  // namespace weightfs::distribution
