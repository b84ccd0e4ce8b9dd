// A .pte file: a program for ExecuTorch's runtime, with the constants of its methods and the blobs of its delegates.
#pragma once

#include "formats/executorch/tensors.h"

namespace weightfs::executorch {

/// Adds the constants, the initial values of mutable tensors, the blobs of delegates and the metadata of a program.
/// Fails with corrupt if a table cannot be read, and as the budget does.
Result<void> add_program(Model& model, File& file, TensorAdder& adder, Budget& budget);

}  // namespace weightfs::executorch
