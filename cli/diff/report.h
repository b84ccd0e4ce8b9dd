// The output of `weightfs diff`.
#pragma once

#include <string>
#include <vector>

#include "base/values/value.h"
#include "cli/compare/models.h"

namespace weightfs::compare {

/// Prints a table with a row for each difference, with the columns of the deviation if that was requested, and on a
/// terminal a summary after it.
void print_differences(const ContentsComparison& found, bool has_deviation);

/// The object of --json.
Map differences_value(const ContentsComparison& found);

/// A line for each thing that could not be compared, except refused tensors: their models are incomplete. `a` and `b`
/// name the sources.
std::vector<std::string> unreadable_lines(const ContentsComparison& found, const std::string& a, const std::string& b);

}  // namespace weightfs::compare
