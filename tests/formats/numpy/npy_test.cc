#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/values/json.h"
#include "formats/format.h"
#include "formats/numpy/array.h"
#include "tests/builders/numpy_builder.h"
#include "tests/builders/python_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::npy_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kDict = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";

Result<Model> read(std::string bytes, std::string name = "dir.weight.npy") {
  return read_as("npy", Container{std::move(name), in_memory(std::move(bytes))});
}

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }

std::string error_of_header(std::string_view header) { return error_of(npy_of(header, "xyz")); }

TEST(NpyFile, TensorIsNamedByFile) {
  const Model model = read_well(npy("|u1", "(3,)", "xyz"));
  EXPECT_EQ(model.format, "npy");
  EXPECT_EQ(model.version, "1.0");
  EXPECT_THAT(listing(model), ElementsAre("dir.weight uint8 |u1 [3] xyz"));
  EXPECT_EQ(model.tensors[0].source.offset(), npy("|u1", "(3,)", "").size());
  EXPECT_EQ(to_json_line(model.metadata), R"({"npy":{"descr":"|u1","fortran_order":false,"header_length":68}})");
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(read(npy("|u1", "()", "x"), "layer")->tensors[0].name, "layer");
}

TEST(NpyFile, ReadsEveryVersion) {
  for (const uint8_t major : std::initializer_list<uint8_t>{1, 2, 3}) {
    const Model model = read_well(npy_of(kDict, "xyz", major));
    EXPECT_THAT(listing(model), ElementsAre("dir.weight uint8 |u1 [3] xyz"));
    EXPECT_EQ(model.version, fmt::format("{}.0", major));
  }
  for (const auto& [major, minor] : {std::pair(0, 0), std::pair(1, 1), std::pair(4, 0), std::pair(255, 255)})
    EXPECT_EQ(error_of(npy_of(kDict, "xyz", static_cast<uint8_t>(major), static_cast<uint8_t>(minor))),
              fmt::format("npy: version {}.{}; 1.0, 2.0 and 3.0 are read", major, minor));
}

TEST(NpyFile, ShapesMayBeScalarOrEmpty) {
  EXPECT_THAT(listing(read_well(npy("|u1", "()", "x"))), ElementsAre("dir.weight uint8 |u1 [] x"));
  EXPECT_THAT(listing(read_well(npy("<f4", "(0, 3)", ""))), ElementsAre("dir.weight float32 <f4 [0x3] "));
  EXPECT_THAT(listing(read_well(npy("|V0", "(99999999999999,)", ""))),
              ElementsAre("dir.weight unknown |V0 [99999999999999] "));
}

TEST(NpyFile, FortranOrderBecomesCOrder) {
  EXPECT_THAT(listing(read_well(npy("|u1", "(2, 3)", "abcdef", true))),
              ElementsAre("dir.weight uint8 |u1 [2x3] acebdf"));
  EXPECT_THAT(listing(read_well(npy("|S2", "(2, 2)", "aabbccdd", true))),
              ElementsAre("dir.weight unknown |S2 [2x2] aaccbbdd"));
}

TEST(NpyFile, OneDimensionInFortranOrderIsPartOfFile) {
  const Model model = read_well(npy("|u1", "(3,)", "abc", true));
  EXPECT_THAT(listing(model), ElementsAre("dir.weight uint8 |u1 [3] abc"));
  EXPECT_EQ(model.tensors[0].source.offset(), npy("|u1", "(3,)", "", true).size());
}

TEST(NpyFile, BigEndianNumbersBecomeLittleEndian) {
  EXPECT_THAT(listing(read_well(npy(">i2", "(3,)", "abcdef"))), ElementsAre("dir.weight int16 >i2 [3] badcfe"));
  EXPECT_THAT(listing(read_well(npy(">c8", "()", "abcdefgh"))), ElementsAre("dir.weight complex64 >c8 [] dcbahgfe"));
  EXPECT_THAT(listing(read_well(npy(">i2", "(2, 2)", "abcdefgh", true))),
              ElementsAre("dir.weight int16 >i2 [2x2] bafedchg"));
}

// Each read takes memory for whole elements.
TEST(NpyFile, LargeElementsInFortranOrderAreRefused) {
  const Model model = read_well(npy("|V100000", "(2, 2)", std::string(400'000, 'x'), true));
  EXPECT_TRUE(model.tensors.at(0).source.refused());
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("Fortran order of elements of 100000 bytes")));
}

// Text, dates and structures keep their own byte order, which their .npy file states.
TEST(NpyFile, TypesWithoutDTypeAreShownAsStored) {
  EXPECT_THAT(listing(read_well(npy(">U1", "(1,)", std::string("\0\0\0a", 4)))),
              ElementsAre(std::string("dir.weight unknown >U1 [1] \0\0\0a", 31)));
  const std::string descr = "[('x', '>i2'), ('y', '|S2', (1,))]";
  const std::string file = npy_of(npy_dict(descr, "(2,)"), "abcdefgh");
  const Model model = read_well(file + "more");
  EXPECT_THAT(listing(model), ElementsAre("dir.weight unknown " + descr + " [2] abcdefgh"));
  ASSERT_TRUE(model.per_tensor->npy_files.contains(0));
  EXPECT_EQ(text_of(model.per_tensor->npy_files.at(0)), file);
  EXPECT_THAT(model.warnings, ElementsAre("not shown: 4 bytes after the array"));
}

TEST(NpyFile, NumbersHaveNoNpyFileOfTheirOwn) { EXPECT_THAT(read_well(small_npy()).per_tensor->npy_files, IsEmpty()); }

TEST(NpyFile, ObjectsAreReadFromTheirPickle) {
  const PickleBuilder objects = PickleBuilder().raw("]").mark().add(array("u1", {1}, "x")).text("t").raw("e");
  const std::string pickle = array_of(dtype("O8"), {2}, objects).pickle();
  const Model model = read_well(npy_of(npy_dict("'|O'", "(2,)"), pickle));
  EXPECT_THAT(listing(model), ElementsAre("0 uint8 <u1 [1] x"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(NpyFile, ObjectsWithoutAPickleAreRefused) {
  for (const char* descr : {"'|O'", "[('a', '<f4'), ('b', '|O')]"}) {
    const Model model = read_well(npy_of(npy_dict(descr, "(3,)"),
                                         "\x80\x04"
                                         "cos\nsystem\n"));
    EXPECT_TRUE(model.tensors.at(0).source.refused());
    EXPECT_THAT(model.per_tensor->npy_files, IsEmpty());
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("no STOP: the file was cut")));
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("before that it names os.system")));
  }
}

TEST(NpyFile, HeaderMayBeWrittenByHand) {
  for (const char* header : {"{'shape': (3,), 'fortran_order': False, 'descr': '|u1'}",
                             "{\"descr\":\"u1\",\"fortran_order\":False,\"shape\":(3L,)}",
                             "{'descr': 'uint8',\n 'fortran_order': False,\n 'shape': (3,),\n}\n",
                             "{u'descr': b'|u1', 'fortran_order': False, 'shape': (3,)}",
                             "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'descr': '|u1'}"})
    EXPECT_EQ(text_of(read_well(npy_of(header, "xyz")).tensors.at(0).source), "xyz") << header;
}

TEST(NpyFile, RefusesInvalidHeaders) {
  EXPECT_EQ(error_of_header("{'descr': '|u1', 'shape': (3,)}"), "npy: header: no fortran_order");
  EXPECT_EQ(error_of_header("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), 'x': 1}"),
            "npy: header: unknown key \"x\"");
  EXPECT_EQ(error_of_header("{'descr': '|u1', 'fortran_order': 1, 'shape': (3,)}"),
            "npy: header: fortran_order is neither True nor False");
  EXPECT_EQ(error_of_header("('descr',)"), "npy: header: not a dict");
  for (const char* shape : {"3", "[3]", "'3'", "{}", "None"})
    EXPECT_EQ(error_of_header(npy_dict("'|u1'", shape)), "npy: header: the shape is not a tuple") << shape;
  EXPECT_EQ(error_of_header(npy_dict("'|u1'", "(True,)")), "npy: header: a dimension is not an integer");
  EXPECT_EQ(error_of_header(npy_dict("'|u1'", "(-1, 3)")), "npy: header: a dimension of size -1");
  EXPECT_THAT(error_of_header(npy_dict("'|u1'", "(__import__('os').system('true'),)")),
              HasSubstr("npy: header: byte 51: \"__import__('os').sys\", a literal expected"));
  EXPECT_THAT(error_of_header("\xFF\xFE" + std::string(kDict)), HasSubstr("a literal expected"));
  EXPECT_EQ(error_of(npy_of("{'\xFF': 1}", "", 3)), "npy: header: not UTF-8");
}

// Zero elements do not hide the overflow of the other dimensions.
TEST(NpyFile, RefusesOverflows) {
  for (const char* shape :
       {"(9223372036854775807, 9223372036854775807)", "(0, 9223372036854775807, 9223372036854775807)",
        "(9223372036854775807, 2, 0)", "(4294967296, 4294967296)"})
    EXPECT_EQ(error_of_header(npy_dict("'|u1'", shape)), "npy: header: an array of 2^63 bytes or more") << shape;
}

TEST(NpyFile, BoundsHeaders) {
  EXPECT_EQ(error_of("\x93NUMPY"), "npy: ends after the magic number");
  EXPECT_EQ(error_of(npy_of("", "", 2).substr(0, 11)), "npy: ends before the length of the header");
  EXPECT_EQ(error_of(npy_of(kDict, "").substr(0, 60)), "npy: was cut: a header of 67 bytes, the file has 60");
  std::string claims = npy_of(kDict, "xyz", 2);
  claims.replace(8, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_EQ(error_of(claims), "npy: a header of 4294967295 bytes, at most 1048576 are read");
  const std::string padded = kDict + std::string(numpy::kMaxHeaderSize - std::string_view(kDict).size(), ' ');
  EXPECT_THAT(listing(read_well(npy_of(padded, "xyz", 2))), ElementsAre("dir.weight uint8 |u1 [3] xyz"));
}

TEST(NpyFile, BoundsDimensions) {
  const auto shape = [](size_t dimensions) {
    std::string text = "(";
    for (size_t i = 0; i < dimensions; ++i) text += "1,";
    return text + ")";
  };
  EXPECT_EQ(read_well(npy("|u1", shape(kMaxDimensions), "x")).tensors.at(0).shape.size(), kMaxDimensions);
  EXPECT_EQ(error_of(npy("|u1", shape(kMaxDimensions + 1), "x")), "npy: 1025 dimensions, at most 1024");
}

TEST(NpyFile, TruncatedDataAreRefused) {
  EXPECT_EQ(error_of(npy("<f4", "(2,)", "1234567")),
            "npy: the file ends 1 byte early: 7 of 8 bytes of data; interrupted download?");
}

// The memory of parsing is released: only the tensor stays charged.
TEST(NpyFile, LongHeadersAreChargedAndReleased) {
  std::string descr = "[";
  for (int i = 0; i < 1000; ++i) descr += fmt::format("('field{}', '<f8'),", i);
  const auto file = in_memory(npy_of(npy_dict(descr + "]", "(1,)"), std::string(8000, 'x'), 2));
  Container container{"m.npy", file};
  container.budget = std::make_shared<Budget>(0);
  const auto model = read_as("npy", container);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.at(0).nbytes(), 8000U);
  EXPECT_EQ(model->tensors.at(0).stored_dtype.size(), 1027U);
  EXPECT_LT(container.budget->memory_used(), 3000U);
}

TEST(NpyFile, IsDetectedByMagicNumber) {
  EXPECT_EQ(matches_npy(probe_of(small_npy())), Match::yes);
  EXPECT_EQ(matches_npy(probe_of("\x93NUMP", "x.npy")), Match::no);
  EXPECT_EQ(matches_npy(probe_of("\x80\x04\x95pickle", "x.npy")), Match::no);
}

}  // namespace
}  // namespace weightfs::npy_test
