// Prints the figures of `weightfs stats` while they are computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/values/json_printer.h"
#include "report/stats/figures.h"
#include "report/stats/lora.h"
#include "report/text/style.h"

namespace weightfs::stats {

struct PrintOptions {
  bool json = false;
  bool channels = false;
  bool detail = false;  ///< of a single tensor on a terminal
  bool lora = false;    ///< where there is a place for it
  std::string sort;     ///< a column; empty for the order of the tensors
  std::optional<uint64_t> top = {};
};

JsonPrinter json_on_stdout();

/// The error for figures that cannot be kept until the end: so many were.
Error too_many_kept(size_t tensors);

/// Prints tensors in a pipe, or as JSON, one by one. What is sorted, or is for a terminal, is kept until the end.
class Printer {
 public:
  /// Charges what is kept to `budget`, which may be null.
  Printer(PrintOptions options, BudgetPtr budget);

  /// Fails with unsupported if too many tensors have to be kept.
  Result<void> add(TensorFigures one);
  /// After the last tensor.
  void end(const AllGroups& groups);

 private:
  Result<void> keep(TensorFigures one);
  void begin();
  void print(const TensorFigures& one);
  void print_screen(const AllGroups& groups, const std::vector<LoraFigures>& pairs) const;

  const PrintOptions options_;
  const BudgetPtr budget_;
  const bool is_terminal_;
  JsonPrinter json_;
  bool has_begun_ = false;
  uint64_t printed_ = 0;
  std::vector<TensorFigures> kept_;
  std::vector<LoraFactor> factors_;
};

}  // namespace weightfs::stats
