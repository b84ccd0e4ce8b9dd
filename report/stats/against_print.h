// Prints the figures of `weightfs stats --against` while they are computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/values/json_printer.h"
#include "report/stats/against.h"
#include "report/text/style.h"

namespace weightfs::stats {

struct AgainstPrintOptions {
  bool json = false;
  std::string sort;  ///< a column; empty for the order of the tensors
  std::optional<uint64_t> top = {};
  compare::NameMapping names = {};
};

/// The columns that --sort can order by: the tensor, or numbers, of which the worst come first.
std::vector<std::string> against_sort_names();

/// Prints tensors in a pipe, or as JSON, one by one. What is sorted, or is for a terminal, is kept until the end.
class AgainstPrinter {
 public:
  /// Charges what is kept to `budget`, which may be null.
  AgainstPrinter(AgainstPrintOptions options, BudgetPtr budget);

  /// Fails with unsupported if too many tensors have to be kept.
  Result<void> add(AgainstFigures one);
  /// After the last tensor. `missing` are the names of the tensors that only the reference has.
  void end(const AgainstGroups& groups, const std::vector<std::string>& missing);

 private:
  void begin();
  void print(const AgainstFigures& one);
  void sort_kept();
  void print_screen(const AgainstGroups& groups) const;

  const AgainstPrintOptions options_;
  const BudgetPtr budget_;
  const bool is_terminal_;
  JsonPrinter json_;
  bool has_begun_ = false;
  uint64_t printed_ = 0;
  std::vector<AgainstFigures> kept_;
};

}  // namespace weightfs::stats
