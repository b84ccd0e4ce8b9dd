#include "formats/openvino/types.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::openvino {
namespace {

struct ElementType {
  std::string_view name;
  std::string_view dtype;     // of dtype.h; empty if there is none
  bool is_packed = false;     // several elements per byte, the first in the lowest bits
  uint64_t unknown_bits = 0;  // per element of a packed type without a row of dtype.h
};

// element_type.cpp of OpenVINO 2025. u1 and u2 begin with the high bits of a byte, u3 and u6 are split into planes of
// bits, nf4 is an index into a table.
constexpr auto kTypes = std::to_array<ElementType>({
    {"f32", "float32"},
    {"fp32", "float32"},
    {"f16", "float16"},
    {"fp16", "float16"},
    {"bf16", "bfloat16"},
    {"f64", "float64"},
    {"fp64", "float64"},
    {"i8", "int8"},
    {"u8", "uint8"},
    {"i16", "int16"},
    {"u16", "uint16"},
    {"i32", "int32"},
    {"u32", "uint32"},
    {"i64", "int64"},
    {"u64", "uint64"},
    {"boolean", "bool"},
    {"bool", "bool"},
    {"f8e4m3", "float8_e4m3fn"},
    {"f8e5m2", "float8_e5m2"},
    {"f8e8m0", "float8_e8m0fnu"},
    {"i4", "int4", true},
    {"u4", "uint4", true},
    {"f4e2m1", "float4_e2m1fn", true},
    {"string", "string"},
    {"u1", "", true, 1},
    {"bin", "", true, 1},
    {"u2", "", true, 2},
    {"u3", "", true, 3},
    {"u6", "", true, 6},
    {"nf4", "", true, 4},
});

const ElementType* find(std::string_view name) {
  constexpr size_t kLongest = 7;
  if (name.size() > kLongest) return nullptr;
  const auto* const row = std::ranges::find(kTypes, lower_case(name), &ElementType::name);
  return row == kTypes.end() ? nullptr : row;
}

}  // namespace

const DType* dtype_of(std::string_view name) {
  const ElementType* const type = find(name);
  if (type == nullptr || type->dtype.empty()) return &kUnknownDType;
  return type->is_packed ? packed_dtype_named(type->dtype) : dtype_named(type->dtype);
}

std::optional<uint64_t> size_of(std::string_view name, ShapeView shape) {
  const ElementType* const type = find(name);
  if (type == nullptr) return std::nullopt;
  if (type->unknown_bits == 0) return size_in_bytes(*dtype_of(name), shape);
  const auto bits = elements_of(shape, type->unknown_bits);
  if (!bits) return std::nullopt;
  return *bits / 8 + (*bits % 8 == 0 ? 0 : 1);
}

}  // namespace weightfs::openvino
