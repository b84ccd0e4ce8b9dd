// The lines that `weightfs verify` prints.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report/verdicts/verdict.h"

namespace weightfs::verdicts {

enum class Detail {
  one_line,  ///< for each model
  all        ///< before it, each problem and each warning
};

/// The lines about a model, each with its name, the last with its state: "m.gguf: DAMAGED: …".
std::string lines_of(const Verdict& verdict, Detail detail);

/// Lines for a terminal of `width` columns: broken at blanks, what follows is indented. A longer word, such as a path,
/// stays whole.
std::string wrapped(std::string_view lines, size_t width);

/// "36 models: 34 whole, 2 damaged".
std::string line_of(const Sum& sum);

}  // namespace weightfs::verdicts
