// Keras: a .keras file, which is a zip with an HDF5 file in it, and weights in several HDF5 files.
#pragma once

#include <string_view>

#include "formats/model.h"

namespace weightfs::keras {

/// Moves the tensors, documents and warnings of the HDF5 file `name` into `model`; the metadata become `weights`.
void add_weights(Model& model, Model file, std::string_view name, Map& weights);

}  // namespace weightfs::keras
