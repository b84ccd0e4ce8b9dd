// Finds the role of each tensor, and the method by which weights are packed.
#pragma once

#include <string>
#include <vector>

#include "formats/model.h"
#include "formats/summary/counts.h"
#include "formats/summary/fields.h"

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
    packed,  ///< compressed-tensors: weight_packed
    scaled,  ///< a weight of 8 bits with scales: fp8, compressed-tensors
    nvfp4,
    mxfp4,
    hqq,
    exl2,
    exl3,
    codebook,  ///< aqlm, vptq, quip: the number of elements is not known
    bitnet,
    flattened,  ///< quanto, torchao
    onnx        ///< MatMulNBits
  };
  Method method = Method::none;  ///< of most elements
  Number bits, group_size;       ///< by the shapes of the tensors
  bool is_fp4 = false;           ///< of bitsandbytes: else NF4
  bool is_float8 = false;        ///< the weight of a scaled module
  bool is_complete = true;       ///< the number of elements of every packed tensor is known
};

struct Roles {
  std::vector<Counted> tensors;
  Packing packing;
  std::vector<std::string> warnings;
};

/// `config`: config.json, or nothing; `quantisation`: the object in it or beside it that describes the packing.
Roles find_roles(const Model& model, const Fields& config, const Fields& quantisation);

/// The last component of a tensor's name, after its last `.` or `/`.
std::string_view last_component(std::string_view name);

/// Whether `component` is one of the components of the name, which `.` and `/` separate.
bool has_component(std::string_view name, std::string_view component);

/// Whether `name` ends with `suffix`, at the begin of a component.
bool ends_with_components(std::string_view name, std::string_view suffix);

/// The number of bits of an element of a plain type; nothing for a type with blocks.
Number bits_of(const DType& dtype);

/// The number of elements; nothing on overflow.
Number elements_of(ShapeView shape);

}  // namespace weightfs::summary
