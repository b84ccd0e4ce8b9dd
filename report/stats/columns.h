// The columns of `weightfs stats`.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "report/stats/figures.h"
#include "report/text/style.h"

namespace weightfs::stats {

/// What a row is about: a tensor, or a group of tensors.
struct Row {
  std::string name;
  std::string dtype;
  uint64_t elements;
  const numbers::Statistics* statistics;  ///< null without figures
  std::string note;                       ///< why there are none
};

Row row_of(const TensorFigures& one);
Row row_of(const GroupFigures& group);

struct Column {
  const char* name;
  int rank;  ///< columns with a higher rank are left out of a narrow terminal first; 0 stays
  bool is_left;
  /// The number of a row, for --sort; null for a text.
  std::function<std::optional<double>(const Row&)> number;
  std::function<std::string(const Row&, const info::Style&)> shown;
  std::function<std::string(const Row&)> raw;  ///< in a pipe
  bool is_note = false;                        ///< a long text is printed below its row
};

std::span<const Column> columns();

/// "NaN 12, dead rows 3": what is unusual.
std::string flags_of(const numbers::Statistics& statistics);

/// A number for a person: five digits.
std::string figure_text(double value);

}  // namespace weightfs::stats
