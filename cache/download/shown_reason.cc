#include "cache/download/shown_reason.h"

#include <algorithm>

#include "base/text.h"

namespace weightfs::download {
namespace {

constexpr size_t kMaxReason = 300;
constexpr size_t kMinSecret = 20;  // characters: keys and tokens of services are longer
constexpr const char* kHidden = "...";

// Whether a server may repeat a key or a token with it.
bool may_be_secret(std::string_view name) {
  const auto has = [&](char first, char last) {
    return std::ranges::any_of(name, [=](char c) { return c >= first && c <= last; });
  };
  return name.size() >= kMinSecret && has('0', '9') && (has('a', 'z') || has('A', 'Z'));
}

// Without the query of a URL, and without names that may be secret.
std::string shown_word(std::string_view word) {
  constexpr std::string_view kBetween = "/:;,<>()[]{}\"'`";
  if (const size_t question = word.find('?'); question != word.npos && question + 1 < word.size())
    word = word.substr(0, question);
  std::string shown;
  while (!word.empty()) {
    const size_t end = std::min(word.find_first_of(kBetween), word.size());
    shown += may_be_secret(word.substr(0, end)) ? kHidden : word.substr(0, end);
    shown += word.substr(end, 1);
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return shown;
}

}  // namespace

std::string shown_reason(std::string_view text) {
  std::string shown;
  bool is_login = false;  // of a header Authorization
  while (!text.empty() && shown.size() < kMaxReason) {
    const size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
    const std::string_view word = text.substr(0, end);
    shown += is_login && !word.empty() ? kHidden : shown_word(word);
    shown += text.substr(end, 1);
    const std::string scheme = lower_case(word);
    if (!word.empty()) is_login = scheme.ends_with("basic") || scheme.ends_with("bearer");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const bool is_longer = !text.empty() || shown.size() > kMaxReason;
  return printable(shown.substr(0, kMaxReason)) + (is_longer ? kHidden : "");
}

}  // namespace weightfs::download
