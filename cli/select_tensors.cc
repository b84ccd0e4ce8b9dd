#include "cli/select_tensors.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <numeric>

#include "base/text.h"

namespace weightfs {

std::string full_name(const TensorView& tensor) {
  return tensor.scope.empty() ? std::string(tensor.name) : fmt::format("{}/{}", tensor.scope, tensor.name);
}

Result<std::vector<size_t>> select_tensors(const Model& model, const std::vector<std::string>& patterns) {
  std::vector<size_t> selected;
  if (patterns.empty()) {
    selected.resize(model.tensors.size());
    std::iota(selected.begin(), selected.end(), size_t{0});
    return selected;
  }
  std::vector<bool> has_match(patterns.size());
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const std::string name = full_name(model.tensors[i]);
    bool is_selected = false;
    for (size_t p = 0; p < patterns.size(); ++p) {
      if (name != patterns[p] && ::fnmatch(patterns[p].c_str(), name.c_str(), 0) != 0) continue;
      has_match[p] = true;
      is_selected = true;
    }
    if (is_selected) selected.push_back(i);
  }
  for (size_t p = 0; p < patterns.size(); ++p)
    if (!has_match[p]) return failure(Code::not_found, fmt::format("no tensor matches {}", quoted(patterns[p])));
  return selected;
}

}  // namespace weightfs
