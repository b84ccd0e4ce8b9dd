// The .cfg of a Darknet network: sections with `key=value` lines (parser.c and option_list.c of Darknet).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/result.h"

namespace weightfs::darknet {

/// A section, which is a layer; the first one is the network.
struct Section {
  std::string type;                                          ///< "convolutional"
  std::vector<std::pair<std::string, std::string>> options;  ///< in the order of the file

  /// The text of a key; empty if it is missing. The first one counts.
  std::string_view text(std::string_view key) const;
  /// The integer of a key, or its default. Fails with corrupt if it is none.
  Result<int64_t> number(std::string_view key, int64_t absent) const;
};

/// Parses a file. White space is ignored; lines that begin with `#` or `;` are comments. Fails with corrupt if there is
/// no section [net] at the beginning, or an option before it. Sections are charged to `charges`.
Result<std::vector<Section>> parse_config(std::string_view text, Charges& charges);

}  // namespace weightfs::darknet
