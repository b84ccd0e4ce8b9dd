// Which arrays each type of layer reads from the .bin file, which has neither names nor lengths (load_model of
// layer/*.cpp of ncnn).
#pragma once

#include <string_view>
#include <vector>

#include "formats/ncnn/param.h"
#include "formats/tensor_list.h"

namespace weightfs::ncnn {

/// An array of a layer.
struct Array {
  enum class Kind { flagged, plain };  ///< behind a tag that tells its type; float32 without a tag

  std::string_view field;
  Shape shape;
  Kind kind;
};

struct LayerArrays {
  std::vector<Array> arrays;  ///< in the order of the file
  bool is_complete = true;    ///< whether these are all that the layer reads
  bool is_known = true;       ///< whether ncnn has layers of this type
};

/// The arrays of a layer: none and not complete for an unknown type. Fails with corrupt if a size is negative or zero
/// where the layer has weights, or beyond 2^31 - 1, as ncnn's integers are.
Result<LayerArrays> arrays_of(const Layer& layer);

}  // namespace weightfs::ncnn
