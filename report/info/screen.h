// The screen of `weightfs info MODEL`: at most 24 lines that answer what a model is, how large it is, which
// quantisation and how much memory it has, and whether it is whole.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "report/info/subject.h"
#include "report/text/style.h"

namespace weightfs::info {

/// The maximum number of lines of a screen, unless the number of blocks is given.
inline constexpr size_t kMaxLines = 24;

/// The screen as text, each line with a newline. `blocks`: the rows of the table (default: what fits, at most 12).
std::string render_screen(const Subject& subject, const Style& style, std::optional<size_t> blocks = {});

}  // namespace weightfs::info
