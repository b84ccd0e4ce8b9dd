// The text of a graph.nnef: what its graph is called, its ends, its operations, and its variables.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/tensor_list.h"

namespace weightfs::nnef {

struct Variable {
  std::string label;  ///< the path of the tensor file, without `.dat`
  std::optional<Shape> shape;
};

struct Graph {
  std::string version, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, uint64_t> operations;
  std::vector<Variable> variables;
  bool is_whole = false;  ///< its text has an end
};

/// Reads the flat syntax (section 3 of the NNEF specification) as far as these need it. Fails with corrupt if there is
/// no graph, or a label is not in quotes. What it keeps is charged to `charges`.
Result<Graph> parse_graph(std::string_view text, Charges& charges);

}  // namespace weightfs::nnef
