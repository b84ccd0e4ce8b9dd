#include "formats/summary/tensors/naming.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::summary {
namespace {

using Method = Packing::Method;

struct MethodName {
  Method method;
  std::string_view name;
  bool has_groups = false;  ///< "GPTQ 4-bit g128"
};

// The methods of files that do not state one.
constexpr std::array kMethods = {
    MethodName{Method::gptq, "gptq", true},
    MethodName{Method::awq, "awq", true},
    MethodName{Method::mlx, "mlx", true},
    MethodName{Method::hqq, "hqq", true},
    MethodName{Method::bnb_4bit, "bitsandbytes"},
    MethodName{Method::bnb_8bit, "bitsandbytes"},
    MethodName{Method::packed, "compressed-tensors"},
    MethodName{Method::nvfp4, "nvfp4"},
    MethodName{Method::mxfp4, "mxfp4"},
    MethodName{Method::exl2, "exl2"},
    MethodName{Method::exl3, "exl3"},
    MethodName{Method::bitnet, "bitnet"},
    MethodName{Method::mlc, "mlc"},
};

const MethodName* row_of(Method method) {
  const auto row = std::ranges::find(kMethods, method, &MethodName::method);
  return row == kMethods.end() ? nullptr : row;
}

std::string_view method_name(const Packing& packing) {
  if (packing.method == Method::scaled)
    return packing.is_float8 ? "fp8" : packing.bits == Number(16) ? "int16" : "int8";
  const MethodName* const row = row_of(packing.method);
  return row == nullptr ? std::string_view() : row->name;
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

std::string name_of(const Packing& packing, const Quantisation& known, const Fields& stated, std::string_view code) {
  const MethodName* const row = row_of(packing.method);
  if (row != nullptr && row->has_groups) return with_bits(upper_case(row->name), known);
  switch (packing.method) {
    case Method::mlc:
      if (!code.empty()) return fmt::format("MLC {}", code);
      break;
    case Method::operation:
      return known.bits ? fmt::format("{} {}-bit", packing.operation, *known.bits) : std::string(packing.operation);
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
  const std::string name = known.method.empty() ? "packed" : upper_case(known.method);
  if (known.bits && name == fmt::format("INT{}", *known.bits)) return name;
  return known.bits ? fmt::format("{} {}-bit", name, *known.bits) : name;
}

}  // namespace

std::optional<Quantisation> name_quantisation(const Packing& packing, const Fields& fields,
                                              const StatedPacking& stated) {
  if (packing.method == Method::none) return std::nullopt;
  Quantisation out;
  out.method = stated.method;
  if (packing.method == Method::operation) out.method = lower_case(packing.operation);
  if (out.method.empty()) out.method = method_name(packing);
  out.bits = packing.bits ? packing.bits : stated.bits;
  // A group size of -1 is none: a column is one group. It is no number here, and what the shapes show is not used.
  const MethodName* const row = row_of(packing.method);
  const bool has_groups = (row != nullptr && row->has_groups) || packing.method == Method::packed;
  const Value* const group =
      fields.find("group_size") != nullptr ? fields.find("group_size") : fields.find("q_group_size");
  if (has_groups) out.group_size = group != nullptr ? number_of(*group) : packing.group_size;
  const bool is_shaped = packing.method == Method::mxfp4 || packing.method == Method::nvfp4 ||
                         packing.method == Method::mlc || packing.method == Method::grouped ||
                         packing.method == Method::flattened || packing.method == Method::operation;
  if (is_shaped) out.group_size = packing.group_size;
  out.name = name_of(packing, out, fields, stated.code);
  return out;
}

}  // namespace weightfs::summary
