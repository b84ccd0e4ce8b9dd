#include "report/export/npy_types.h"

#include <fmt/core.h>

#include <map>
#include <string_view>
#include <vector>

#include "fs/views/converted.h"
#include "fs/views/npy.h"
#include "report/text/words.h"

namespace weightfs::exporting {
namespace {

using Counts = std::map<std::string_view, uint64_t>;  // of tensors, by their type

uint64_t sum_of(const Counts& counts) {
  uint64_t sum = 0;
  for (const auto& [type, count] : counts) sum += count;
  return sum;
}

// "4 tensors of bfloat16 and 2 of q4_k"; "4 of bfloat16 and 2 of q4_k" if it follows another one.
std::string listed_types(const Counts& counts, bool is_first) {
  std::vector<std::string> parts;
  for (const auto& [type, count] : counts) {
    const bool has_noun = is_first && parts.empty();
    parts.push_back(
        fmt::format("{} of {}", has_noun ? counted(count, "tensor", "tensors") : std::to_string(count), type));
  }
  return enumerated(parts, " and ");
}

}  // namespace

std::string npy_types_sentence(const Model& model, const std::vector<size_t>& tensors) {
  std::map<std::string_view, Counts> counts;  // by the type in npy/
  for (const size_t index : tensors) {
    const TensorView tensor = model.tensors[index];
    const std::string_view type = views::npy_type(tensor);
    if (!type.empty() && type != tensor.dtype->name) ++counts[type][tensor.dtype->name];
  }
  std::string out;
  size_t types = 0;
  for (const auto& [written, stored] : counts) {
    types += stored.size();
    const std::string_view verb = !out.empty() ? "" : sum_of(stored) == 1 ? "is written " : "are written ";
    out += fmt::format("{}{} {}as {}", out.empty() ? "" : ", ", listed_types(stored, out.empty()), verb, written);
  }
  return out.empty() ? out : fmt::format("{}: NumPy has no such {}", out, types == 1 ? "type" : "types");
}

std::string unconverted_types_sentence(const Model& model, const std::vector<size_t>& tensors,
                                       const std::function<bool(const TensorView& tensor)>& is_stored) {
  Counts counts;
  for (const size_t index : tensors) {
    const TensorView tensor = model.tensors[index];
    if (!tensor.source.refused() && !views::has_numbers(tensor) && is_stored(tensor)) ++counts[tensor.dtype->name];
  }
  if (counts.empty()) return "";
  return fmt::format("{} {} written as stored: not real numbers", listed_types(counts, true),
                     sum_of(counts) == 1 ? "is" : "are");
}

}  // namespace weightfs::exporting
