// Makes pictures of tensors and models.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/model.h"
#include "numbers/elements.h"
#include "numbers/grid.h"
#include "report/plot/picture.h"

namespace weightfs::plot {

/// What a cell, or a point of a curve, shows of several numbers.
enum class Metric {
  largest,   ///< the number with the largest absolute
  rms,       ///< the root mean square
  mean,      ///< the mean
  sparsity,  ///< the share of zeros; only of an overview
  bits,      ///< bits per element in storage; only of an overview
  type,      ///< the type in storage, as a category; only of an overview
  snr        ///< the SNR of the other model, in dB; only of an overview
};

/// The words for a scale.
const char* label_of(Metric metric);

/// A number that belongs to each axis of a tensor, such as [0,3,0].
using Indices = std::vector<uint64_t>;

/// A range of rows and columns: "0:128,64:192".
struct WindowChoice {
  uint64_t first_row, end_row, first_column, end_column;
};

struct Choices {
  std::optional<Metric> metric;
  std::optional<WindowChoice> window;
  std::optional<std::pair<size_t, size_t>> axes;  ///< down and to the right; by default the last to the right
  Indices index;                                  ///< of the other axes; by default 0
  std::optional<size_t> axis;                     ///< whose channels are shown; by default the last
  bool sample = false;
  bool keeps_vectors = false;  ///< an overview also shows tensors of one dimension beside matrices
  size_t rows = 512;           ///< the maximum number of cells
  size_t columns = 512;
  size_t threads = 1;
  numbers::CountBytes count_bytes = [](uint64_t) {};
};

/// A tensor with the name that is shown. Without `model`, the tensor of a model in an archive may be freed.
struct NamedTensor {
  std::string name;
  TensorView tensor;
  ModelPtr model = {};
};

/// Checks that a tensor can be compared with `other`, which is that of this name in the other model; null if it has
/// none. Fails with not_found if there is none of the same shape, and with corrupt if it is refused.
Result<void> check_counterpart(const NamedTensor& tensor, const NamedTensor* other);

/// The number that a cell shows: of `largest`, `rms` or `mean`.
double value_of(const numbers::GridCell& cell, Metric metric);

/// A scale for numbers: symmetric around 0 for those of both signs. The limits are quantiles, because a single outlier
/// would hide the rest.
Scale scale_of(const std::vector<double>& values, bool has_signs);

/// The place of a tensor in an overview, by its name. The experts of a layer share one: "mlp.experts.*.up_proj.weight".
struct Place {
  std::string layer;  ///< the row; the whole name of a tensor without a layer
  std::string rest;   ///< the column
};
Place place_of(const std::string& name);

/// Whether at most one of its axes has more than one element.
bool is_vector(ShapeView shape);

/// The tensors of each cell that are read for a sample: a layer may have hundreds of experts.
inline constexpr size_t kSampledExperts = 4;

/// Whether it is of an expert, or stacks experts.
bool has_experts(const NamedTensor& tensor);

/// The numbers of a window of a tensor. Fails with not_found for a window or axes that do not exist, with unsupported
/// for a metric of overviews, and as reading fails.
Result<HeatMap> heat_map_of(const NamedTensor& tensor, const Choices& choices);

/// The distributions of tensors, a line for each.
Result<Curves> histogram_of(const std::vector<NamedTensor>& tensors, const Choices& choices);

/// RMS and largest absolute of each channel of an axis, and, unless `against` is empty, the RMS of the differences from
/// its tensor of the same name. Fails also with not_found if that has none of the same shape, and with unsupported for
/// too many channels.
Result<Curves> channels_of(const NamedTensor& tensor, const std::vector<NamedTensor>& against, const Choices& choices);

/// A number for each tensor: a row for each layer, a column for each kind of tensor. The experts of a layer are one
/// cell: their numbers together, the largest, or the lowest SNR; of a sample, those of four of them. Beside matrices,
/// tensors of one dimension are left out, because the numbers of norms and biases take all of the scale, unless the
/// choices keep them. `against` is searched for tensors of the same name, for Metric::snr. Tensors that cannot be read
/// are NaN, and are passed to `failed`. Fails with unsupported for Metric::type, which Cells has.
Result<HeatMap> overview_of(const std::string& title, const std::vector<NamedTensor>& tensors,
                            const std::vector<NamedTensor>& against, const Choices& choices,
                            const std::function<void(const NamedTensor&, const Error&)>& failed);

/// The RMS of the experts of each layer: of tensors `experts.N.…`, and of those that stack all experts on the first
/// axis
/// (`…_exps`). Fails with not_found if there are none.
Result<HeatMap> experts_of(const std::string& title, const std::vector<NamedTensor>& tensors, const Choices& choices,
                           const std::function<void(const NamedTensor&, const Error&)>& failed);

}  // namespace weightfs::plot
