// `weightfs info --template`, `--system`, `--parameters`, `--license` and `--tokens`: one thing of a model, and nothing
// else on standard output.
#pragma once

#include <optional>
#include <string>

#include "cli/exit.h"
#include "cli/findings/duplicates.h"
#include "formats/tokenizer/texts.h"
#include "fs/tree/forest.h"

namespace weightfs::info {

struct TextRequest {
  std::optional<tokenizer::TextKind> kind;
  std::string name;                   ///< of a chat template; empty for the default, or the first
  std::optional<std::string> tokens;  ///< what tokens have, or `id N`

  bool is_any() const { return kind || tokens; }
};

/// Prints what is requested of the model that the forest of `source` has.
Exit print_texts(const std::string& source, Forest& forest, const TextRequest& request, Output output);

}  // namespace weightfs::info
