#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/values/json.h"
#include "formats/format.h"
#include "tests/builders/ggml_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::ggml_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Model> read(std::string bytes) {
  return read_as("ggml", Container{"ggml-tiny.bin", in_memory(std::move(bytes))});
}

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

std::string error_of(const GgmlBuilder& builder) { return error_in(read(builder.build())); }

GgmlBuilder with_tensor() { return GgmlBuilder().tensor("a", {1}, 24, "x"); }

TEST(Ggml, ReadsTensorsInnermostDimensionFirst) {
  const Model model = read_well(GgmlBuilder().tensor("w", {3, 2}, 24, "abcdef").tensor("s", {}, 24, "s").build());
  EXPECT_EQ(model.format, "ggml");
  EXPECT_THAT(listing(model), ElementsAre("w int8 I8 [2x3] abcdef", "s int8 I8 [] s"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Ggml, TensorsAreRangesOfFile) {
  const std::string bytes = small_ggml();
  const Model model = read_well(bytes);
  EXPECT_THAT(listing(model),
              ElementsAre("encoder.w float32 F32 [1x2] 12345678", "decoder.q q8_0 Q8_0 [32] " + std::string(34, 'q')));
  EXPECT_EQ(model.tensors[0].source.offset(), bytes.find("12345678"));
}

TEST(Ggml, HeaderIsMetadata) {
  GgmlBuilder b;
  b.fields[10] = 2008;  // Q5_0... of the quantization version 2
  const Model model = read_well(b.build());
  EXPECT_THAT(to_json_line(model.metadata), HasSubstr(R"({"ggml":{"n_vocab":3,"n_audio_ctx":4,)"));
  EXPECT_THAT(to_json_line(model.metadata), HasSubstr(R"("ftype":2008,"mel_filters":[2,1],"tokens":2})"));
  EXPECT_EQ(to_json_line(model.common), R"({"file_type":"Q5_0","architecture":"whisper"})");
}

// The test files of whisper.cpp have a header only.
TEST(Ggml, FileWithoutTensorsIsEmptyModel) { EXPECT_THAT(read_well(GgmlBuilder().build()).tensors, IsEmpty()); }

TEST(Ggml, RecordThatDoesNotFitEndsTheList) {
  const auto warnings = [](const GgmlBuilder& b) {
    const Model model = read_well(b.build());
    EXPECT_THAT(listing(model), ElementsAre("a int8 I8 [1] x"));
    return model.warnings;
  };
  const std::string rest = "; the rest of the file is not shown";
  EXPECT_THAT(warnings(with_tensor().record(5, 1, "b", {1, 1, 1, 1, 1}, 24, "x")),
              ElementsAre("tensor 1 at byte 97: 5 dimensions, at most 4" + rest));
  EXPECT_THAT(warnings(with_tensor().record(-1, 1, "b", {}, 24, "x")),
              ElementsAre("tensor 1 at byte 97: -1 dimensions, at most 4" + rest));
  EXPECT_THAT(warnings(with_tensor().record(1, 2'147'483'647, "b", {1}, 24, "x")),
              ElementsAre("tensor 1 at byte 97: a name of 2147483647 bytes, 1 to 1024 expected" + rest));
  EXPECT_THAT(warnings(with_tensor().record(0, 0, "", {}, 0, "zeros")),
              ElementsAre("tensor 1 at byte 97: a name of 0 bytes, 1 to 1024 expected" + rest));
  EXPECT_THAT(warnings(with_tensor().record(1, 1, "b", {-1}, 24, "x")),
              ElementsAre("tensor 1 at byte 97: a dimension of size -1" + rest));
  EXPECT_THAT(warnings(with_tensor().record(1, 1, "b", {1}, 5, "x")),
              ElementsAre("tensor 1 at byte 97: type 5 is unknown" + rest));
  EXPECT_THAT(warnings(with_tensor().record(1, 1, "b", {33}, 8, "x")),
              ElementsAre("tensor 1 at byte 97: \"b\": its shape overflows, or rows are not whole blocks" + rest));
}

TEST(Ggml, TruncatedLastTensorIsRefusedAlone) {
  std::string bytes = with_tensor().tensor("b", {4}, 24, "1234").build();
  bytes.pop_back();
  const Model model = read_well(bytes);
  EXPECT_THAT(listing(model), ElementsAre("a int8 I8 [1] x", "b int8 I8 [4] refused"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"b\": 4 bytes needed, 3 left: refused"));
}

TEST(Ggml, FirstRecordThatDoesNotFitRefusesFile) {
  EXPECT_EQ(error_of(GgmlBuilder().record(1, 1, "b", {-1}, 24, "x")), "ggml: a dimension of size -1");
}

TEST(Ggml, RefusesImplausibleHeaders) {
  GgmlBuilder b;
  b.fields[0] = 0;
  EXPECT_EQ(error_of(b), "ggml: n_vocab is 0: not a model of whisper.cpp");
  b.fields = {3, 4, 4, 1, 1, 4, 4, 1, 1, 100'000, 1};
  EXPECT_EQ(error_of(b), "ggml: n_mels is 100000: not a model of whisper.cpp");
  b = GgmlBuilder();
  b.mels = -1;
  EXPECT_EQ(error_of(b), "ggml: mel filters of -1 by 1");
  b.mels = b.ffts = 2'147'483'647;
  EXPECT_THAT(error_of(b), HasSubstr("18446744056529682436 bytes to skip at 56"));
  b = GgmlBuilder();
  b.tokens = -1;
  EXPECT_EQ(error_of(b), "ggml: a vocabulary of -1 tokens, at most 1000000");
  b.tokens = 1'000'001;
  EXPECT_EQ(error_of(b), "ggml: a vocabulary of 1000001 tokens, at most 1000000");
  b.tokens = 1'000'000;
  EXPECT_THAT(error_of(b), HasSubstr("a count of 1000000 at 68"));
}

TEST(Ggml, RefusesOlderFormatsByName) {
  for (const auto& [magic, name] : {std::pair{"tjgg", "GGJT"}, std::pair{"fmgg", "GGMF"}, std::pair{"algg", "GGLA"}}) {
    GgmlBuilder b;
    b.magic = magic;
    EXPECT_EQ(matches_ggml(probe_of(b.build())), Match::yes);
    EXPECT_EQ(error_of(b), fmt::format("ggml: {}, a format of llama.cpp before GGUF, is not supported; convert the "
                                       "model to GGUF",
                                       name));
  }
}

TEST(Ggml, IsDetectedByMagicNumber) {
  EXPECT_EQ(matches_ggml(probe_of(small_ggml())), Match::yes);
  EXPECT_EQ(matches_ggml(probe_of("lmg", "ggml-tiny.bin")), Match::no);
}

}  // namespace
}  // namespace weightfs::ggml_test
