// Weights with a scale for each block, row or tensor: compressed-tensors, fp8, and FP8 and NVFP4 of ModelOpt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "formats/computed/matrix.h"
#include "formats/computed/module_pieces.h"
#include "formats/summary/fields.h"

namespace weightfs::computed {

/// Rows and columns that share a scale.
using Block = std::pair<uint64_t, uint64_t>;

/// What a configuration states of a method that stores float8 numbers or pairs of float4.
struct ScaledRules {
  bool is_nvfp4 = false;
  std::optional<Block> block = {};  ///< weight_block_size
};

/// Reads what fp8 and fbgemm_fp8 state, and ModelOpt for FP8 and NVFP4. Both fail with unsupported if a field is
/// missing or has a value that no known packing has.
Result<ScaledRules> fp8_rules(const summary::Fields& quantisation);
Result<ScaledRules> modelopt_rules(const summary::Fields& quantisation);

/// The weight of a module with scales. Fails with unsupported if its tensors contradict the rules.
Result<MatrixPtr> scaled_matrix(const ScaledRules& rules, ModulePieces& pieces);

/// What one group of compressed-tensors states.
struct CompressedRules {
  std::string packing;   ///< "pack-quantized"
  std::string strategy;  ///< "group"; empty if it is not stated
  uint32_t bits = 0;
  bool is_integer = true;
  bool is_symmetric = true;
  bool is_reordered = false;        ///< weight_g_idx lists the group of each input
  uint64_t group_size = 0;          ///< 0: none
  std::optional<Block> block = {};  ///< block_structure
};

/// `format` is that of all groups. Fails with unsupported.
Result<CompressedRules> compressed_rules(const summary::Fields& group, std::string_view format);

/// The weight of a module of the group. Reads weight_shape. Fails with unsupported if its tensors contradict the rules.
Result<MatrixPtr> compressed_matrix(const CompressedRules& rules, ModulePieces& pieces);

}  // namespace weightfs::computed
