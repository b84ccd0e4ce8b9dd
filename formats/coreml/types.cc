#include "formats/coreml/types.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace weightfs::coreml {
namespace {

constexpr std::array kTypes = {
    ElementType{1, "BOOL", "bool", false, 0},
    ElementType{10, "FLOAT16", "float16", false, 1},
    ElementType{11, "FLOAT32", "float32", false, 2},
    ElementType{12, "FLOAT64", "float64", false, 0},
    ElementType{13, "BFLOAT16", "bfloat16", false, 5},
    ElementType{21, "INT8", "int8", false, 4},
    ElementType{22, "INT16", "int16", false, 6},
    ElementType{23, "INT32", "int32", false, 14},
    ElementType{24, "INT64", "int64", false, 0},
    ElementType{25, "INT4", "int4", true, 8},
    ElementType{31, "UINT8", "uint8", false, 3},
    ElementType{32, "UINT16", "uint16", false, 7},
    ElementType{33, "UINT32", "uint32", false, 15},
    ElementType{34, "UINT64", "uint64", false, 0},
    ElementType{35, "UINT4", "uint4", true, 11},
    ElementType{36, "UINT2", "uint2", true, 10},
    ElementType{37, "UINT1", "uint1", true, 9},
    ElementType{38, "UINT6", "uint6", true, 13},
    ElementType{39, "UINT3", "uint3", true, 12},
    ElementType{40, "FLOAT8E4M3FN", "float8_e4m3fn", false, 16},
    ElementType{41, "FLOAT8E5M2", "float8_e5m2", false, 17},
};

}  // namespace

const ElementType* find_type(int32_t id) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const ElementType& type) { return type.id == id; });
  return row == kTypes.end() ? nullptr : row;
}

const DType* dtype_of(const ElementType& type) {
  return type.packed ? packed_dtype_named(type.dtype) : dtype_named(type.dtype);
}

std::string type_name(int32_t id) {
  const ElementType* const type = find_type(id);
  return type == nullptr ? fmt::format("unknown({})", id) : std::string(type->name);
}

}  // namespace weightfs::coreml
