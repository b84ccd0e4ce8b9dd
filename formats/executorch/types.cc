#include "formats/executorch/types.h"

#include <array>

namespace weightfs::executorch {
namespace {

constexpr std::array kRows = {
    TypeCode{0, "BYTE", "uint8"},
    TypeCode{1, "CHAR", "int8"},
    TypeCode{2, "SHORT", "int16"},
    TypeCode{3, "INT", "int32"},
    TypeCode{4, "LONG", "int64"},
    TypeCode{5, "HALF", "float16"},
    TypeCode{6, "FLOAT", "float32"},
    TypeCode{7, "DOUBLE", "float64"},
    TypeCode{9, "COMPLEXFLOAT", "complex64"},
    TypeCode{10, "COMPLEXDOUBLE", "complex128"},
    TypeCode{11, "BOOL", "bool"},
    TypeCode{12, "QINT8", "int8"},
    TypeCode{13, "QUINT8", "uint8"},
    TypeCode{14, "QINT32", "int32"},
    TypeCode{15, "BFLOAT16", "bfloat16"},
    TypeCode{16, "QUINT4X2", ""},
    TypeCode{17, "QUINT2X4", ""},
    TypeCode{22, "BITS16", ""},
    TypeCode{23, "FLOAT8E5M2", "float8_e5m2"},
    TypeCode{24, "FLOAT8E4M3FN", "float8_e4m3fn"},
    TypeCode{25, "FLOAT8E5M2FNUZ", "float8_e5m2fnuz"},
    TypeCode{26, "FLOAT8E4M3FNUZ", "float8_e4m3fnuz"},
    TypeCode{27, "UINT16", "uint16"},
    TypeCode{28, "UINT32", "uint32"},
    TypeCode{29, "UINT64", "uint64"},
};

}  // namespace

constinit const TypeCodes<> kScalarTypes(kRows);

}  // namespace weightfs::executorch
