// What may run code when another program loads a model: the findings of its parser (list.h), and what its small files
// say.
#pragma once

#include <string>
#include <vector>

#include "formats/code/list.h"
#include "formats/model.h"

namespace weightfs {

/// What was found in a model and its files.
struct FoundCode {
  std::vector<CodeItem> items;
  std::vector<std::string> not_examined;  ///< files that could not be read, with the reason
};

/// Reads small files of the model: its configurations and templates.
FoundCode code_of(const Model& model);

}  // namespace weightfs
