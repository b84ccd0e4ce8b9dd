#include <gmock/gmock.h>

#include "formats/completeness.h"
#include "tests/support/hdf5_reading.h"
#include "tests/support/reading.h"

namespace weightfs::test::attributes_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using B = Hdf5Builder;

Model with_attributes(const Hdf5Messages& attributes) {
  B b;
  return read_h5_well(b.build(b.group({}, attributes)));
}

std::string value_of(const Hdf5Message& attribute) { return metadata_of(with_attributes({attribute}), "a"); }

TEST(Hdf5Attributes, NumbersAndListsAreValues) {
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::integer(2), {}, "\xFE\xFF")), "-2");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::integer(2, false, true), {}, "\1\2")), "258");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::f16(), {2}, le(0x3E00, 2) + le(0xC000, 2))), "[1.5,-2.0]");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::enumeration({"FALSE", "TRUE"}), {}, "\1")), "true");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::integer(1), {2, 2}, "\1\2\3\4")), "[[1,2],[3,4]]");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::integer(1), {0}, "")), "[]");
}

TEST(Hdf5Attributes, PaddingOfTextsIsDropped) {
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::text(4, 0), {}, std::string("x\0yz", 4))), "\"x\"");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::text(4, 1), {}, std::string("x\0y\0", 4))), "\"x\\u0000y\"");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::text(4, 2), {2}, "x y z   ")), "[\"x y\",\"z\"]");
}

TEST(Hdf5Attributes, LongListsAndOtherTypesAreSummaries) {
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::integer(1), {2000}, std::string(2000, 'x'))),
            R"({"type":"H5T_STD_I8LE","count":2000})");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::reference(), {}, "01234567")),
            R"({"type":"H5T_REFERENCE","count":1})");
}

TEST(Hdf5Attributes, TextsOfVariableLengthAreInTheGlobalHeap) {
  B b;
  const uint64_t heap = b.global_heap({"one", "three"});
  const std::string bytes = B::variable(3, heap, 1) + B::variable(0, 0, 0) + B::variable(5, heap, 2);
  const Model model = read_h5_well(b.build(b.group({}, {B::attribute("a", Hdf5Type::variable_text(), {3}, bytes)})));
  EXPECT_EQ(to_json_line(*model.metadata.find("a")), R"(["one","","three"])");
}

TEST(Hdf5Attributes, DamagedHeapLeavesOutTheAttribute) {
  B b;
  const uint64_t heap = b.global_heap({"one"});
  const auto missing = B::attribute("a", Hdf5Type::variable_text(), {}, B::variable(3, heap, 7));
  const auto good = B::attribute("b", Hdf5Type::integer(1), {}, "\1");
  const Model model = read_h5_well(b.build(b.group({}, {missing, good})));
  EXPECT_EQ(model.metadata.find("a"), nullptr);
  EXPECT_NE(model.metadata.find("b"), nullptr);
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("attribute \"a\" of \"/\": no object 7 in the global heap")));
}

TEST(Hdf5Attributes, DenseAttributesAreRead) {
  B b(3);
  std::vector<std::string> ids, records;
  const uint64_t heap = b.fractal_heap(
      {B::attribute("a", Hdf5Type::integer(1), {}, "\1").data, B::attribute("b", Hdf5Type::integer(1), {}, "\2").data},
      8, ids);
  for (const std::string& id : ids) records.push_back(id + std::string(9, '\0'));
  const uint64_t tree = b.record_tree(8, records);
  const Model model = read_h5_well(b.build(b.group({}, {{21, std::string(2, '\0') + le(heap, 8) + le(tree, 8)}})));
  EXPECT_EQ(to_json_line(*model.metadata.find("a")), "1");
  EXPECT_EQ(to_json_line(*model.metadata.find("b")), "2");
  EXPECT_THAT(model.warnings, IsEmpty());
}

// A text that is not valid JSON is not shown as JSON, one that is not UTF-8 is made so.
TEST(Hdf5Attributes, LongTextThatIsNotJsonIsAText) {
  const std::string text = "{" + std::string(2000, '\xFF');
  const Model model = with_attributes({B::text_attribute("a", text)});
  ASSERT_EQ(model.documents.size(), 1U);
  EXPECT_EQ(model.documents[0].path, "metadata/a.txt");
  EXPECT_TRUE(is_utf8(text_of(**model.documents[0].source.get())));
}

TEST(Hdf5Attributes, TextsOfADatasetAreRead) {
  B b;
  const auto texts = b.dataset(Hdf5Type::text(2), {2}, b.contiguous(std::string("abc\0", 4)));
  const Model model = read_h5_well(one_dataset(b, texts));
  EXPECT_THAT(*model.per_tensor->strings.at(0).get().value(), ElementsAre("ab", "c"));
}

TEST(Hdf5Attributes, ArraysAreListsOfTheirValues) {
  const auto texts = Hdf5Type::array(Hdf5Type::text(2), 2, 3);
  EXPECT_EQ(value_of(B::attribute("a", texts, {}, std::string("abc\0de", 6))), R"(["ab","c","de"])");
  EXPECT_EQ(value_of(B::attribute("a", texts, {2}, std::string("abc\0defghijk", 12))),
            R"([["ab","c","de"],["fg","hi","jk"]])");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::array(Hdf5Type::integer(2, false, true), 2, 2), {},
                                  std::string("\1\2\0\3", 4))),
            "[258,3]");
  const auto nested = Hdf5Type::array(Hdf5Type::array(Hdf5Type::text(1), 1, 2), 2, 2);
  EXPECT_EQ(value_of(B::attribute("a", nested, {}, "abcd")), R"([["a","b"],["c","d"]])");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::array(Hdf5Type::text(4), 4, 1), {}, "long")), R"(["long"])");
  EXPECT_EQ(value_of(B::attribute("a", Hdf5Type::array(Hdf5Type::reference(), 8, 2), {}, std::string(16, '\0'))),
            R"({"type":"H5T_ARRAY of H5T_REFERENCE","count":1})");
}

TEST(Hdf5Attributes, ArraysOfTextsOfVariableLengthAreLists) {
  B b;
  const uint64_t heap = b.global_heap({"one", "three"});
  const std::string bytes = B::variable(3, heap, 1) + B::variable(5, heap, 2);
  const auto type = Hdf5Type::array(Hdf5Type::variable_text(), 16, 2);
  EXPECT_EQ(metadata_of(read_h5_well(b.build(b.group({}, {B::attribute("a", type, {}, bytes)}))), "a"),
            R"(["one","three"])");
}

TEST(Hdf5Attributes, TextsOfADatasetOfArraysAreRead) {
  B b;
  const uint64_t heap = b.global_heap({"one", "three"});
  const std::string elsewhere = B::variable(3, heap, 1) + B::variable(0, 0, 0) + B::variable(5, heap, 2);
  const auto fixed = b.dataset(Hdf5Type::array(Hdf5Type::text(2), 2, {2, 3}), {2},
                               b.contiguous(std::string("aabbccddeef\0", 12) + "gghhiijjkkll"));
  const auto variable = b.dataset(Hdf5Type::array(Hdf5Type::variable_text(), 16, 3), {1}, b.contiguous(elsewhere));
  const Model model = read_h5_well(b.build(b.group({{"fixed", fixed}, {"variable", variable}})));
  EXPECT_THAT(model.tensors.at(0).shape, ElementsAre(2, 2, 3));
  EXPECT_THAT(*model.per_tensor->strings.at(0).get().value(),
              ElementsAre("aa", "bb", "cc", "dd", "ee", "f", "gg", "hh", "ii", "jj", "kk", "ll"));
  EXPECT_THAT(model.tensors.at(1).shape, ElementsAre(1, 3));
  EXPECT_THAT(*model.per_tensor->strings.at(1).get().value(), ElementsAre("one", "", "three"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Hdf5Attributes, ArrayOfTooManyDimensionsIsRefused) {
  B b;
  const auto w =
      b.dataset(Hdf5Type::array(Hdf5Type::integer(1), 1, std::vector<uint32_t>(33, 1)), {1}, b.contiguous("w"));
  EXPECT_THAT(only_tensor(one_dataset(b, w)), HasSubstr("an array of rank 33, at most 32"));
}

TEST(Hdf5Attributes, TypeOfOpaqueElementsMustHaveTheirSize) {
  B b;
  const auto w = b.dataset(Hdf5Type::opaque(4), {1}, b.contiguous("abcd"), {B::text_attribute("dtype", "bfloat16")});
  EXPECT_THAT(listing(read_h5_well(one_dataset(b, w))), ElementsAre("w unknown H5T_OPAQUE of 4 bytes [1] abcd"));
}

TEST(Hdf5Attributes, TypesOfDatasetsAreNamed) {
  B b;
  const auto dataset = [&](const std::string& type, const std::string& bytes) {
    return b.dataset(type, {1}, b.contiguous(bytes));
  };
  const B::Links links = {
      {"array", dataset(Hdf5Type::array(Hdf5Type::integer(1), 1, 2), "ab")},
      {"complex", dataset(Hdf5Type::compound({{"r", Hdf5Type::f32(true)}, {"i", Hdf5Type::f32(true)}}, 4), "abcdefgh")},
      {"enum", dataset(Hdf5Type::enumeration({"A", "B"}), "a")},
      {"half", dataset(Hdf5Type::f16(), "ab")},
      {"mask", dataset(Hdf5Type::enumeration({"FALSE", "TRUE"}), "\1")},
      {"pair", dataset(Hdf5Type::compound({{"a", Hdf5Type::integer(1)}, {"b", Hdf5Type::integer(1)}}, 1), "ab")},
      {"reference", dataset(Hdf5Type::reference(), "abcdefgh")},
  };
  EXPECT_THAT(listing(read_h5_well(b.build(b.group(links)))),
              ElementsAre("array int8 H5T_ARRAY of H5T_STD_I8LE [1x2] ab",
                          "complex complex64 H5T_COMPOUND {r: H5T_IEEE_F32BE, i: H5T_IEEE_F32BE} [1] dcbahgfe",
                          "enum int8 H5T_ENUM of H5T_STD_I8LE [1] a", "half float16 H5T_IEEE_F16LE [1] ab",
                          "mask bool H5T_ENUM of H5T_STD_I8LE [1] \1",
                          "pair unknown H5T_COMPOUND {a: H5T_STD_I8LE, b: H5T_STD_I8LE} [1] ab",
                          "reference unknown H5T_REFERENCE [1] refused"));
}

// As h5py reads them; PyTables stores booleans so.
TEST(Hdf5Attributes, BitFieldsAreIntegersOfTheirSize) {
  B b;
  const auto dataset = [&](const std::string& type, const std::string& bytes) {
    return b.dataset(type, {1}, b.contiguous(bytes));
  };
  const B::Links links = {
      {"a", dataset(Hdf5Type::bits(1), "a")},
      {"b", dataset(Hdf5Type::bits(2), "ab")},
      {"c", dataset(Hdf5Type::bits(4, true), "abcd")},
      {"d", dataset(Hdf5Type::bits(8), "abcdefgh")},
      {"e", dataset(Hdf5Type::bits(1, false, 3), "e")},
      {"f", dataset(Hdf5Type::bits(3), "abc")},
      {"g", dataset(Hdf5Type::array(Hdf5Type::bits(1), 1, 2), "ab")},
  };
  EXPECT_THAT(
      listing(read_h5_well(b.build(b.group(links)))),
      ElementsAre("a uint8 H5T_STD_B8LE [1] a", "b uint16 H5T_STD_B16LE [1] ab", "c uint32 H5T_STD_B32BE [1] dcba",
                  "d uint64 H5T_STD_B64LE [1] abcdefgh", "e uint8 H5T_BITFIELD of 3 bits in 1 bytes LE [1] e",
                  "f unknown H5T_BITFIELD of 24 bits in 3 bytes [1] abc",
                  "g uint8 H5T_ARRAY of H5T_STD_B8LE [1x2] ab"));
}

// No tensor can have such elements, but the file is whole.
TEST(Hdf5Attributes, ElementsThatAreAddressesDoNotMakeAFileIncomplete) {
  B b;
  const auto dataset = [&](const std::string& type, const std::string& bytes) {
    return b.dataset(type, {1}, b.contiguous(bytes));
  };
  const B::Links links = {
      {"lists", dataset(Hdf5Type::variable(Hdf5Type::f32()), std::string(16, 'x'))},
      {"rows", dataset(Hdf5Type::compound({{"r", Hdf5Type::reference()}}, 8), "abcdefgh")},
      {"w", dataset(Hdf5Type::integer(1), "w")},
  };
  const Model model = read_h5_well(b.build(b.group(links)));
  EXPECT_THAT(listing(model),
              ElementsAre("lists unknown H5T_VLEN of H5T_IEEE_F32LE [1] refused",
                          "rows unknown H5T_COMPOUND {r: H5T_REFERENCE} [1] refused", "w int8 H5T_STD_I8LE [1] w"));
  EXPECT_THAT(model.warnings,
              ElementsAre("tensor \"lists\": elements of type H5T_VLEN of H5T_IEEE_F32LE are not read",
                          "tensor \"rows\": elements of type H5T_COMPOUND {r: H5T_REFERENCE} are not read"));
  EXPECT_TRUE(completeness_of(model).is_complete());
}

TEST(Hdf5Attributes, CommittedTypeIsFollowedOnce) {
  B b;
  const uint64_t type = b.object({B::datatype(Hdf5Type::integer(1))});
  const auto shared = Hdf5Message{3, std::string("\3\2") + le(type, 8), 2};
  const auto w = b.object({B::dataspace({1}), shared, b.contiguous("w")});
  EXPECT_EQ(only_tensor(one_dataset(b, w)), "w");
  // Version 1: reserved bytes, an offset in a local heap, the address.
  const auto old = Hdf5Message{3, std::string("\1\0", 2) + std::string(6, '\0') + le(40, 8) + le(type, 8), 2};
  EXPECT_EQ(only_tensor(one_dataset(b, b.object({B::dataspace({1}), old, b.contiguous("w")}))), "w");
  const uint64_t loop = b.next();
  const auto itself = Hdf5Message{3, std::string("\3\2") + le(loop, 8), 2};
  EXPECT_EQ(b.object({itself, B::dataspace({1}), B::compact("w")}), loop);
  EXPECT_THAT(only_tensor(one_dataset(b, loop)), HasSubstr("a shared message that is not there"));
}

}  // namespace
}  // namespace weightfs::test::attributes_test
