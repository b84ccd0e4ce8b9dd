// What `weightfs stats` computes: the figures of the selected tensors, of their layers and of all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "numbers/block_scales.h"
#include "numbers/channels.h"
#include "numbers/statistics.h"
#include "report/compare/contents.h"

namespace weightfs::stats {

/// The channels of one axis of a tensor, those with the largest absolutes first.
struct AxisChannels {
  size_t axis;
  uint64_t dead;  ///< channels with nothing but zeros
  std::vector<numbers::Channel> largest;
};

struct TensorFigures {
  std::string name;  ///< behind the path of its model
  TensorView tensor;
  bool is_refused;
  Result<numbers::Statistics> statistics;
  std::optional<numbers::ScaleStatistics> scales = {};              ///< of a quantised tensor, if they were requested
  std::vector<AxisChannels> channels = {};                          ///< if they were requested
  std::string no_channels = {};                                     ///< why an axis has none
  std::optional<Result<std::vector<double>>> singular_values = {};  ///< if they were requested; the largest first
};

/// Tensors that belong together: those of a layer.
struct GroupFigures {
  std::string name;
  uint64_t tensors;
  numbers::Statistics statistics;
};

struct AllGroups {
  std::vector<GroupFigures> layers;  ///< in the order of their first tensors
  GroupFigures total;
};

struct FigureOptions {
  numbers::StatisticsOptions statistics;
  bool scales = false;
  bool channels = false;
  bool singular_values = false;
  std::optional<size_t> axis = {};  ///< of the channels; by default the first and the last
  size_t largest = 20;              ///< channels of each axis
  /// Called from any thread with the bytes that were read, those to read, and the name of the tensor.
  std::function<void(uint64_t done, uint64_t total, const std::string& name)> report = {};
};

/// Receives the figures of a tensor, which exist nowhere else. An error ends the computation.
using UseTensor = std::function<Result<void>(TensorFigures one)>;

/// Computes them, and passes them on in the order of `selected`. Fails as FigureCost::check() does before the first
/// one, with resource when the calling thread is cancelled, and as `use` does.
Result<AllGroups> compute_figures(const std::vector<compare::FoundModel>& models,
                                  const std::vector<compare::TensorPlace>& selected, const FigureOptions& options,
                                  const UseTensor& use);

}  // namespace weightfs::stats
