// Keras: a .keras file, which is a zip with an HDF5 file in it, and weights in several HDF5 files.
#pragma once

#include <string_view>

#include "formats/common/warnings.h"
#include "formats/model.h"

namespace weightfs::keras {

/// Moves the tensors and documents of the HDF5 file `name` into `model`, and its warnings into `warnings`; the metadata
/// become `weights`.
void add_weights(Model& model, Model file, std::string_view name, Map& weights, Warnings& warnings);

}  // namespace weightfs::keras
