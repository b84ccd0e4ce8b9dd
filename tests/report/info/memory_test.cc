#include "report/info/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/info/summaries.h"

namespace weightfs::info_memory_test {
namespace {

using info::memory_lines;
using info::memory_map;
using info::MemoryQuestion;
using info::Style;
using testing::HasSubstr;
using testing::Not;

constexpr Style kWide{80, info::Charset::utf8, info::Colours::off};
constexpr Style kNarrow{40, info::Charset::utf8, info::Colours::off};
constexpr uint64_t kGiB = uint64_t{1} << 30;

// Llama 3.1 8B in Q4_K_M, with what its layers keep.
test::Summarised llama() {
  test::Summarised out = test::llama_gguf_summary();
  out.model.metadata.append("general.architecture", "llama");
  out.model.metadata.append("llama.attention.head_count", uint64_t{32});
  out.model.metadata.append("llama.attention.head_count_kv", uint64_t{8});
  return out;
}

std::string text_of(const test::Summarised& model, const MemoryQuestion& question, const Style& style = kWide) {
  return "\n" + info::emit(memory_lines(model.subject(), question, style), style);
}

std::string sentence(const MemoryQuestion& question) {
  return std::string(text_in(memory_map(llama().subject(), question), "sentence"));
}

TEST(MemoryText, TableAndSentenceOfAGpuThatHasAllLayers) {
  EXPECT_EQ(text_of(llama(), {.gpu_bytes = 24 * kGiB}), R"(
memory for 8,192 tokens, KV cache in f16, batch of 512, all 33 layers on the GPU
                               GPU          host
  weights                 4.30 GiB       282 MiB
  KV cache                1.00 GiB             -
  compute buffers         ~266 MiB     ~24.5 MiB
  total                  ~5.56 GiB      ~306 MiB
fits in 24.0 GiB: all 33 layers, 18.4 GiB left; all 131,072 tokens of its
context fit, too
)");
}

// A number is right or absent: the bytes of refused tensors are those of their shapes.
TEST(MemoryText, DamagedModelHasNoNumberButTheReason) {
  test::Summarised model = llama();
  model.model.lacks.edit().missing_tensors = 2;
  model.model.lacks.edit().by_code[static_cast<size_t>(Code::corrupt)] = {1, "cut"};
  EXPECT_EQ(text_of(model, {.gpu_bytes = 24 * kGiB}), "\nmemory: not known: 2 of 293 tensors cannot be read\n");
  EXPECT_EQ(to_json_line(memory_map(model.subject(), {.gpu_bytes = 24 * kGiB})),
            R"({"reason":"2 of 293 tensors cannot be read","language_model":true})");
}

// Such as a licence.
TEST(MemoryText, MissingFileWithoutTensorsDoesNotMatter) {
  test::Summarised model = llama();
  const std::string whole = text_of(model, {.gpu_bytes = 24 * kGiB});
  model.model.lacks.edit().files = 1;
  model.model.lacks.edit().lost.push_back({});
  model.model.lacks.edit().by_code[static_cast<size_t>(Code::not_found)] = {1, "the licence is missing"};
  EXPECT_EQ(text_of(model, {.gpu_bytes = 24 * kGiB}), whole);
  model.model.lacks.edit().files = 2;
  EXPECT_EQ(text_of(model, {}), "\nmemory: not known: a part of the model cannot be read\n");
}

TEST(MemoryText, NarrowScreen) {
  const std::string text = text_of(llama(), {.gpu_bytes = 24 * kGiB}, kNarrow);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(info::width_of(text.substr(begin, end - begin)), 40u);
    begin = end + 1;
  }
}

TEST(MemoryText, SentencesOfSmallerGpus) {
  EXPECT_EQ(sentence({}), "needs 5.56 GiB of a GPU for all 33 layers, and 306 MiB of the host");
  EXPECT_THAT(
      sentence({.gpu_bytes = 6 * kGiB}),
      HasSubstr("fits in 6.00 GiB: all 33 layers, 450 MiB left, which its driver may need; all layers fit with up to"));
  EXPECT_THAT(sentence({.gpu_bytes = 4 * kGiB}), HasSubstr("fits in 4.00 GiB with 2"));
  EXPECT_THAT(sentence({.gpu_bytes = 4 * kGiB}), HasSubstr(" of 33 layers, "));
  EXPECT_THAT(sentence({.gpu_bytes = 512 << 20}), HasSubstr("does not fit in 512 MiB: one layer and the buffers need"));
  EXPECT_THAT(sentence({.gpu_layers = 99, .gpu_bytes = 4 * kGiB}),
              HasSubstr("does not fit in 4.00 GiB: all 33 layers need 5.56 GiB; 2"));
  EXPECT_THAT(sentence({.gpu_layers = 0}), HasSubstr("of the host, and no GPU"));
}

TEST(MemoryText, JsonHasTheNumbers) {
  const std::string json =
      to_json_line(memory_map(llama().subject(), {.context = 4096, .kv_type = "q8_0", .gpu_bytes = 8 * kGiB}));
  for (const char* const part : {R"("context":4096)", R"("kv_type":"q8_0")", R"("layers":33)", R"("gpu_layers":33)",
                                 R"("kv_cache":285212672)", R"("fits":true)", R"("gpu_bytes":8589934592)"})
    EXPECT_THAT(json, HasSubstr(part));
  EXPECT_THAT(json, Not(HasSubstr("warnings")));
}

TEST(MemoryText, MoreTokensThanTheModelWasMadeForAreAWarning) {
  EXPECT_THAT(text_of(llama(), {.context = 200'000}),
              HasSubstr("warning: 200,000 tokens are more than the 131,072 that the model was made for"));
}

TEST(MemoryText, OtherModelsHaveTheirWeightsAndTheReason) {
  const test::Summarised model = test::mobilenet_summary();
  EXPECT_THAT(text_of(model, {}), HasSubstr("the rest is not known: it is not a language model"));
  const std::string json = to_json_line(memory_map(model.subject(), {}));
  EXPECT_THAT(json, HasSubstr(R"("language_model":false)"));
  EXPECT_THAT(json, HasSubstr("reason"));
  EXPECT_THAT(json, Not(HasSubstr("gpu")));
}

}  // namespace
}  // namespace weightfs::info_memory_test
