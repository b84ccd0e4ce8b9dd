#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/archive/archive_formats.h"
#include "formats/completeness.h"
#include "tests/builders/nnef_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::nnef_test {
namespace {

using namespace test::nnef;
using namespace std::string_literals;
using test::error_in;
using test::Files;
using test::listing;
using test::metadata_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(const std::string& bytes) { return read_as("nnef-tensor", {"w.dat", in_memory(bytes)}); }

Result<Model> read_files(const Files& files) {
  archive::Builder builder(archive::DuplicatePolicy::last_wins);
  for (const auto& [path, bytes] : files) builder.add_file(path, in_memory(bytes));
  return read_nnef(std::move(builder).finish(), {"m.tar", in_memory("")});
}

TEST(NnefTensor, ElementsAreARangeOfTheFile) {
  EXPECT_THAT(listing(well(read(tensor_file({1, 2}, 32, kFloat, "aaaabbbb")))),
              ElementsAre("w float32 float [1x2] aaaabbbb"));
  EXPECT_THAT(listing(well(read(tensor_file({}, 8, kUnsigned, "a")))), ElementsAre("w uint8 unsigned [] a"));
  EXPECT_THAT(listing(well(read(tensor_file({2}, 8, kQuantizedSigned, "ab")))),
              ElementsAre("w int8 quantized signed [2] ab"));
  EXPECT_THAT(listing(well(read(tensor_file({1}, 64, kSigned, "12345678")))),
              ElementsAre("w int64 signed [1] 12345678"));
}

TEST(NnefTensor, BooleansOfABitBecomeBytes) {
  const Model model = well(read(tensor_file({3, 4}, 1, kBool, "\xA5\x30")));
  const std::string bytes = test::text_of(model.tensors[0].source);
  EXPECT_EQ(bytes, std::string("\1\0\1\0\0\1\0\1\0\0\1\1", 12));
  EXPECT_EQ(well(read_text(model.tensors[0].source, 7, 4)), bytes.substr(7, 4));
}

TEST(NnefTensor, InvalidFilesAreRefused) {
  const std::string good = tensor_file({2}, 8, kUnsigned, "ab");
  EXPECT_EQ(error_in(read(good.substr(0, 100))), "nnef: 100 bytes, the header has 128");
  EXPECT_THAT(error_in(read(good.substr(0, 129))), HasSubstr("nnef: "));
  EXPECT_EQ(error_in(read(tensor_file({3}, 8, kUnsigned, "ab"))), "nnef: 2 bytes, which is not the size of its shape");
  EXPECT_EQ(error_in(read(tensor_file({2}, 7, kUnsigned, "ab"))), "nnef: items of type 1 with 7 bits");
  EXPECT_EQ(error_in(read(tensor_file({2}, 8, 99, "ab"))), "nnef: items of type 99 with 8 bits");
  EXPECT_EQ(error_in(read(tensor_file(std::vector<uint32_t>(9, 1), 8, kUnsigned, "a"))),
            "nnef: 9 dimensions, at most 8");
  EXPECT_THAT(error_in(read(tensor_file(std::vector<uint32_t>(8, UINT32_MAX), 8, kUnsigned, "a"))),
              HasSubstr("not the size of its shape"));
}

TEST(Nnef, VariablesHaveTheirLabels) {
  const Model model = well(read_files(small_nnef_files()));
  EXPECT_EQ(model.format, "nnef");
  EXPECT_EQ(model.version, "1.0");
  EXPECT_THAT(listing(model), ElementsAre("b bool bool [3] \1\0\1"s, "fc/w float16 float [2x2] aabbccdd"));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(model.parts, SizeIs(3));
  EXPECT_FALSE(model.nested);
}

TEST(Nnef, GraphIsMetadata) {
  const Model model = well(read_files(small_nnef_files()));
  EXPECT_EQ(metadata_of(model, "graph"), "\"net\"");
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"x"}])");
  EXPECT_EQ(metadata_of(model, "outputs"), R"([{"name":"y"}])");
  EXPECT_EQ(metadata_of(model, "operations"), R"({"external":1,"linear":1,"variable":2})");
}

TEST(Nnef, InvalidVariablesAreRefused) {
  Files files = small_nnef_files();
  files["b.dat"].resize(128);
  files.erase("fc/w.dat");
  files["other.dat"] = "other";
  const Model model = well(read_files(files));
  EXPECT_THAT(model.tensors, SizeIs(1));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("tensor \"b\": "), "variable \"fc/w\": it has no tensor file"));
}

TEST(Nnef, TextsWithoutAGraphAreRefused) {
  EXPECT_EQ(error_in(read_files({{"graph.nnef", "version 1.0; # graph"}})), "graph.nnef: no graph");
  EXPECT_THAT(well(read_files({{"graph.nnef", "graph g(a"}})).tensors, IsEmpty());
}

TEST(Nnef, LabelsWithoutQuotesAreRefused) {
  const auto read_label = [](const std::string& label) {
    return read_files({{"graph.nnef", "graph g(a) -> (b) { b = f(label = " + label}});
  };
  EXPECT_THAT(well(read_label("'x'); }")).warnings, ElementsAre("variable \"x\": it has no tensor file"));
  for (const char* const label : {"'x", "'", "\"x'", "x); }", "", "3"})
    EXPECT_EQ(error_in(read_label(label)), "graph.nnef: a label that is not in quotes") << label;
}

TEST(Nnef, GraphThatWasCutMakesTheModelIncomplete) {
  Files files = small_nnef_files();
  files["graph.nnef"].resize(kGraph.find('}'));
  const Model model = well(read_files(files));
  EXPECT_EQ(to_sentence(completeness_of(model)),
            "the model is incomplete: graph.nnef: it ends before the } of the graph");
  EXPECT_EQ(to_sentence(completeness_of(well(read_files(small_nnef_files())))), "");
}

TEST(Nnef, ShapeThatDiffersFromTheFileMakesTheModelIncomplete) {
  const auto warnings = [](const std::string& arguments) {
    Files files = small_nnef_files();
    files["graph.nnef"] = "graph g(x) -> (b) { x = external(shape = [7]); b = variable<scalar>(" + arguments + "); }";
    const Model model = well(read_files(files));
    EXPECT_EQ(completeness_of(model).is_complete(), model.warnings.empty());
    return model.warnings;
  };
  const std::string differs = "variable \"b\": its file has the shape [3], graph.nnef has [4]";
  EXPECT_THAT(warnings("shape = [4], label = 'b'"), ElementsAre(differs));
  EXPECT_THAT(warnings("label = 'b', shape = [4]"), ElementsAre(differs));
  EXPECT_THAT(warnings("shape = [3], label = 'b'"), IsEmpty());
  EXPECT_THAT(warnings("shape = [n], label = 'b'"), IsEmpty());
  EXPECT_THAT(warnings("label = 'b'"), IsEmpty());
}

TEST(Nnef, IsDetectedByItsContent) {
  EXPECT_EQ(matches_nnef_tensor(test::probe_of(tensor_file({}, 8, kUnsigned, "a"))), Match::yes);
  EXPECT_EQ(matches_nnef_tensor(test::probe_of("\x4E\xEF\2")), Match::no);
  EXPECT_EQ(matches_nnef_graph({"graph.nnef", kGraph, kGraph, kGraph.size()}), Match::maybe);
  EXPECT_EQ(matches_nnef_graph({"other.nnef", kGraph, kGraph, kGraph.size()}), Match::no);
}

}  // namespace
}  // namespace weightfs::nnef_test
