// The names of the parameters in a .pdiparams file, which has none: they are in the program beside it.
#pragma once

#include <string>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::paddle {

/// The names of the parameters, in the order of the file, and the program that has them.
struct Names {
  std::vector<std::string> names;
  std::string program;  ///< the name of its file; empty if there is none
  SourcePtr bytes;      ///< of the program; null if there is none
};

/// Reads the names from STEM.pdmodel or STEM.json beside `container`, which is STEM.pdiparams. A program that cannot be
/// read is a warning, and makes the model incomplete. Fails as the budget does.
Result<Names> read_names(const Container& container, Warnings& warnings);

/// The names of the persistable variables of a program (ProgramDesc), sorted. They are charged to `charges`.
Result<std::vector<std::string>> names_of_program(const Source& program, Budget& budget, Charges& charges);

/// The names of the parameters of a program in JSON (PIR, of Paddle 3), sorted. They are charged to `charges`. Fails
/// with not_found if it is another JSON text.
Result<std::vector<std::string>> names_of_json(const Source& program, Budget& budget, Charges& charges);

}  // namespace weightfs::paddle
