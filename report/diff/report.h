// The output of `weightfs diff`.
#pragma once

#include <string>
#include <vector>

#include "base/values/json_printer.h"
#include "report/compare/models.h"

namespace weightfs::compare {

/// Whether a terminal gets the differing metadata, or only their number if they are many.
enum class MetadataRows { few, all };

/// Prints a table with a row for each difference: tensors, files, metadata; nothing into a pipe if there is none. If
/// deviations were requested, it has their columns, and the worst tensors first; on a terminal the layers follow. A
/// terminal gets a summary at the end.
void print_differences(const ContentsComparison& found, bool has_deviation, MetadataRows metadata);

/// The members of the object of --json; with the deviations of layers and of all tensors if these were requested. Each
/// difference is written at once; when it is cancelled, the rest is left out.
void write_differences(const ContentsComparison& found, bool has_deviation, JsonPrinter& out);

/// A line for each thing that could not be compared, except refused tensors: their models are incomplete. `a` and `b`
/// name the sources.
std::vector<std::string> unreadable_lines(const ContentsComparison& found, const std::string& a, const std::string& b);

}  // namespace weightfs::compare
