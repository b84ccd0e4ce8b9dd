// The deviations of `weightfs diff --stat`: as cells, as JSON, and of layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/values/value.h"
#include "report/compare/models.h"
#include "report/text/fitted_table.h"
#include "report/text/style.h"
#include "report/text/table.h"

namespace weightfs::compare {

/// The columns of a deviation: snr_db, relative_error, cosine, max, at, mean, differing.
std::vector<Table::Column> deviation_columns();

/// Their cells. `shape` is that of the tensor, for the place of the maximum; nothing for several tensors.
std::vector<Cell> deviation_cells(const numbers::Deviation& deviation, std::optional<ShapeView> shape);

Map deviation_value(const numbers::Deviation& deviation, std::optional<ShapeView> shape);

/// A list of the numbers of differences by their exponents.
List differences_by_exponent(const std::vector<numbers::Octave>& differences);

/// The deviation of all tensors of a layer that were compared; equal ones are not among them.
struct LayerDeviation {
  std::string name;
  uint64_t tensors;
  numbers::Deviation deviation;
};

/// In the order of the worst SNR; tensors without a layer are left out.
std::vector<LayerDeviation> layer_deviations(const ContentsComparison& found);

/// The deviation of all tensors that were compared and differ.
numbers::Deviation total_deviation(const ContentsComparison& found);

/// The tensors of a comparison in the order of the worst SNR; those without numbers come first.
std::vector<const ChangedTensor*> worst_first(const std::vector<ChangedTensor>& changed);

/// The columns of a terminal: the tensor, its types, those of a deviation, and a note.
const std::vector<info::FittedColumn>& screen_columns();
/// A row of them. `deviation` is null if there is none.
std::vector<std::string> screen_row(const std::string& name, const std::string& types,
                                    const numbers::Deviation* deviation, std::optional<ShapeView> shape,
                                    const std::string& note);
/// "float32", or "float32 > q8_0".
std::string types_of(const TensorView& a, const TensorView& b);

/// The measured tensors, the layers and all together, for a terminal.
std::vector<std::string> deviation_lines(const ContentsComparison& found, const info::Style& style);

/// What differences are accepted.
struct DeviationLimits {
  std::optional<double> max_relative_error;
  std::optional<double> min_snr_db;

  bool is_set() const { return max_relative_error || min_snr_db; }
};

/// Whether all tensors of both sides have a counterpart of the same shape within the limits. Metadata, types and files
/// do not count.
bool are_within(const ContentsComparison& found, const DeviationLimits& limits);

}  // namespace weightfs::compare
