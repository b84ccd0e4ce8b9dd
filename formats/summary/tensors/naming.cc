#include "formats/summary/tensors/naming.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs::summary {
namespace {

using Method = Packing::Method;

// The method of a file that does not state one.
std::string_view method_name(const Packing& packing) {
  switch (packing.method) {
    case Method::gptq:
      return "gptq";
    case Method::awq:
      return "awq";
    case Method::bnb_4bit:
    case Method::bnb_8bit:
      return "bitsandbytes";
    case Method::mlx:
      return "mlx";
    case Method::packed:
      return "compressed-tensors";
    case Method::scaled:
      return packing.is_float8 ? "fp8" : "int8";
    case Method::nvfp4:
      return "nvfp4";
    case Method::mxfp4:
      return "mxfp4";
    case Method::hqq:
      return "hqq";
    case Method::exl2:
      return "exl2";
    case Method::exl3:
      return "exl3";
    case Method::bitnet:
      return "bitnet";
    case Method::onnx:
      return "matmulnbits";
    case Method::none:
    case Method::codebook:
    case Method::flattened:
      break;
  }
  return "";
}

// "GPTQ 4-bit g128"
std::string with_bits(std::string_view method, const Quantisation& known) {
  std::string out(method);
  if (known.bits) out += fmt::format(" {}-bit", *known.bits);
  if (known.group_size) out += fmt::format(" g{}", *known.group_size);
  return out;
}

// "W4A16 g128": the bits of weights and of activations, which are 16 if nothing is stated.
std::string name_compressed(const Quantisation& known, const Packing& packing, const Fields& stated) {
  if (packing.is_float8) return "compressed-tensors FP8";
  Number activations;
  if (const Fields groups = stated.object({"config_groups"}))
    for (const auto& [name, value] : *groups.map()) {
      activations = groups.object({name}).object({"input_activations"}).number({"num_bits"});
      break;
    }
  std::string out = fmt::format("compressed-tensors W{}A{}", known.bits.value_or(8), activations.value_or(16));
  if (known.group_size) out += fmt::format(" g{}", *known.group_size);
  return out;
}

std::string name_fp8(const Fields& stated) {
  const List* const block = stated.list("weight_block_size");
  if (block == nullptr || block->size() != 2) return "FP8 E4M3";
  const Number rows = number_of(block->front());
  const Number columns = number_of(block->back());
  return rows && columns ? fmt::format("FP8 E4M3 {}x{}", *rows, *columns) : "FP8 E4M3";
}

std::string name_of(const Packing& packing, const Quantisation& known, const Fields& stated) {
  switch (packing.method) {
    case Method::gptq:
      return with_bits("GPTQ", known);
    case Method::awq:
      return with_bits("AWQ", known);
    case Method::mlx:
      return with_bits("MLX", known);
    case Method::hqq:
      return with_bits("HQQ", known);
    case Method::bnb_4bit:
      return packing.is_fp4 ? "bitsandbytes FP4" : "bitsandbytes NF4";
    case Method::bnb_8bit:
      return "bitsandbytes INT8";
    case Method::nvfp4:
      return "NVFP4 g16";
    case Method::mxfp4:
      return "MXFP4";
    case Method::packed:
      return name_compressed(known, packing, stated);
    case Method::scaled:
      if (known.method == "compressed-tensors") return name_compressed(known, packing, stated);
      if (packing.is_float8) return name_fp8(stated);
      break;
    default:
      break;
  }
  std::string name = upper_case(known.method);
  return known.bits ? fmt::format("{} {}-bit", name, *known.bits) : name;
}

}  // namespace

std::optional<Quantisation> name_quantisation(const Packing& packing, const Fields& stated) {
  if (packing.method == Method::none) return std::nullopt;
  Quantisation out;
  out.method = lower_case(stated.text({"quant_method"}));
  if (out.method.empty()) out.method = method_name(packing);
  out.bits = packing.bits;
  if (!out.bits) out.bits = stated.number({"bits", "w_bit", "nbits", "num_bits"});
  // A group size of -1 is none: a column is one group. It is no number here, and what the shapes show is not used.
  const bool has_groups = packing.method == Method::gptq || packing.method == Method::awq ||
                          packing.method == Method::mlx || packing.method == Method::hqq ||
                          packing.method == Method::packed;
  const Value* const group =
      stated.find("group_size") != nullptr ? stated.find("group_size") : stated.find("q_group_size");
  if (has_groups) out.group_size = group != nullptr ? number_of(*group) : packing.group_size;
  if (packing.method == Method::mxfp4 || packing.method == Method::nvfp4) out.group_size = packing.group_size;
  out.name = name_of(packing, out, stated);
  return out;
}

}  // namespace weightfs::summary
