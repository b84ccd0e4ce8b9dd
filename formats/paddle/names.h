// The names of the parameters in a .pdiparams file, which has none: they are in the program beside it.
#pragma once

#include <string>
#include <vector>

#include "formats/code/list.h"
#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::paddle {

/// The names of the parameters, in the order of the file, and the program that has them.
struct Names {
  std::vector<std::string> names;
  std::string program;  ///< the name of its file; empty if there is none
  SourcePtr bytes;      ///< of the program; null if there is none
  CodeList code;        ///< operators of the program that call Python
};

/// Reads the names from STEM.pdmodel or STEM.json beside `container`, which is STEM.pdiparams. A program that cannot be
/// read is a warning, and makes the model incomplete. Fails as the budget does.
Result<Names> read_names(const Container& container, Warnings& warnings);

}  // namespace weightfs::paddle
