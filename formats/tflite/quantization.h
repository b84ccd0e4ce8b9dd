// The quantisation parameters of a TFLite file's constants.
#pragma once

#include <functional>

#include "base/values/value.h"
#include "formats/tflite/file.h"

namespace weightfs::tflite {

/// Calls `visit` with each constant that has a scale: the index of its subgraph, its own, and itself. Ends with the
/// first failure.
using Visit = std::function<Result<void>(uint64_t subgraph, uint64_t id, const Entry& entry)>;
Result<void> for_each_quantized_constant(const File& file, const Visit& visit);

/// Their number, and the length of all their lists together.
struct QuantizationSize {
  uint64_t constants = 0;
  uint64_t numbers = 0;
};

Result<QuantizationSize> quantization_size(const File& file);

/// The parameters of all constants as a list; for a file with few of them.
Result<weightfs::List> quantization_list(const File& file);

}  // namespace weightfs::tflite
