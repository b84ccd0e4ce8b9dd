#include "cli/console/suggestions.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "cli/console/words.h"
#include "sources/source.h"

namespace weightfs {
namespace {

constexpr size_t kMaxLetters = 64;  // longer words are not typing errors, and the time is quadratic
constexpr size_t kMinPrefix = 3;    // a shorter prefix fits too many words
constexpr size_t kMaxSuggestions = 3;

// Damerau-Levenshtein distance without editing a part twice (optimal string alignment).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// The word without the dashes of an option.
std::string_view letters(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word;
}

}  // namespace

std::vector<std::string> suggestions(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string_view meant = letters(word);
  if (meant.empty() || meant.size() > kMaxLetters) return {};
  const size_t limit = std::min<size_t>((meant.size() + 2) / 3, 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const std::string_view known = letters(candidate);
    if (known.size() > kMaxLetters) continue;
    size_t away = distance(meant, known);
    if (meant.size() >= kMinPrefix && known.starts_with(meant)) away = std::min(away, limit);
    if (away <= limit && away < known.size()) near.emplace_back(away, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  near.resize(std::min(near.size(), kMaxSuggestions));
  std::vector<std::string> out;
  for (auto& [away, candidate] : near) out.push_back(std::move(candidate));
  return out;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = enumerated(suggestions(word, candidates), " or ");
  return near.empty() ? near : "; did you mean " + near + "?";
}

Result<void> check_spelling(const std::vector<std::string>& sources) {
  constexpr size_t kMaxNames = 1'000;
  for (const std::string& source : sources) {
    std::error_code error;
    const std::filesystem::path path = source;
    if (!is_path(source) ||
        std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::not_found)
      continue;
    const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
      if (names.size() == kMaxNames) break;
      names.push_back(entry->path().filename().string());
    }
    std::vector<std::string> near = suggestions(path.filename().string(), names);
    for (std::string& name : near) name = printable((path.parent_path() / name).string());
    if (!near.empty())
      return failure(Code::not_found, fmt::format("{}: No such file or directory; did you mean {}?", printable(source),
                                                  enumerated(near, " or ")));
  }
  return {};
}

}  // namespace weightfs
