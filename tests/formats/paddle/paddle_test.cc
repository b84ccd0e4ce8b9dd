#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/paddle_builder.h"
#include "tests/support/counted_source.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::paddle_test {
namespace {

using namespace test::paddle;
using test::error_in;
using test::Files;
using test::listing;
using test::little;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const std::string& bytes, Files beside = {}) {
  return read_as("paddle", {"m.pdiparams", in_memory(bytes), std::make_shared<test::MemoryFolder>(std::move(beside))});
}

std::string error_of(const std::string& bytes) { return error_in(read(bytes)); }

TEST(Paddle, TensorsHaveTheSortedNamesOfTheProgram) {
  const auto model = read(small_paddle(), {{"m.pdmodel", small_program()}});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, "paddle");
  EXPECT_THAT(listing(*model),
              ElementsAre("b float32 FP32 [2] 01234567", "e/f uint8 UINT8 [] x", "w uint8 UINT8 [3x0] "));
  EXPECT_THAT(model->warnings, SizeIs(0));
  EXPECT_THAT(model->parts, SizeIs(2));
}

TEST(Paddle, TensorsAreNumberedWithoutAProgram) {
  const auto model = read(small_paddle());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors[2].name, "tensor_2");
  EXPECT_THAT(model->parts, SizeIs(1));
}

TEST(Paddle, ProgramThatDoesNotFitIsAWarning) {
  const auto warning = [](const std::string& program) {
    return read(small_paddle(), {{"m.pdmodel", program}}).value().warnings.at(0);
  };
  EXPECT_EQ(warning(program({variable("w")})),
            "\"m.pdmodel\" names 1 parameters, the file has 3; they are shown without names");
  EXPECT_THAT(warning("\x0A\x7F"), HasSubstr("the tensors have no names"));
}

TEST(Paddle, FilesThatAreCutBehindATensorLackTheOthersOfTheProgram) {
  const auto lack = [](const std::string& program) {
    return to_sentence(completeness_of(test::well(read(small_paddle(), {{"m.pdmodel", program}}))));
  };
  EXPECT_EQ(
      lack(program({variable("w"), variable("b"), variable("c"), variable("d")})),
      "1 of 4 tensors cannot be read: \"m.pdmodel\" names 4 parameters, the file has 3; they are shown without names");
  EXPECT_EQ(lack(program({variable("w"), variable("b")})), "");
  EXPECT_THAT(lack("\x0A\x7F"), HasSubstr("1 file cannot be read: \"m.pdmodel\""));
}

TEST(Paddle, ProgramInJsonHasNames) {
  const auto names = [](const Files& beside) {
    std::vector<std::string> lines;
    const Model model = test::well(read(small_paddle(), beside));
    for (const TensorView& tensor : model.tensors) lines.emplace_back(tensor.name);
    for (const std::string& warning : model.warnings) lines.push_back(warning);
    return lines;
  };
  EXPECT_THAT(names({{"m.json", json_program({"w", "b", "e/f"})}}), ElementsAre("b", "e/f", "w"));
  EXPECT_THAT(names({{"m.json", json_program({"b"})}}),
              ElementsAre("tensor_0", "tensor_1", "tensor_2",
                          "\"m.json\" names 1 parameters, the file has 3; they are shown without names"));
  EXPECT_THAT(names({{"m.json", json_program({"b"}).substr(0, 90)}}), testing::Contains(HasSubstr("have no names")));
  EXPECT_THAT(names({{"m.json", R"({"a":{"#":"p","A":[0,1,1,"x"]}})"}}),
              ElementsAre("tensor_0", "tensor_1", "tensor_2"))
      << "another JSON text";
  EXPECT_THAT(names({{"m.json", json_program({"w", "b", "e/f"})},
                     {"m.pdmodel", program({variable("x"), variable("y"), variable("z")})}}),
              ElementsAre("x", "y", "z"));
}

TEST(Paddle, IsDetectedByItsFirstRecord) {
  const auto match = [](const std::string& bytes) { return matches_paddle(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_paddle()), Match::maybe);
  EXPECT_EQ(match(""), Match::no);
  EXPECT_EQ(match(std::string(4096, '\0')), Match::no);
  EXPECT_EQ(match(little(1, 4) + small_paddle().substr(4)), Match::no);
  EXPECT_EQ(match(std::string(4096, '\x08')), Match::no);
}

TEST(Paddle, LevelsOfDetailAreSkipped) {
  const std::string tensor_bytes = tensor(kUint8, {2}, "ab");
  const std::string levels = little(2) + little(8) + "12345678" + little(0);
  const auto model = read(little(0, 4) + levels + tensor_bytes.substr(12));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(listing(*model), ElementsAre("tensor_0 uint8 UINT8 [2] ab"));
}

TEST(Paddle, CutTensorIsRefused) {
  const auto model = read(tensor(kUint8, {2}, "ab") + tensor(kFloat32, {4}, "short"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(model->tensors[1].source.refused());
  EXPECT_THAT(model->warnings, ElementsAre("tensor_1: 16 bytes needed, 5 left: refused"));
}

TEST(Paddle, MalformedFilesAreRefused) {
  EXPECT_EQ(error_of(""), "paddle: no tensors");
  EXPECT_EQ(error_of(little(7, 4) + small_paddle().substr(4)), "paddle: tensor 0: version 7 at byte 0, 0 expected");
  EXPECT_THAT(error_of(little(0, 4) + little(1ULL << 60)), HasSubstr("levels of detail"));
  EXPECT_THAT(error_of(little(0, 4) + little(1) + little(1ULL << 60)), HasSubstr("a level of 1152921504606846976"));
  EXPECT_THAT(error_of(little(0, 4) + little(0) + little(0, 4) + little(0xFFFFFFFF, 4)),
              HasSubstr("a description of -1 bytes"));
  EXPECT_THAT(error_of(tensor(99, {1}, "x")), HasSubstr("type 99"));
  EXPECT_THAT(error_of(tensor(kUint8, {1ULL << 40, 1ULL << 40}, "x")), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(error_of(tensor(kUint8, {~0ULL}, "x")), HasSubstr("dimension -1"));
  EXPECT_THAT(error_of(tensor(kUint8, std::vector<uint64_t>(1025, 1), "x")), HasSubstr("more than 1024 dimensions"));
  EXPECT_THAT(error_of(small_paddle() + "tail"), HasSubstr("tensor 3: "));
}

TEST(Paddle, ValuesAreNotReadToListTensors) {
  const uint64_t size = 3'000'000'000;
  const std::string head = record(description(kUint8, {size}), "");
  const auto source = std::make_shared<test::CountedSource>(head, head.size() + size);
  const auto model = read_as("paddle", {"m.pdiparams", source, nullptr});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors[0].nbytes(), size);
  EXPECT_LE(source->bytes_read, 512U);
}

}  // namespace
}  // namespace weightfs::paddle_test
