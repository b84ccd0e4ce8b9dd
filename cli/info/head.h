// The first lines of a screen: name, format and size, what is wrong, and one sentence about the model.
#pragma once

#include <string>
#include <vector>

#include "cli/info/subject.h"
#include "cli/info/text.h"

namespace weightfs::info {

/// Lines in colours. On a narrow screen the sentence has several short lines.
std::vector<std::string> head_of(const Subject& subject, const Style& style);

/// A name at the left and a text at the right edge of at most 80 columns, or below the name if there is no room.
std::vector<std::string> title_line(std::string_view name, std::string_view text, const Style& style);

}  // namespace weightfs::info
