// The text of a .param file: the layers of an ncnn network, one a line (ParamDict and Net::load_param of ncnn).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/result.h"

namespace weightfs::ncnn {

inline constexpr std::string_view kMagic = "7767517";

/// A line: the type of the layer, its name, the blobs that it reads and writes, and its parameters by their numbers.
struct Layer {
  std::string type;
  std::string name;
  std::vector<std::string> bottoms, tops;
  std::map<int, int64_t> integers;  ///< parameters; fractions, texts and arrays are left out

  /// A parameter, or its default.
  int64_t at(int id, int64_t absent = 0) const {
    const auto found = integers.find(id);
    return found == integers.end() ? absent : found->second;
  }
};

struct Network {
  std::vector<Layer> layers;
  uint64_t blobs = 0;           ///< as the file states it
  bool ends_in_a_line = false;  ///< the last layer has no line break: it may be cut
};

/// Parses the text of a file. Fails with corrupt if it is not valid: another magic number, fewer lines than layers, a
/// name beyond 255 bytes, a parameter number from 32 on. Its values are charged to `charges`.
Result<Network> parse_param(std::string_view text, Charges& charges);

}  // namespace weightfs::ncnn
