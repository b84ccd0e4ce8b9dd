#include "formats/executorch/types.h"

#include <algorithm>
#include <array>

namespace weightfs::executorch {
namespace {

struct Row {
  int8_t number;
  std::string_view name;
  std::string_view dtype;  // of the stored numbers; "" for none
};

constexpr std::array kRows = {
    Row{0, "BYTE", "uint8"},
    Row{1, "CHAR", "int8"},
    Row{2, "SHORT", "int16"},
    Row{3, "INT", "int32"},
    Row{4, "LONG", "int64"},
    Row{5, "HALF", "float16"},
    Row{6, "FLOAT", "float32"},
    Row{7, "DOUBLE", "float64"},
    Row{9, "COMPLEXFLOAT", "complex64"},
    Row{10, "COMPLEXDOUBLE", "complex128"},
    Row{11, "BOOL", "bool"},
    Row{12, "QINT8", "int8"},
    Row{13, "QUINT8", "uint8"},
    Row{14, "QINT32", "int32"},
    Row{15, "BFLOAT16", "bfloat16"},
    Row{16, "QUINT4X2", ""},
    Row{17, "QUINT2X4", ""},
    Row{22, "BITS16", ""},
    Row{23, "FLOAT8E5M2", "float8_e5m2"},
    Row{24, "FLOAT8E4M3FN", "float8_e4m3fn"},
    Row{25, "FLOAT8E5M2FNUZ", "float8_e5m2fnuz"},
    Row{26, "FLOAT8E4M3FNUZ", "float8_e4m3fnuz"},
    Row{27, "UINT16", "uint16"},
    Row{28, "UINT32", "uint32"},
    Row{29, "UINT64", "uint64"},
};

}  // namespace

ScalarType scalar_type(int8_t number) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& known) { return known.number == number; });
  if (row == kRows.end()) return {"", &kUnknownDType};
  const DType* const dtype = dtype_named(row->dtype);
  return {row->name, dtype == nullptr ? &kUnknownDType : dtype};
}

}  // namespace weightfs::executorch
