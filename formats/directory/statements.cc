#include "formats/directory/statements.h"

#include <fmt/core.h>

#include <utility>

namespace weightfs::directory {
namespace {

template <class Value>
void move_to(std::map<size_t, Value>& out, const std::map<size_t, Value>& read, size_t first) {
  for (const auto& [i, value] : read) out.emplace_hint(out.end(), first + i, value);
}

void move_tensors(FileCheck& check, size_t first) {
  if (auto* const checked = std::get_if<CheckedTensors>(&check.expected))
    for (size_t& tensor : checked->tensors) tensor += first;
  if (auto* const sums = std::get_if<RangeChecksums>(&check.expected))
    for (RangeChecksum& range : sums->ranges)
      if (range.tensor != RangeChecksum::kNoTensor) range.tensor += static_cast<uint32_t>(first);
}

}  // namespace

void move_below(Model& model, std::string_view directory) {
  if (directory.empty()) return;
  for (Part& part : model.parts) part.path.insert(0, directory);
  if (!model.checks.is_set()) return;
  for (FileCheck& check : model.checks.edit())
    if (check.of != FileCheck::Of::layer) check.subject.insert(0, directory);
}

void move_statements(Model& read, Model& model, size_t first) {
  if (read.per_tensor.is_set()) {
    PerTensor& all = model.per_tensor.edit();
    move_to(all.affine_numbers, read.per_tensor->affine_numbers, first);
    move_to(all.packed_weights, read.per_tensor->packed_weights, first);
    move_to(all.digests, read.per_tensor->digests, first);
    move_to(all.strings, read.per_tensor->strings, first);
    move_to(all.npy_files, read.per_tensor->npy_files, first);
  }
  if (!read.checks.is_set()) return;
  for (FileCheck& check : read.checks.edit()) {
    move_tensors(check, first);
    model.checks.edit().push_back(std::move(check));
  }
}

Result<void> move_checksums(std::vector<Part> members, std::string_view path, Model& model, Budget& budget) {
  for (Part& member : members) {
    if (member.checksums.empty() || !member.link_target.empty()) continue;
    TRY_VOID(budget.charge(Cost::kept, path.size()));
    model.checks.edit().push_back({.subject = fmt::format("{}/{}", path, member.path),
                                   .bytes = std::move(member.source),
                                   .expected = std::move(member.checksums),
                                   .of = FileCheck::Of::member});
  }
  return {};
}

}  // namespace weightfs::directory
