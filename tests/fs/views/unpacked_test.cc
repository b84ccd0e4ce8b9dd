#include <gtest/gtest.h>

#include "formats/model.h"
#include "fs/views/converted.h"
#include "fs/views/view.h"

namespace weightfs::unpacked_test {
namespace {

std::string values_of(std::string_view dtype, std::string packed, uint64_t elements) {
  const SourcePtr source = views::unpacked(in_memory(std::move(packed)), *packed_dtype_named(dtype), elements);
  return read_text(*source, 0, source->size()).value();
}

TEST(Unpacked, FirstElementIsInLowestBits) {
  EXPECT_EQ(values_of("uint4", "\x21\x43", 4), "\x01\x02\x03\x04");
  EXPECT_EQ(values_of("uint2", std::string(1, '\xE4'), 4), std::string("\x00\x01\x02\x03", 4));
  EXPECT_EQ(values_of("uint1", std::string(1, '\x05'), 5), std::string("\x01\x00\x01\x00\x00", 5));
}

TEST(Unpacked, ExtendsSignOfIntegers) {
  EXPECT_EQ(values_of("int4", "\xF8\x17", 4), "\xF8\xFF\x07\x01");
  EXPECT_EQ(values_of("int2", std::string(1, '\x1E'), 3), "\xFE\xFF\x01");
}

TEST(Unpacked, JoinsElementsThatSpanTwoBytes) {
  // 1, 2, 3, 4, 5, 6, 7, 0 in three bits each, and 1, 2, 3, 62 in six.
  EXPECT_EQ(values_of("uint3", std::string("\xD1\x58\x1F", 3), 8), std::string("\x01\x02\x03\x04\x05\x06\x07\x00", 8));
  EXPECT_EQ(values_of("uint6", "\x81\x30\xF8", 4), "\x01\x02\x03\x3E");
}

TEST(Unpacked, LastByteMayBeHalfUsed) { EXPECT_EQ(values_of("uint4", "\x21\x03", 3), "\x01\x02\x03"); }

TEST(Unpacked, EveryRangeHasTheSameElements) {
  std::string packed;
  for (int i = 0; i < 9000; ++i) packed += static_cast<char>(i * 37 + i / 256);
  const SourcePtr source = views::unpacked(in_memory(packed), *packed_dtype_named("uint3"), 23'999);
  const std::string all = read_text(*source, 0, source->size()).value();
  ASSERT_EQ(all.size(), 23'999U);
  for (const uint64_t begin : {0U, 1U, 7U, 8U, 8191U, 8192U, 8193U, 23'990U})
    for (const uint64_t length : {0U, 1U, 9U, 8192U, 8193U}) {
      std::string part(length, '\0');
      const auto got = source->read(begin, std::as_writable_bytes(std::span(part)));
      ASSERT_TRUE(got.has_value());
      EXPECT_EQ(part.substr(0, *got), all.substr(begin, length)) << begin << ", " << length;
    }
}

TEST(Unpacked, NpyViewOfPackedTensorHasOneBytePerElement) {
  Model model;
  Tensor tensor;
  tensor.name = "w";
  tensor.dtype = packed_dtype_named("int4");
  tensor.shape = {3, 1};
  tensor.source = slice(in_memory("\x21\x0F"), 0, 2).value();
  model.tensors.push_back(tensor);
  const views::View& npy = *views::all()[1];
  const SourcePtr file = npy.open(model, 0).value();
  const std::string text = read_text(*file, 0, file->size()).value();
  EXPECT_EQ(npy.size(model, 0), file->size());
  EXPECT_NE(text.find("'descr': '|i1'"), text.npos);
  EXPECT_NE(text.find("'shape': (3, 1)"), text.npos);
  EXPECT_EQ(text.substr(text.size() - 3), "\x01\x02\xFF");
}

}  // namespace
}  // namespace weightfs::unpacked_test
