// GPTQ and AWQ: the rules of AutoGPTQ, GPTQModel and AutoAWQ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "formats/computed/matrix.h"
#include "formats/computed/module_pieces.h"
#include "formats/summary/fields.h"

namespace weightfs::computed {

/// What a configuration states about GPTQ.
struct GptqRules {
  uint32_t bits = 0;
  uint64_t group_size = 0;         ///< 0: all inputs are one group (-1)
  bool is_second_version = false;  ///< zero points are stored as they are, not one less
  std::optional<bool> is_symmetric, is_reordered;
};

/// The rules of all modules, then those that `dynamic` states for some of them. Both fail with unsupported if a field
/// is missing or has a value of which the packing is not known.
Result<std::vector<GptqRules>> gptq_rules(const summary::Fields& quantisation);
Result<uint64_t> awq_group_size(const summary::Fields& quantisation);

/// The weight of a module with qweight, by the only rules that its tensors do not contradict. Both fail with
/// unsupported if there are none.
Result<MatrixPtr> gptq_matrix(const std::vector<GptqRules>& rules, ModulePieces& pieces);
Result<MatrixPtr> awq_matrix(uint64_t group_size, ModulePieces& pieces);

}  // namespace weightfs::computed
