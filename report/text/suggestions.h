// Suggestions for mistyped words ("did you mean").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weightfs {

/// Returns up to three `candidates` similar to `word`, the most similar first. Similar means: up to a third of the
/// letters inserted, deleted, replaced or swapped with the next, or `word` is a prefix.
std::vector<std::string> suggestions(std::string_view word, const std::vector<std::string>& candidates);

/// The suggestions as text: "; did you mean a or b?"; empty without suggestions.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace weightfs
