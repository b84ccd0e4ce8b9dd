#include "formats/tensorflow/types.h"

#include <array>

#include "formats/tensorflow/fields.h"

namespace weightfs::tensorflow {
namespace {

constexpr auto kF = WireType::fixed32;
constexpr auto kD = WireType::fixed64;
constexpr auto kV = WireType::varint;
constexpr auto kB = WireType::bytes;

constexpr uint64_t kReference = 100;

constexpr std::array kTypes = {
    ElementType{{1, "DT_FLOAT", "float32"}, tensor::kFloat, kF, 4},
    ElementType{{2, "DT_DOUBLE", "float64"}, tensor::kDouble, kD, 8},
    ElementType{{3, "DT_INT32", "int32"}, tensor::kInt, kV, 4},
    ElementType{{4, "DT_UINT8", "uint8"}, tensor::kInt, kV, 1},
    ElementType{{5, "DT_INT16", "int16"}, tensor::kInt, kV, 2},
    ElementType{{6, "DT_INT8", "int8"}, tensor::kInt, kV, 1},
    ElementType{{7, "DT_STRING", "string"}, 0, kB, 0},
    ElementType{{8, "DT_COMPLEX64", "complex64"}, tensor::kComplex64, kF, 4},
    ElementType{{9, "DT_INT64", "int64"}, tensor::kInt64, kV, 8},
    ElementType{{10, "DT_BOOL", "bool"}, tensor::kBool, kV, 1},
    ElementType{{11, "DT_QINT8", "int8"}, tensor::kInt, kV, 1},
    ElementType{{12, "DT_QUINT8", "uint8"}, tensor::kInt, kV, 1},
    ElementType{{13, "DT_QINT32", "int32"}, tensor::kInt, kV, 4},
    ElementType{{14, "DT_BFLOAT16", "bfloat16"}, tensor::kHalf, kV, 2},
    ElementType{{15, "DT_QINT16", "int16"}, tensor::kInt, kV, 2},
    ElementType{{16, "DT_QUINT16", "uint16"}, tensor::kInt, kV, 2},
    ElementType{{17, "DT_UINT16", "uint16"}, tensor::kInt, kV, 2},
    ElementType{{18, "DT_COMPLEX128", "complex128"}, tensor::kComplex128, kD, 8},
    ElementType{{19, "DT_HALF", "float16"}, tensor::kHalf, kV, 2},
    ElementType{{20, "DT_RESOURCE", ""}, 0, kB, 0},
    ElementType{{21, "DT_VARIANT", ""}, 0, kB, 0},
    ElementType{{22, "DT_UINT32", "uint32"}, tensor::kUint32, kV, 4},
    ElementType{{23, "DT_UINT64", "uint64"}, tensor::kUint64, kV, 8},
    ElementType{{24, "DT_FLOAT8_E5M2", "float8_e5m2"}, tensor::kFloat8, kB, 1},
    ElementType{{25, "DT_FLOAT8_E4M3FN", "float8_e4m3fn"}, tensor::kFloat8, kB, 1},
    ElementType{{26, "DT_FLOAT8_E4M3FNUZ", "float8_e4m3fnuz"}, tensor::kFloat8, kB, 1},
    ElementType{{27, "DT_FLOAT8_E4M3B11FNUZ", "float8_e4m3b11fnuz"}, tensor::kFloat8, kB, 1},
    ElementType{{28, "DT_FLOAT8_E5M2FNUZ", "float8_e5m2fnuz"}, tensor::kFloat8, kB, 1},
    ElementType{{29, "DT_INT4", "int4"}, tensor::kInt, kV, 1},
    ElementType{{30, "DT_UINT4", "uint4"}, tensor::kInt, kV, 1},
    ElementType{{31, "DT_INT2", "int2"}, tensor::kInt, kV, 1},
    ElementType{{32, "DT_UINT2", "uint2"}, tensor::kInt, kV, 1},
};
constexpr TypeCodes<ElementType> kElementTypes(kTypes);

}  // namespace

uint32_t ElementType::swapped_bytes() const {
  const uint32_t bytes = wire == kB || dtype.empty() ? 0 : width;
  return bytes > 1 ? bytes : 0;
}

const ElementType* find_type(uint64_t number) {
  const uint64_t code = number > kReference ? number - kReference : number;
  return code > INT32_MAX ? nullptr : kElementTypes.find(static_cast<int64_t>(code));
}

std::string type_name(uint64_t number) {
  const ElementType* const type = find_type(number);
  return type == nullptr ? fmt::format("unknown({})", static_cast<int32_t>(number)) : std::string(type->name);
}

std::string dtype_name(uint64_t number) {
  const ElementType* const type = find_type(number);
  return type == nullptr || type->dtype.empty() ? type_name(number) : std::string(type->dtype);
}

}  // namespace weightfs::tensorflow
