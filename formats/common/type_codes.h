// Tables of the numbers that a format's schema gives to types of elements.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "formats/dtype.h"

namespace weightfs {

/// A type of a schema.
struct TypeCode {
  int32_t code;
  std::string_view name;   ///< in the schema's spelling: "FLOAT16"
  std::string_view dtype;  ///< the name of its row in dtype.h; empty if there is none
  bool is_packed = false;  ///< several elements per byte
};

/// The row of dtype.h; &kUnknownDType if there is none, and for null.
inline const DType* dtype_of(const TypeCode* type) {
  if (type == nullptr || type->dtype.empty()) return &kUnknownDType;
  return type->is_packed ? packed_dtype_named(type->dtype) : dtype_named(type->dtype);
}

/// A table of types: `Row` is TypeCode, or derived from it.
template <class Row = TypeCode>
class TypeCodes {
 public:
  /// The table does not own the rows.
  constexpr explicit TypeCodes(std::span<const Row> rows) : rows_(rows) {}

  /// The type with this code; null if it is unknown.
  const Row* find(int64_t code) const {
    const auto row = std::ranges::find(rows_, code, &Row::code);
    return row == rows_.end() ? nullptr : &*row;
  }

  /// The name of the type with this code, or "unknown(99)".
  std::string name(int64_t code) const {
    const Row* const row = find(code);
    return row == nullptr ? fmt::format("unknown({})", code) : std::string(row->name);
  }

 private:
  std::span<const Row> rows_;
};

}  // namespace weightfs
