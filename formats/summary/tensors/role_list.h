// The roles of all tensors of a model, and how its weights are packed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/summary/counts.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// How the modules of a model are packed, as far as their tensors show it.
struct Packing {
  enum class Method : uint8_t {
    none,
    gptq,
    awq,
    bnb_4bit,
    bnb_8bit,
    mlx,
    mlc,
    packed,  ///< compressed-tensors: weight_packed
    scaled,  ///< a weight of 8 or 16 bits with scales: fp8, compressed-tensors
    nvfp4,
    mxfp4,
    hqq,
    exl2,
    exl3,
    codebook,  ///< aqlm, vptq, quip
    bitnet,
    flattened,  ///< quanto, torchao
    grouped,    ///< integers with scales of groups, of no known method
    operation   ///< of a graph: MatMulNBits
  };
  Method method = Method::none;  ///< of most elements
  Number bits, group_size;       ///< by the shapes of the tensors
  bool is_fp4 = false;           ///< of bitsandbytes: else NF4
  bool is_float8 = false;        ///< the weight of a scaled module
  std::string_view operation;    ///< the operator of a graph; a literal
  bool is_complete = true;       ///< the number of elements of every packed tensor is known
};

struct Roles {
  std::vector<Counted> tensors;
  Packing packing;
  std::vector<std::string> warnings;
};

}  // namespace weightfs::summary
