#include "formats/other_files/pickles.h"

#include <fmt/core.h>

#include <algorithm>

namespace weightfs::other_files {
namespace {

constexpr size_t kMaxName = 100;

// The opcodes of https://github.com/python/cpython/blob/main/Lib/pickle.py
constexpr char kGlobal = 'c';
constexpr char kShortText = '\x8C';
constexpr char kMemoize = '\x94';
constexpr char kStackGlobal = '\x93';

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

// "module.Name" of GLOBAL: two lines.
std::string global_at(std::string_view text) {
  const size_t end = text.find('\n');
  const size_t last = end == text.npos ? end : text.find('\n', end + 1);
  if (last == text.npos || !is_name(text.substr(0, end)) || !is_name(text.substr(end + 1, last - end - 1))) return "";
  return fmt::format("{}.{}", text.substr(0, end), text.substr(end + 1, last - end - 1));
}

// The text of SHORT_BINUNICODE at the beginning of `bytes`, which goes on after it.
std::string_view take_text(std::string_view& bytes) {
  if (bytes.size() < 2 || bytes[0] != kShortText) return {};
  const std::string_view text = bytes.substr(2, static_cast<uint8_t>(bytes[1]));
  bytes.remove_prefix(2 + text.size());
  if (bytes.starts_with(kMemoize)) bytes.remove_prefix(1);
  return text;
}

// "module.Name" of STACK_GLOBAL after two texts.
std::string stack_global_at(std::string_view bytes) {
  const std::string_view module = take_text(bytes);
  const std::string_view name = take_text(bytes);
  if (!is_name(module) || !is_name(name) || !bytes.starts_with(kStackGlobal)) return "";
  return fmt::format("{}.{}", module, name);
}

std::string first_global(std::string_view bytes) {
  for (size_t at = 2; at < bytes.size(); ++at) {
    std::string found;
    if (bytes[at] == kGlobal) found = global_at(bytes.substr(at + 1, 2 * (kMaxName + 1)));
    if (bytes[at] == kShortText) found = stack_global_at(bytes.substr(at));
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

std::optional<std::string> identify_pickle(std::string_view begin) {
  if (begin.size() < 3 || begin[0] != '\x80' || begin[1] < 2 || begin[1] > 5) return std::nullopt;
  if (begin.find("sklearn") != begin.npos) return "a pickle of scikit-learn";
  const std::string global = first_global(begin);
  return global.empty() ? "a pickle" : fmt::format("a pickle of {}", global);
}

}  // namespace weightfs::other_files
