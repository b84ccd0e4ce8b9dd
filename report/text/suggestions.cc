#include "report/text/suggestions.h"

#include <algorithm>
#include <utility>

#include "report/text/words.h"

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

}  // namespace weightfs
