// What a verification of a model found, in words.
#pragma once

#include <string>

#include "formats/verify.h"

namespace weightfs {

/// What was compared, and what could not be, of a model without errors: "2 files match their checksums, 1 have none".
/// Other weights of its directory were not read, which it says, too.
std::string summarize(const Model& model, const Verification& found);

/// "1 wrong file, 2 wrong ranges of files".
std::string count_wrong(const Verification& found);

/// "3 files"; "2 files or tensors".
std::string count_unreadable(const Model& model, const Verification& found);

}  // namespace weightfs
