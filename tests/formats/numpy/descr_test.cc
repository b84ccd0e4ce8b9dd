#include "formats/numpy/descr.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::numpy::descr_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The type as text: dtype, bytes of an element, bytes to swap, whether it has objects.
std::string type_of(std::string_view descr) {
  Budget budget(0);
  Charges charges(budget);
  const auto literal = parse_literal(descr, charges);
  if (!literal) return "not a literal: " + literal.error().message;
  const auto type = element_type(*literal);
  if (!type) return "error: " + type.error().message;
  return fmt::format("{} {} {}{}", type->dtype->name, type->bytes, type->swap, type->has_objects ? " objects" : "");
}

TEST(NumpyDescr, ReadsNumbersInBothByteOrders) {
  EXPECT_EQ(type_of("'|b1'"), "bool 1 0");
  EXPECT_EQ(type_of("'<i2'"), "int16 2 0");
  EXPECT_EQ(type_of("'>u8'"), "uint64 8 8");
  EXPECT_EQ(type_of("'=f2'"), "float16 2 0");
  EXPECT_EQ(type_of("'f8'"), "float64 8 0");
  EXPECT_EQ(type_of("'>i1'"), "int8 1 0");
  EXPECT_EQ(type_of("'>c8'"), "complex64 8 4");
  EXPECT_EQ(type_of("'>c16'"), "complex128 16 8");
}

TEST(NumpyDescr, ReadsAliases) {
  EXPECT_EQ(type_of("'float32'"), "float32 4 0");
  EXPECT_EQ(type_of("'>d'"), "float64 8 8");
  EXPECT_EQ(type_of("'int'"), "int64 8 0");
  EXPECT_EQ(type_of("'b'"), "int8 1 0");
  EXPECT_EQ(type_of("'?'"), "bool 1 0");
}

TEST(NumpyDescr, OtherTypesAreBytesOfTheirWidth) {
  EXPECT_EQ(type_of("'|S5'"), "unknown 5 0");
  EXPECT_EQ(type_of("'>U2'"), "unknown 8 0");
  EXPECT_EQ(type_of("'<V2'"), "unknown 2 0");
  EXPECT_EQ(type_of("'|V0'"), "unknown 0 0");
  EXPECT_EQ(type_of("'<f16'"), "unknown 16 0");
  EXPECT_EQ(type_of("'<M8'"), "unknown 8 0");
  EXPECT_EQ(type_of("'>M8[25s]'"), "unknown 8 0");
  EXPECT_EQ(type_of("'<m8[ns]'"), "unknown 8 0");
  EXPECT_EQ(type_of("'<M8[D/4]'"), "unknown 8 0");
}

TEST(NumpyDescr, AddsTheFieldsOfStructures) {
  EXPECT_EQ(type_of("[('x', '<f4'), ('y', '>i2', (2,)), ('name', '|S5')]"), "unknown 13 0");
  EXPECT_EQ(type_of("[('p', [('q', '<i4'), ('r', '<f2')]), ('s', '<U3')]"), "unknown 18 0");
  EXPECT_EQ(type_of("[(('title', 'name'), '<f4'), ('', '|V3')]"), "unknown 7 0");
  EXPECT_EQ(type_of("[('x', '<f4', 3), ('y', ('<i2', (2, 2)))]"), "unknown 20 0");
  EXPECT_EQ(type_of("[('x', '<f4', (0, 7))]"), "unknown 0 0");
  EXPECT_EQ(type_of("[]"), "unknown 0 0");
}

TEST(NumpyDescr, FindsObjectsAtEveryDepth) {
  for (const char* descr : {"'|O'", "'O8'", "'|O8'", "'object'", "[('a', '|O')]", "[('a', [('b', '<f4'), ('c', 'O')])]",
                            "[('a', '|O', (2,))]", "[('a', ('|O', 2))]"})
    EXPECT_THAT(type_of(descr), HasSubstr(" objects")) << descr;
}

TEST(NumpyDescr, RefusesUnknownTypes) {
  for (const char* descr : {"''", "'<'", "'<i3'", "'<q9'", "'<f4x'", "'<<f4'", "'f04'", "'<f-4'", "'|S-1'", "'|S 5'",
                            "'M8[x]'", "'M8[]'", "'M8[s'", "'M4[s]'", "'<f4,<i4'", "'(2,)f4'", "'datetime'", "'i44'"})
    EXPECT_THAT(type_of(descr), HasSubstr("is not a type of NumPy")) << descr;
  for (const char* descr : {"1", "True", "None", "('<f4', (2,))", "{}", "['<f4']", "[('x',)]", "[(1, '<f4')]",
                            "[['x', '<f4']]", "[('x', '<f4', -1)]", "[('x', '<f4', '2')]", "[('x', '<f4', (True,))]",
                            "[('x', '<f4', 1, 1)]", "[('x', ('<f4',))]", "[(('a', 'b', 'c'), '<f4')]"})
    EXPECT_THAT(type_of(descr), StartsWith("error: descr")) << descr;
}

TEST(NumpyDescr, BoundsSizes) {
  EXPECT_EQ(type_of("'|S2147483647'"), "unknown 2147483647 0");
  for (const char* descr : {"'|S2147483648'", "'|S9223372036854775807'", "'<U536870912'", "'|V99999999999999999999'",
                            "[('a', '|V1073741824'), ('b', '|V1073741824')]", "[('a', '<f8', (65536, 65536))]",
                            "[('a', '<f8', 9223372036854775807)]"})
    EXPECT_THAT(type_of(descr), StartsWith("error: descr")) << descr;
}

}  // namespace
}  // namespace weightfs::numpy::descr_test
