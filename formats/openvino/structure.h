// The structure of an OpenVINO model: the XML file with its layers, edges and metadata. As ir_deserializer.cpp of
// OpenVINO 2025 reads it, and the Inference Engine of 2019 for IR 2 to 7.
#pragma once

#include "formats/common/warnings.h"
#include "formats/openvino/tensors.h"

namespace weightfs::openvino {

/// Reads the XML text of `container`. Passes its constants to `tensors`, and sets the version and the metadata of
/// `model`: name, rt_info, inputs, outputs, operators, opsets. Fails as read_xml does, with unsupported if it is
/// another XML text, and with corrupt if it has no version or no layers.
Result<void> read_structure(const Container& container, Tensors& tensors, Model& model, Warnings& warnings);

}  // namespace weightfs::openvino
