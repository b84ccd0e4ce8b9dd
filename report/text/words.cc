#include "report/text/words.h"

#include <fmt/core.h>

#include "base/text.h"

namespace weightfs {

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string enumerated(const std::vector<std::string>& texts, std::string_view last) {
  std::string out;
  std::string_view pending;
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    if (!pending.empty()) (out += out.empty() ? "" : ", ") += pending;
    pending = text;
  }
  if (!out.empty()) out += last;
  return out.append(pending);
}

std::string join_path(std::string_view path, std::string_view below) {
  const bool is_joined = !path.empty() && !below.empty() && !path.ends_with('/');
  return fmt::format("{}{}{}", path, is_joined ? "/" : "", below);
}

std::optional<std::string> command_word(std::string_view text) {
  if (printable(text) != text) return std::nullopt;
  return shell_word(text.starts_with('-') ? fmt::format("./{}", text) : std::string(text));  // it is no option
}

}  // namespace weightfs
