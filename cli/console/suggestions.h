// "Did you mean": what a person who mistyped a word will have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weightfs {

/// Of `candidates` those that `word` is near to, the nearest first, three at most. Near is a third of its letters
/// added, left out, changed or swapped with the next, or the beginning of a longer one.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean a or b?" of what nearest() gives; empty when it gives nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace weightfs
