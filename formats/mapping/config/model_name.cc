#include "formats/mapping/config/model_name.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/text.h"

namespace weightfs::mapping {
namespace {

constexpr size_t kMaxWords = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_letter(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z'); }

// Removes digits from the front; whether there was one.
bool take_digits(std::string_view& text) {
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(count);
  return count > 0;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// A number with points, whole: "3", "2.5.1".
bool is_number(std::string_view text) {
  if (!take_digits(text)) return false;
  while (take(text, "."))
    if (!take_digits(text)) return false;
  return text.empty();
}

// The functions for words have them in lower case.
bool is_version(std::string_view word) {
  std::string_view rest = word;
  if (!take(rest, "v")) take(rest, "iter");
  return is_number(rest);
}

bool is_quantization(std::string_view word) {
  static constexpr auto kFloats =
      std::to_array<std::string_view>({"f16", "f32", "fp16", "fp32", "bf16", "bf32", "bfp16", "bfp32"});
  if (std::ranges::find(kFloats, word) != kFloats.end()) return true;
  std::string_view rest = word;
  take(rest, "i");
  if (!take(rest, "q") || rest.empty() || !is_digit(rest[0])) return false;
  rest.remove_prefix(1);
  while (rest.size() >= 2 && rest[0] == '_') rest.remove_prefix(2);
  return rest.empty();
}

// "8b", "1.5b", "8x7b", "a3b", "7b1", "small".
bool is_size(std::string_view word) {
  static constexpr auto kWords = std::to_array<std::string_view>({"small", "mini", "medium", "large", "xl", "xxl"});
  if (std::ranges::find(kWords, word) != kWords.end()) return true;
  if (!take(word, "a")) {
    std::string_view experts = word;
    if (take_digits(experts) && take(experts, "x")) word = experts;
  }
  if (!take_digits(word)) return false;
  if (std::string_view fraction = word; (take(fraction, ".") || take(fraction, "_")) && take_digits(fraction))
    word = fraction;
  if (word.empty() || std::string_view("kmbt").find(word[0]) == word.npos) return false;
  word.remove_prefix(1);
  return word.empty() || (word.size() == 1 && is_digit(word[0]));
}

bool is_finetune(std::string_view word) {
  return word == "chat" || word == "instruct" || word == "vision" || word == "lora";
}

// "7b1" is 7.1B, "1_5b" 1.5B.
std::string normal_size(std::string size) {
  std::ranges::replace(size, '_', '.');
  if (is_digit(size.back())) {
    const char digit = size.back();
    const char unit = size[size.size() - 2];
    size.resize(size.size() - 2);
    size.append(".").append(1, digit).append(1, unit);
  }
  if (size.size() > 1 && is_digit(size[size.size() - 2]) && is_lower(size.back()))
    size.back() = static_cast<char>(size.back() - 'a' + 'A');
  return size;
}

bool is_far_from(std::string_view size, uint64_t parameters) {
  const size_t unit = std::string_view(" KMBT").find(size.back());
  const auto number = parse_number<double>(size.substr(0, size.size() - 1));
  if (parameters == 0 || unit == std::string_view::npos || !number) return false;
  const double stated = *number * std::pow(1000.0, static_cast<double>(unit));
  const double limit = std::floor(7 * static_cast<double>(parameters) / 8);
  return std::abs(stated - static_cast<double>(parameters)) > limit;
}

enum Kind : uint8_t { kBasename = 1, kSize = 2, kFinetune = 4, kVersion = 8, kQuantization = 16 };

struct Word {
  std::string text;
  uint8_t kinds = 0;
};

Word word_of(std::string_view text, bool is_first, uint64_t parameters) {
  const std::string lower = lower_case(text);
  if (is_version(lower)) return {std::string(text), kVersion};
  if (is_quantization(lower)) {
    std::string upper(text);
    for (char& c : upper)
      if (is_lower(c)) c = static_cast<char>(c - 'a' + 'A');
    return {upper, kQuantization};
  }
  if (!is_first && is_size(lower)) {
    std::string size = normal_size(std::string(text));
    if (!is_far_from(size, parameters)) return {size, kSize};
    return {size.substr(0, size.size() - 1) + lower_case(size.substr(size.size() - 1)), kFinetune};
  }
  const bool is_known = !is_first && is_finetune(lower);
  return {std::string(text), is_known ? uint8_t{kFinetune} : uint8_t{0}};
}

std::vector<Word> words_of(std::string_view name, uint64_t parameters) {
  std::vector<Word> words;
  while (!name.empty() && words.size() < kMaxWords) {
    const size_t end = std::min(name.find('-'), name.size());
    if (end > 0) words.push_back(word_of(name.substr(0, end), words.empty(), parameters));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

// "small" is no size where a number is.
void drop_sizes_in_words(std::vector<Word>& words) {
  const auto has_digit = [](const Word& word) {
    return (word.kinds & kSize) != 0 && std::ranges::any_of(word.text, is_digit);
  };
  if (!std::ranges::any_of(words, has_digit)) return;
  for (Word& word : words)
    if (std::ranges::all_of(word.text, is_letter)) word.kinds &= static_cast<uint8_t>(~kSize);
}

// The words in front are the base name, with versions between them; a version that follows it is one.
void find_basename(std::vector<Word>& words) {
  bool is_at_start = true;
  for (Word& word : words) {
    is_at_start = is_at_start && ((word.kinds == 0 && is_letter(word.text[0])) || (word.kinds & kVersion) != 0);
    if (is_at_start)
      word.kinds |= kBasename;
    else if (word.kinds == 0)
      word.kinds = kFinetune;
  }
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    if ((word->kinds & kBasename) == 0 || word->kinds == kBasename) return;
    word->kinds &= static_cast<uint8_t>(~kBasename);
  }
}

enum class Repeats : uint8_t { kept, dropped };

std::optional<std::string> joined(const std::vector<Word>& words, Kind kind, Repeats repeats = Repeats::kept) {
  std::optional<std::string> out;
  std::vector<std::string_view> seen;
  for (const Word& word : words) {
    const bool is_basename = (word.kinds & kBasename) != 0;
    if ((word.kinds & kind) == 0 || (kind == kVersion && is_basename)) continue;
    if (repeats == Repeats::dropped && std::ranges::find(seen, word.text) != seen.end()) continue;
    seen.push_back(word.text);
    out = out ? *out + "-" + word.text : word.text;
  }
  return out;
}

}  // namespace

ModelName parse_model_name(std::string_view name, uint64_t parameters) {
  ModelName out;
  out.full = name;
  if (name.find(' ') != name.npos) return out;
  if (const size_t slash = name.find('/'); slash != name.npos) {
    if (name[0] != '.') out.organization = std::string(name.substr(0, slash));
    name.remove_prefix(slash + 1);
    out.full = std::string(name);
  }
  std::vector<Word> words = words_of(name, parameters);
  drop_sizes_in_words(words);
  find_basename(words);
  out.basename = joined(words, kBasename);
  out.size_label = joined(words, kSize, Repeats::dropped);
  out.finetune = joined(words, kFinetune);
  out.version = joined(words, kVersion);
  if (!out.size_label && !out.finetune && !out.version) out.basename.reset();
  return out;
}

std::string title_of(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("- \t\r\n"), name.size());
    std::string word(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
    if (word.empty()) continue;
    const bool is_plain = std::ranges::any_of(word, is_lower) && lower_case(word) == word;
    const bool is_version = word[0] == 'v' && is_number(std::string_view(word).substr(1));
    if (is_plain && !is_digit(word[0]) && !is_version)
      for (size_t i = 0; i < word.size(); ++i)
        if (is_lower(word[i]) && (i == 0 || !is_letter(word[i - 1]))) word[i] = static_cast<char>(word[i] - 'a' + 'A');
    out += out.empty() ? word : " " + word;
  }
  return out;
}

}  // namespace weightfs::mapping
