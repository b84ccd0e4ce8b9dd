// The first lines of a screen: name, format and size, what is wrong, and one sentence about the model.
#pragma once

#include <string>
#include <vector>

#include "report/info/subject.h"
#include "report/text/style.h"

namespace weightfs::info {

/// The name of a model, or the last component of its source.
std::string name_of(const Subject& subject);

/// "DAMAGED: …", "RUNS CODE: …": what is wrong with a model, in colours; none if nothing is.
std::vector<std::string> alerts_of(const Subject& subject, const Style& style);

/// "language model (llama), 8.03 B parameters, Q4_K_M: 4.89 bits per weight", on several lines if it is long.
std::vector<std::string> sentence_of(const Subject& subject, const Style& style);

/// Lines in colours. On a narrow screen the sentence has several short lines.
std::vector<std::string> head_of(const Subject& subject, const Style& style);

/// A name at the left and a text at the right edge of at most 80 columns, or below the name if there is no room.
std::vector<std::string> title_line(std::string_view name, std::string_view text, const Style& style);

}  // namespace weightfs::info
