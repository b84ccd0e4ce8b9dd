#include "formats/onnx/types.h"

#include <array>

#include "formats/onnx/fields.h"

namespace weightfs::onnx {
namespace {

constexpr auto kF = WireType::fixed32;
constexpr auto kD = WireType::fixed64;
constexpr auto kV = WireType::varint;

constexpr std::array kTypes = {
    ElementType{{1, "FLOAT", "float32"}, tensor::kFloatData, kF, 4},
    ElementType{{2, "UINT8", "uint8"}, tensor::kInt32Data, kV, 1},
    ElementType{{3, "INT8", "int8"}, tensor::kInt32Data, kV, 1},
    ElementType{{4, "UINT16", "uint16"}, tensor::kInt32Data, kV, 2},
    ElementType{{5, "INT16", "int16"}, tensor::kInt32Data, kV, 2},
    ElementType{{6, "INT32", "int32"}, tensor::kInt32Data, kV, 4},
    ElementType{{7, "INT64", "int64"}, tensor::kInt64Data, kV, 8},
    ElementType{{kStringType, "STRING", "string"}, 0, kV, 0},
    ElementType{{9, "BOOL", "bool"}, tensor::kInt32Data, kV, 1},
    ElementType{{10, "FLOAT16", "float16"}, tensor::kInt32Data, kV, 2},
    ElementType{{11, "DOUBLE", "float64"}, tensor::kDoubleData, kD, 8},
    ElementType{{12, "UINT32", "uint32"}, tensor::kUint64Data, kV, 4},
    ElementType{{13, "UINT64", "uint64"}, tensor::kUint64Data, kV, 8},
    ElementType{{14, "COMPLEX64", "complex64"}, tensor::kFloatData, kF, 4},
    ElementType{{15, "COMPLEX128", "complex128"}, tensor::kDoubleData, kD, 8},
    ElementType{{16, "BFLOAT16", "bfloat16"}, tensor::kInt32Data, kV, 2},
    ElementType{{17, "FLOAT8E4M3FN", "float8_e4m3fn"}, tensor::kInt32Data, kV, 1},
    ElementType{{18, "FLOAT8E4M3FNUZ", "float8_e4m3fnuz"}, tensor::kInt32Data, kV, 1},
    ElementType{{19, "FLOAT8E5M2", "float8_e5m2"}, tensor::kInt32Data, kV, 1},
    ElementType{{20, "FLOAT8E5M2FNUZ", "float8_e5m2fnuz"}, tensor::kInt32Data, kV, 1},
    ElementType{{21, "UINT4", "uint4", true}, tensor::kInt32Data, kV, 1},
    ElementType{{22, "INT4", "int4", true}, tensor::kInt32Data, kV, 1},
    ElementType{{23, "FLOAT4E2M1", "float4_e2m1fn", true}, tensor::kInt32Data, kV, 1},
    ElementType{{24, "FLOAT8E8M0", "float8_e8m0fnu"}, tensor::kInt32Data, kV, 1},
    ElementType{{25, "UINT2", "uint2", true}, tensor::kInt32Data, kV, 1},
    ElementType{{26, "INT2", "int2", true}, tensor::kInt32Data, kV, 1},
};

}  // namespace

constinit const TypeCodes<ElementType> kElementTypes(kTypes);

}  // namespace weightfs::onnx
