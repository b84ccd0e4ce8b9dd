#include "fs/views/npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "tests/support/models.h"

namespace weightfs::views_npy_test {
namespace {

using namespace views;

std::string dict(const TensorView& tensor) {
  const std::string header = npy_header(tensor);
  EXPECT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<uint8_t>(header[8]) + 256U * static_cast<uint8_t>(header[9]), header.size() - 10);
  EXPECT_EQ(header.back(), '\n');
  const std::string text = header.substr(10);
  return text.substr(0, text.find_last_not_of(" \n") + 1);
}

// numpy.lib.format, "Format Version 1.0".
TEST(Npy, HeaderIsThatOfNumpy) {
  EXPECT_EQ(dict(make_tensor("w", "float32", {2, 3})), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_EQ(dict(make_tensor("w", "int64", {5})), "{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }");
  EXPECT_EQ(dict(make_tensor("w", "bool", {})), "{'descr': '|b1', 'fortran_order': False, 'shape': (), }");
}

// semantics 4.3
TEST(Npy, NumbersOfTypesUnknownToNumpyAreFloat32) {
  for (const char* const dtype :
       {"bfloat16", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
        "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"}) {
    const Tensor tensor = make_tensor("w", dtype, {3, 4});
    EXPECT_EQ(dict(tensor), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }") << dtype;
    EXPECT_EQ(npy_type(tensor), "float32") << dtype;
    EXPECT_FALSE(has_stored_npy(tensor)) << dtype;
  }
  Tensor packed = make_tensor("w", "uint8", {2});
  packed.dtype = packed_dtype_named("float4_e2m1fn");
  packed.shape = {3};
  EXPECT_EQ(npy_type(packed), "float32");
  Tensor big = make_tensor("w", "bfloat16", {2});
  big.dtype = big_endian(big.dtype);
  EXPECT_EQ(npy_type(big), "float32");
}

TEST(Npy, SmallIntegersTakeAByteEach) {
  for (const auto& [dtype, type] :
       {std::pair{"int2", "int8"}, {"uint2", "uint8"}, {"int4", "int8"}, {"uint4", "uint8"}}) {
    EXPECT_EQ(npy_type(make_tensor("w", dtype, {3})), type);
    Tensor packed = make_tensor("w", "uint8", {2});
    packed.dtype = packed_dtype_named(dtype);
    packed.shape = {3};
    EXPECT_EQ(npy_type(packed), type);
    EXPECT_FALSE(has_stored_npy(packed));
  }
  EXPECT_TRUE(has_stored_npy(make_tensor("w", "int8", {3})));
  EXPECT_TRUE(has_stored_npy(make_tensor("w", "complex64", {3})));
}

// semantics 4.4
TEST(Npy, IsOmittedIfNumpyCannotReadIt) {
  EXPECT_FALSE(has_npy(make_tensor("w", "q8_1", {32})));
  EXPECT_FALSE(has_npy(make_tensor("w", "q4_0", [] {
    Shape shape(32, 1);
    shape.push_back(32);
    return shape;
  }())));
  EXPECT_TRUE(has_npy(make_tensor("w", "uint8", Shape(32, 1))));
  EXPECT_FALSE(has_npy(make_tensor("w", "uint8", Shape(33, 1))));
  Tensor refused = make_tensor("w", "float32", {1});
  refused.source = Slice();
  EXPECT_FALSE(has_npy(refused));
}

// String arrays: header and elements.
class StringNpy : public testing::Test {
 protected:
  using Texts = std::vector<std::string>;

  static SourcePtr array(const Shape& shape, Texts texts) {
    return string_npy(shape, std::make_shared<const Texts>(std::move(texts))).value();
  }
  static std::string whole(const Source& source) { return read_text(source, 0, source.size()).value(); }

  // The bytes after the header, which is checked.
  static std::string elements(const Shape& shape, Texts texts, const std::string& dict) {
    const std::string bytes = whole(*array(shape, std::move(texts)));
    EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const size_t header = 10 + static_cast<uint8_t>(bytes[8]) + 256U * static_cast<uint8_t>(bytes[9]);
    EXPECT_EQ(header % 64, 0U);
    EXPECT_EQ(bytes.substr(10, dict.size()), dict);
    return bytes.substr(header);
  }

  // Strings of characters below U+0080.
  static std::string utf32(std::string_view ascii) {
    std::string out;
    for (const char c : ascii) out += {c, '\0', '\0', '\0'};
    return out;
  }
};

// numpy.lib.format: "<U" and the length in code points; UTF-32, shorter strings padded with zeros.
TEST_F(StringNpy, ElementsHaveLengthOfLongestString) {
  EXPECT_EQ(elements({2, 2}, {"a", "bcd", "", "ef"}, "{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2), }"),
            utf32(std::string_view("a\0\0bcd\0\0\0ef\0", 12)));
}

TEST_F(StringNpy, LengthIsInCharactersNotBytes) {
  using namespace std::string_literals;
  EXPECT_EQ(elements({2}, {"\u00e9\u4e2d", "\U0001F600"}, "{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }"),
            "\xE9\0\0\0\x2D\x4E\0\0\x00\xF6\x01\0\0\0\0\0"s);
  EXPECT_EQ(elements({1}, {"\U0010FFFF"}, "{'descr': '<U1', "), "\xFF\xFF\x10\0"s);
  EXPECT_EQ(elements({1}, {"a\0b"s}, "{'descr': '<U3', "), utf32("a\0b"s));
}

// NumPy has no strings of length 0.
TEST_F(StringNpy, EmptyStringsHaveOneCharacter) {
  EXPECT_EQ(elements({2}, {"", ""}, "{'descr': '<U1', 'fortran_order': False, 'shape': (2,), }"), std::string(8, '\0'));
}

TEST_F(StringNpy, EmptyArrayIsOnlyHeader) {
  EXPECT_EQ(elements({0}, {}, "{'descr': '<U1', 'fortran_order': False, 'shape': (0,), }"), "");
  EXPECT_EQ(elements({3, 0, 2}, {}, "{'descr': '<U1', 'fortran_order': False, 'shape': (3, 0, 2), }"), "");
}

TEST_F(StringNpy, ScalarHasNoDimensions) {
  EXPECT_EQ(elements({}, {"ab"}, "{'descr': '<U2', 'fortran_order': False, 'shape': (), }"), utf32("ab"));
}

TEST_F(StringNpy, ReadsAreEqualAtAnyOffset) {
  const SourcePtr source = array({5}, {"abc", "", "\U0001F600x", "d", "\u00e9"});
  const std::string all = whole(*source);
  for (size_t offset = 0; offset <= all.size() + 1; ++offset)
    for (const size_t length : {1U, 3U, 7U, 13U, 1000U}) {
      std::string part(length, '?');
      part.resize(source->read(offset, std::as_writable_bytes(std::span(part))).value());
      EXPECT_EQ(part, all.substr(std::min(offset, all.size()), length)) << length << " bytes at " << offset;
    }
}

// One long text makes all elements long.
TEST_F(StringNpy, SizeIsBounded) {
  constexpr size_t kLong = size_t{1} << 20;  // characters: elements of 4 MiB
  constexpr size_t kFitting = kMaxStringArrayBytes / (4 * kLong);
  Texts texts(kFitting);
  texts[0] = std::string(kLong, 'x');
  const SourcePtr largest = array({kFitting}, texts);
  EXPECT_EQ(largest->size() - largest->size() % kMaxStringArrayBytes, kMaxStringArrayBytes);
  EXPECT_EQ(read_text(*largest, largest->size() - 4, 4), std::string(4, '\0'));
  texts.emplace_back();
  const auto larger = string_npy(Shape{kFitting + 1}, std::make_shared<const Texts>(std::move(texts)));
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code, Code::unsupported);
  EXPECT_EQ(larger.error().message, "array of 65 strings of up to 1048576 characters is larger than 256.0 MiB");
}

// A tensor is a string tensor if the model has its strings; the type is not enough.
TEST_F(StringNpy, StringTensorsHaveNpy) {
  Model model;
  for (const Shape& shape : {Shape{}, Shape(32, 1), Shape(33, 1)}) {
    Tensor tensor = make_tensor("s", "uint8", shape);
    tensor.dtype = dtype_named("string");
    EXPECT_FALSE(has_npy(tensor));
    EXPECT_FALSE(has_string_npy(model, model.tensors.size()));
    model.tensors.push_back(tensor);
  }
  for (size_t i = 0; i < 3; ++i)
    model.per_tensor.edit().strings.emplace(i,
                                            Later<std::shared_ptr<const Texts>>::of(std::make_shared<const Texts>(1)));
  EXPECT_TRUE(has_string_npy(model, 0));
  EXPECT_TRUE(has_string_npy(model, 1));
  EXPECT_FALSE(has_string_npy(model, 2));
}

}  // namespace
}  // namespace weightfs::views_npy_test
