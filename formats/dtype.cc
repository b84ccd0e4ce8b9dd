#include "formats/dtype.h"

#include <algorithm>
#include <array>

namespace weightfs {
namespace {

// An integer that takes a byte in the memory of ml_dtypes, and in TVM's files.
constexpr DType small_integer(std::string_view name, std::string_view npy_descr, uint32_t bits) {
  return {name, 1, 1, npy_descr, false, 0, ByteOrder::little, bits};
}

// NumPy types as NumPy writes them. NumPy has no numbers of the types of ml_dtypes but the small integers, and none of
// ggml's blocks. ggml block sizes: ggml-common.h of ggml 0.21.0.
constexpr std::array kTable = {
    DType{"bool", 1, 1, "|b1", false},
    DType{"int8", 1, 1, "|i1", false},
    DType{"uint8", 1, 1, "|u1", false},
    DType{"int16", 1, 2, "<i2", false},
    DType{"uint16", 1, 2, "<u2", false},
    DType{"int32", 1, 4, "<i4", false},
    DType{"uint32", 1, 4, "<u4", false},
    DType{"int64", 1, 8, "<i8", false},
    DType{"uint64", 1, 8, "<u8", false},
    DType{"float16", 1, 2, "<f2", false},
    DType{"float32", 1, 4, "<f4", false},
    DType{"float64", 1, 8, "<f8", false},
    DType{"complex64", 1, 8, "<c8", false},
    DType{"complex128", 1, 16, "<c16", false},
    DType{"bfloat16", 1, 2, "", false},
    DType{"float8_e4m3", 1, 1, "", false},
    DType{"float8_e4m3b11fnuz", 1, 1, "", false},
    DType{"float8_e4m3fn", 1, 1, "", false},
    DType{"float8_e4m3fnuz", 1, 1, "", false},
    DType{"float8_e5m2", 1, 1, "", false},
    DType{"float8_e5m2fnuz", 1, 1, "", false},
    DType{"float8_e8m0fnu", 1, 1, "", false},
    small_integer("int2", "|i1", 2),
    small_integer("uint2", "|u1", 2),
    small_integer("int4", "|i1", 4),
    small_integer("uint4", "|u1", 4),
    DType{"float4_e2m1fn", 2, 1, "", true},
    DType{"float6_e2m3fn", 4, 3, "", true},
    DType{"float6_e3m2fn", 4, 3, "", true},
    DType{"string", 1, 0, "", false},  // Carton's: as long as its text
    DType{"q4_0", 32, 18, "", false},
    DType{"q4_1", 32, 20, "", false},
    DType{"q5_0", 32, 22, "", false},
    DType{"q5_1", 32, 24, "", false},
    DType{"q8_0", 32, 34, "", false},
    DType{"q8_1", 32, 36, "", false},
    DType{"q2_k", 256, 84, "", false},
    DType{"q3_k", 256, 110, "", false},
    DType{"q4_k", 256, 144, "", false},
    DType{"q5_k", 256, 176, "", false},
    DType{"q6_k", 256, 210, "", false},
    DType{"q8_k", 256, 292, "", false},
    DType{"iq2_xxs", 256, 66, "", false},
    DType{"iq2_xs", 256, 74, "", false},
    DType{"iq3_xxs", 256, 98, "", false},
    DType{"iq1_s", 256, 50, "", false},
    DType{"iq4_nl", 32, 18, "", false},
    DType{"iq3_s", 256, 110, "", false},
    DType{"iq2_s", 256, 82, "", false},
    DType{"iq4_xs", 256, 136, "", false},
    DType{"iq1_m", 256, 56, "", false},
    DType{"tq1_0", 256, 54, "", false},
    DType{"tq2_0", 256, 66, "", false},
    DType{"mxfp4", 32, 17, "", false},
    DType{"nvfp4", 64, 36, "", false},
    DType{"q1_0", 128, 18, "", false},
    DType{"q2_0", 64, 18, "", false},
    // Q4_0 and IQ4_NL with the rows of a matrix interleaved, which ggml put into files in 2024.
    DType{"q4_0_4_4", 32, 18, "", false},
    DType{"q4_0_4_8", 32, 18, "", false},
    DType{"q4_0_8_8", 32, 18, "", false},
    DType{"iq4_nl_4_4", 32, 18, "", false},
    DType{"iq4_nl_4_8", 32, 18, "", false},
    DType{"iq4_nl_8_8", 32, 18, "", false},
};

constexpr DType big_endian_row(std::string_view name, uint32_t bytes, std::string_view npy_descr) {
  return {name, 1, bytes, npy_descr, false, 0, ByteOrder::big};
}

// The types that GGUF may store big-endian, apart from blocks.
constexpr std::array kBigEndian = {
    big_endian_row("int16", 2, ">i2"),   big_endian_row("int32", 4, ">i4"),   big_endian_row("int64", 8, ">i8"),
    big_endian_row("float16", 2, ">f2"), big_endian_row("float32", 4, ">f4"), big_endian_row("float64", 8, ">f8"),
    big_endian_row("bfloat16", 2, ""),
};

// Quantised types; those of mxfp4 and nvfp4 have no numbers of several bytes.
constexpr bool has_numbers_in_blocks(const DType& dtype) {
  return is_quantised(dtype) && dtype.name != "mxfp4" && dtype.name != "nvfp4";
}

constexpr auto kBigEndianBlocks = [] {
  std::array<DType, static_cast<size_t>(std::ranges::count_if(kTable, has_numbers_in_blocks))> rows{};
  std::ranges::copy_if(kTable, rows.begin(), has_numbers_in_blocks);
  for (DType& row : rows) row.order = ByteOrder::big;
  return rows;
}();

constexpr DType kMxfp4OfPairs{"mxfp4", 32, 17, "", false, 0, ByteOrder::pairs};

// Packed elements.
constexpr std::array kPacked = {
    DType{"uint1", 8, 1, "|u1", false, 1}, DType{"int2", 4, 1, "|i1", false, 2},
    DType{"uint2", 4, 1, "|u1", false, 2}, DType{"uint3", 8, 3, "|u1", false, 3},
    DType{"int4", 2, 1, "|i1", false, 4},  DType{"uint4", 2, 1, "|u1", false, 4},
    DType{"uint6", 4, 3, "|u1", false, 6}, DType{"float4_e2m1fn", 2, 1, "", false, 4},
};

// The row of `table` with this name; null if there is none.
template <size_t size>
const DType* row_named(const std::array<DType, size>& table, std::string_view name) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const DType& d) { return d.name == name; });
  return row == table.end() ? nullptr : row;
}

}  // namespace

const DType kUnknownDType{"unknown", 1, 0, "", false};

const DType* dtype_named(std::string_view name) { return row_named(kTable, name); }

const DType* big_endian(const DType* dtype) {
  if (const DType* const row = row_named(kBigEndian, dtype->name)) return row;
  const DType* const blocks = row_named(kBigEndianBlocks, dtype->name);
  return blocks == nullptr ? dtype : blocks;
}

const DType* mxfp4_of_pairs() { return &kMxfp4OfPairs; }

const DType* packed_dtype_named(std::string_view name) { return row_named(kPacked, name); }

}  // namespace weightfs
