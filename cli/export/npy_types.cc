#include "cli/export/npy_types.h"

#include <fmt/core.h>

#include <map>
#include <string_view>

#include "cli/console/words.h"
#include "fs/views/npy.h"

namespace weightfs::exporting {

std::string npy_types_sentence(const Model& model, const std::vector<size_t>& tensors) {
  std::map<std::string_view, std::map<std::string_view, uint64_t>> counts;  // of the type in npy/, of the stored one
  for (const size_t index : tensors) {
    const TensorView tensor = model.tensors[index];
    const std::string_view type = views::npy_type(tensor);
    if (!type.empty() && type != tensor.dtype->name) ++counts[type][tensor.dtype->name];
  }
  std::string out;
  size_t types = 0;
  for (const auto& [written, stored] : counts) {
    uint64_t sum = 0;
    std::vector<std::string> parts;
    for (const auto& [type, count] : stored) {
      const bool is_first = out.empty() && parts.empty();
      parts.push_back(
          fmt::format("{} of {}", is_first ? counted(count, "tensor", "tensors") : std::to_string(count), type));
      sum += count;
    }
    types += stored.size();
    const std::string_view verb = !out.empty() ? "" : sum == 1 ? "is written " : "are written ";
    out += fmt::format("{}{} {}as {}", out.empty() ? "" : ", ", enumerated(parts, " and "), verb, written);
  }
  return out.empty() ? out : fmt::format("{}: NumPy has no such {}", out, types == 1 ? "type" : "types");
}

}  // namespace weightfs::exporting
