#include "formats/other_files/parts.h"

#include <fmt/core.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "formats/other_files/texts.h"

namespace weightfs::other_files {
namespace {

constexpr const char* kPart = "part";
constexpr std::string_view kSeparators = "-_. ";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";

constexpr std::array<std::string_view, 8> kModelSuffixes = {".gguf", ".safetensors", ".bin",  ".pt",
                                                            ".pth",  ".ckpt",        ".onnx", ".llamafile"};

// The count at the end of a text: "part_1_of_2", "1of2", "split-a", "001". Offsets are in the text.
struct Count {
  size_t begin;             // with the word before it
  size_t at, end;           // of the number or the letters
  bool has_word = false;    // "part" or "split"
  bool has_total = false;   // "of 2"
  bool is_together = true;  // without separators between the number and the total
};

// Where the characters of a set begin that end before `end`.
size_t begin_of(std::string_view set, std::string_view text, size_t end) {
  const size_t other = text.substr(0, end).find_last_not_of(set);
  return other == text.npos ? 0 : other + 1;
}

// The number before "of 2", if that is how the text ends; else the number at its end.
Count number_at_end(std::string_view text) {
  const size_t last = begin_of(kDigits, text, text.size());
  const Count number{.begin = last, .at = last, .end = text.size()};
  const size_t of = begin_of(kSeparators, text, last);
  if (last == text.size() || !text.substr(0, of).ends_with("of")) return number;
  const size_t end = begin_of(kSeparators, text, of - 2), at = begin_of(kDigits, text, end);
  if (at == end) return number;
  return {.begin = at, .at = at, .end = end, .has_total = true, .is_together = of == last && end == of - 2};
}

std::optional<Count> count_at_end(std::string_view text) {
  constexpr size_t kMaxDigits = 5;
  Count count = number_at_end(text);
  const size_t before = begin_of(kSeparators, text, count.at);
  for (const std::string_view word : {"part", "split", "chunk", "piece"}) {
    if (count.has_word || !text.substr(0, before).ends_with(word)) continue;
    count.begin = before - word.size();
    count.has_word = true;
  }
  const size_t length = count.end - count.at;
  return length == 0 || length > kMaxDigits ? std::nullopt : std::optional(count);
}

// The letters that split(1) counts with, which are all of a text: "aa", "part-a", "splitab".
std::optional<Count> letters_of(std::string_view text) {
  constexpr size_t kMost = 3;
  Count count{.begin = 0, .at = 0, .end = text.size()};
  for (const std::string_view word : {"part", "split"}) {
    if (!text.starts_with(word)) continue;
    count.has_word = true;
    count.at = word.size();
    if (count.at < text.size() && kSeparators.find(text[count.at]) != text.npos) ++count.at;
  }
  const std::string_view letters = text.substr(count.at);
  if (letters.empty() || letters.size() > kMost || letters.find_first_not_of(kLetters) != letters.npos)
    return std::nullopt;
  // "aa" to "az", "aaa" to "aaz".
  const bool is_first =
      letters.size() > 1 && letters.substr(0, letters.size() - 1).find_first_not_of('a') == letters.npos;
  return count.has_word || is_first ? std::optional(count) : std::nullopt;
}

// What a name says.
struct Name {
  bool is_enough = false;  // without a look at other files
  Count count;             // its offsets are in the name
};

// "m.gguf.part1of2", "m.gguf-split-a", "m.gguf.001", "m.gguf00": the count is all that is behind the suffix.
std::optional<Name> count_behind(std::string_view name, std::string_view model) {
  constexpr size_t kWidth = 3;  // of a number alone that is enough
  const size_t at = name.rfind(model);
  if (at == name.npos) return std::nullopt;
  size_t begin = at + model.size();
  const bool is_separate = begin < name.size() && kSeparators.find(name[begin]) != name.npos;
  if (is_separate) ++begin;
  const std::string_view rest = name.substr(begin);
  auto count = letters_of(rest);
  const bool is_number = !count;
  if (is_number) count = count_at_end(rest);
  if (!count || count->begin != 0) return std::nullopt;
  const bool is_clear = count->has_word || count->has_total || !is_number || rest.size() == kWidth;
  count->at += begin;
  count->end += begin;
  return Name{is_separate && is_clear, *count};
}

// "m.part01.gguf", "m-split-00001.gguf", "m.1of2.gguf", but not "m-00001-of-00002.gguf", which is a model itself.
std::optional<Name> count_before(std::string_view name, std::string_view model) {
  if (!name.ends_with(model)) return std::nullopt;
  const auto count = count_at_end(name.substr(0, name.size() - model.size()));
  if (!count || count->begin == 0 || kSeparators.find(name[count->begin - 1]) == name.npos) return std::nullopt;
  const bool is_enough = count->has_total && count->is_together;
  return count->has_word || is_enough ? std::optional(Name{is_enough, *count}) : std::nullopt;
}

std::optional<Name> find_count(const std::string& lower) {
  for (const std::string_view model : kModelSuffixes) {
    if (const auto name = count_before(lower, model)) return name;
    if (const auto name = count_behind(lower, model)) return name;
  }
  return std::nullopt;
}

// The name with the count `by` higher or lower; nothing if there is none.
std::optional<std::string> neighbour(const std::string& name, const Count& count, int by) {
  const std::string text = name.substr(count.at, count.end - count.at);
  std::string other;
  if (const auto number = parse_number<int>(text)) {
    if (*number + by < 0) return std::nullopt;
    other = fmt::format("{:0{}}", *number + by, text.size());
  } else {
    other = text;
    other.back() = static_cast<char>(other.back() + by);
    if (kLetters.find(lower_case(other).back()) == kLetters.npos) return std::nullopt;
  }
  return name.substr(0, count.at) + other + name.substr(count.end);
}

SourcePtr open_neighbour(const Container& container, const Count& count, int by) {
  const auto name = neighbour(container.name, count, by);
  if (!name || container.folder == nullptr) return nullptr;
  return container.folder->open(*name).value_or(nullptr);
}

}  // namespace

bool may_be_first_part(const Container& container) {
  const auto name = find_count(lower_case(container.name));
  if (!name || name->is_enough) return name.has_value();
  const SourcePtr next = open_neighbour(container, name->count, 1);
  return next != nullptr && !is_model({container.name, next}).value_or(true);
}

bool may_be_other_part(const Container& container) {
  const auto name = find_count(lower_case(container.name));
  if (!name || name->is_enough) return name.has_value();
  return open_neighbour(container, name->count, -1) != nullptr;
}

Error first_part() { return other("the first part of a file that was split; join the parts with cat", kPart); }

Error other_part() { return other("a part of a file that was split; join the parts with cat", kPart); }

}  // namespace weightfs::other_files
