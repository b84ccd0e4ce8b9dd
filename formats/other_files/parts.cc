#include "formats/other_files/parts.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "formats/other_files/texts.h"

namespace weightfs::other_files {
namespace {

constexpr const char* kPart = "part";

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == text.npos;
}

// The letters that split(1) counts with: "a", "aa", "ab".
bool is_count_of_letters(std::string_view text) {
  return !text.empty() && text.size() <= 3 && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == text.npos;
}

// "1of2", "01", "aa"
bool is_count(std::string_view text) {
  const size_t of = text.find("of");
  if (of != text.npos && is_number(text.substr(0, of)) && is_number(text.substr(of + 2))) return true;
  return is_number(text) || is_count_of_letters(text);
}

// What is behind the suffix of the model: "part1of2", "split-a", "001"
bool is_suffix_of_part(std::string_view text) {
  constexpr size_t kDigits = 3;   // of a number alone
  constexpr size_t kLetters = 2;  // of letters alone: "aa" to "az"
  for (const std::string_view word : {"part", "split"}) {
    if (!text.starts_with(word)) continue;
    std::string_view count = text.substr(word.size());
    if (!count.empty() && std::string_view("-_.").find(count.front()) != std::string_view::npos) count.remove_prefix(1);
    return is_count(count);
  }
  return (text.size() == kDigits && is_number(text)) ||
         (text.size() == kLetters && text.front() == 'a' && is_count_of_letters(text));
}

}  // namespace

bool is_named_as_part(std::string_view name) {
  const std::string lower = lower_case(name);
  for (const std::string_view model :
       {".gguf", ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".llamafile"}) {
    const size_t at = lower.rfind(model);
    if (at == lower.npos || at + model.size() + 1 >= lower.size()) continue;
    const std::string_view rest = std::string_view(lower).substr(at + model.size());
    if (std::string_view(".-_").find(rest.front()) != std::string_view::npos && is_suffix_of_part(rest.substr(1)))
      return true;
  }
  return false;
}

Error first_part() { return other("the first part of a file that was split; join the parts with cat", kPart); }

Error other_part() { return other("a part of a file that was split; join the parts with cat", kPart); }

}  // namespace weightfs::other_files
