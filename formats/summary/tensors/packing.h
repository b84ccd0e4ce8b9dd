// Packed weights: which tensors belong together, and how many elements a packed tensor has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"
#include "formats/summary/counts.h"
#include "formats/summary/tensors/stated.h"

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

/// Sets role and elements of the tensors of packed modules. A module is packed if its companions exist; the
/// configuration only decides what shapes leave open. `roles` has the other tensors' values already.
void count_packed(const Model& model, const StatedPacking& stated, const ParseObject& parse, Roles& roles);

/// The number of bits of an element of a plain type; nothing for a type with blocks.
Number bits_of(const DType& dtype);

}  // namespace weightfs::summary
