#include "formats/pytorch/torch_types.h"

#include <algorithm>
#include <array>
#include <vector>

namespace weightfs::pytorch {
namespace {

TorchType type(std::string_view name, std::string_view storage, std::string_view dtype) {
  const DType& row = *dtype_named(dtype);
  const bool complex = dtype.starts_with("complex");
  return {name, storage, &row, row, row.block_bytes / (complex ? 2 : 1)};
}

// A type with several elements per byte.
TorchType packed(std::string_view name, std::string_view storage, std::string_view dtype) {
  const DType& row = *packed_dtype_named(dtype);
  return {name, storage, &row, row, 1};
}

// A type whose elements are shown as bytes: one without a row of its own, or whose numbers torch does not define.
TorchType opaque(std::string_view name, uint32_t size, uint32_t swapped) {
  return {name, "", &kUnknownDType, DType{name, 1, size, "", false}, swapped};
}

// An element of these takes a byte: a program puts into it what it wants, often two numbers.
constexpr auto kSmallIntegers =
    std::to_array<std::string_view>({"int1", "int2", "int3", "int4", "int5", "int6", "int7", "uint1", "uint2", "uint3",
                                     "uint4", "uint5", "uint6", "uint7"});

// c10/core/ScalarType.h. An element of float4_e2m1fn_x2 is a pair.
std::vector<TorchType> make_table() {
  std::vector<TorchType> all = {
      type("float64", "Double", "float64"),
      type("float32", "Float", "float32"),
      type("float16", "Half", "float16"),
      type("bfloat16", "BFloat16", "bfloat16"),
      type("int64", "Long", "int64"),
      type("int32", "Int", "int32"),
      type("int16", "Short", "int16"),
      type("int8", "Char", "int8"),
      type("uint8", "Byte", "uint8"),
      type("bool", "Bool", "bool"),
      type("complex64", "ComplexFloat", "complex64"),
      type("complex128", "ComplexDouble", "complex128"),
      type("qint8", "QInt8", "int8"),
      type("quint8", "QUInt8", "uint8"),
      type("qint32", "QInt32", "int32"),
      packed("quint4x2", "QUInt4x2", "uint4"),
      packed("quint2x4", "QUInt2x4", "uint2"),
      type("uint16", "", "uint16"),
      type("uint32", "", "uint32"),
      type("uint64", "", "uint64"),
      type("float8_e4m3fn", "", "float8_e4m3fn"),
      type("float8_e5m2", "", "float8_e5m2"),
      type("float8_e4m3fnuz", "", "float8_e4m3fnuz"),
      type("float8_e5m2fnuz", "", "float8_e5m2fnuz"),
      type("float8_e8m0fnu", "", "float8_e8m0fnu"),
      type("float4_e2m1fn_x2", "", "uint8"),
      opaque("complex32", 4, 2),
      opaque("bits8", 1, 1),
      opaque("bits16", 2, 2),
      opaque("bits1x8", 1, 1),
      opaque("bits2x4", 1, 1),
      opaque("bits4x2", 1, 1),
  };
  for (const std::string_view name : kSmallIntegers) all.push_back(opaque(name, 1, 1));
  return all;
}

const std::vector<TorchType>& table() {
  static const std::vector<TorchType> kTable = make_table();
  return kTable;
}

constexpr std::string_view kTorch = "torch.";
constexpr std::string_view kStorage = "Storage";

// The last component of "torch.FloatStorage", "torch.cuda.FloatStorage", "torch.storage._UntypedStorage".
std::string_view class_name(std::string_view global) {
  if (!global.starts_with(kTorch) || !global.ends_with(kStorage)) return {};
  const std::string_view path = global.substr(kTorch.size());
  if (std::count(path.begin(), path.end(), '.') > 1) return {};
  const std::string_view name = path.substr(path.rfind('.') + 1);
  return name.substr(0, name.size() - kStorage.size());
}

}  // namespace

const TorchType* type_of_dtype(std::string_view global) {
  if (!global.starts_with(kTorch)) return nullptr;
  const auto row = std::find_if(table().begin(), table().end(),
                                [&](const TorchType& t) { return t.name == global.substr(kTorch.size()); });
  return row == table().end() ? nullptr : &*row;
}

const TorchType* type_of_storage(std::string_view global) {
  const std::string_view name = class_name(global);
  const auto row = std::find_if(table().begin(), table().end(),
                                [&](const TorchType& t) { return !name.empty() && t.storage == name; });
  return row == table().end() ? nullptr : &*row;
}

bool is_untyped_storage(std::string_view global) {
  const std::string_view name = class_name(global);
  return name == "Untyped" || name == "_Untyped";
}

}  // namespace weightfs::pytorch
