// The network of a Caffe model: NetParameter, with the layers of today and those of the two forms before 2015.
#pragma once

#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::caffe {

/// Reads a network: its weights as tensors LAYER.I, and its name, inputs, outputs, operators and layers as metadata.
/// Fails with corrupt if it has no layer with a name and a type, and as Scanner and the budget do.
Result<void> read_net(const Container& container, Model& model, Warnings& warnings);

/// The name of a type of V1LayerParameter, or "type 99".
std::string old_type_name(uint64_t number);

}  // namespace weightfs::caffe
