#include "report/info/screen.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "formats/code/code.h"
#include "tests/report/info/summaries.h"

namespace weightfs::info_screen_test {
namespace {

using info::Charset;
using info::Colours;
using info::render_screen;
using info::Style;
using test::Summarised;
using testing::HasSubstr;
using testing::Not;

constexpr Style kWide{80, Charset::utf8, Colours::off};
constexpr Style kNarrow{40, Charset::utf8, Colours::off};

std::string screen(const Summarised& model, const Style& style = kWide) {
  return "\n" + render_screen(model.subject(), style);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<Summarised> all_models() {
  std::vector<Summarised> out;
  out.push_back(test::llama_gguf_summary());
  out.push_back(test::qwen3_summary());
  out.push_back(test::mobilenet_summary());
  out.push_back(test::lora_summary());
  out.push_back(test::cut_gguf_summary());
  return out;
}

TEST(Screen, GgufOfEightBillionParameters) {
  const Summarised model = test::llama_gguf_summary();
  EXPECT_EQ(screen(model), R"(
Llama 3.1 8B Instruct                                          GGUF 3 · 4.58 GiB
language model (llama), 8.03 B parameters, Q4_K_M: 4.89 bits per weight

  context      131,072 tokens (llama3 scaling, base 500,000)
  layers       32: hidden 4,096, ffn 14,336, 32 heads, 8 KV heads of 128
  embeddings   525 M + output 525 M (13 %)
  vocabulary   128,256, BPE; chat template with tools
  KV cache     128 KiB per token in f16: 1.00 GiB for 8,192, 16.0 GiB for all
  memory       5.58 GiB with 8,192 tokens
  licence      llama3.1
  base         meta-llama/Llama-3.1-8B-Instruct
  files        1; not verified (no digest known)

  block              tensors    each      size   %  types
  token_embd               1   525 M   282 MiB   6  q4_k
  blk.0…31.attn_*     5 × 32  41.9 M   737 MiB  16  q4_k, 16 with q6_k; float32
  blk.0…31.ffn_*      4 × 32   176 M  3.18 GiB  69  q4_k, 16 with q6_k; float32
  output_norm              1   4.1 k    16 KiB   0  float32
  output                   1   525 M   411 MiB   9  q6_k

--tensors: all 291 · --metadata: 33 entries · --json
)");
  EXPECT_EQ(screen(model, kNarrow), R"(
Llama 3.1 8B Instruct
language model (llama), GGUF 3
8.03 B parameters, 4.58 GiB
Q4_K_M: 4.89 bits per weight

  context     131,072 tokens
  layers      32: hidden 4,096, ffn
              14,336, 32 heads, 8 KV
  vocabulary  128,256, BPE
  KV cache    128 KiB per token
  memory      5.58 GiB, 8,192 tokens
  licence     llama3.1

  block           each      size   %
  token_embd     525 M   282 MiB   6
  …attn_* ×32   41.9 M   737 MiB  16
  …ffn_* ×32     176 M  3.18 GiB  69
  output_norm    4.1 k    16 KiB   0
  output         525 M   411 MiB   9

--tensors · --metadata · --json
)");
}

TEST(Screen, DirectoryWithExperts) {
  const Summarised model = test::qwen3_summary();
  EXPECT_EQ(screen(model), R"(
Qwen3-30B-A3B                                             safetensors · 56.9 GiB
language model (qwen3_moe), 30.5 B parameters, 3.35 B active, bfloat16

  context      40,960 tokens (base 1,000,000)
  layers       48: hidden 2,048, 32 heads, 4 KV heads of 128
  experts      128, 8 per token, ffn 768
  embeddings   311 M + output 311 M (2 %)
  vocabulary   151,936, BPE; chat template with tools, thinking
  KV cache     96 KiB per token in f16: 768 MiB for 8,192, 3.75 GiB for all
  memory       57.6 GiB with 8,192 tokens
  licence      apache-2.0
  base         Qwen/Qwen3-30B-A3B-Base
  files        16 shards; also here: 1 GGUF, onnx/model.onnx

  block (model.)                   tensors    each      size   %  types
  embed_tokens                           1   311 M   594 MiB   1  bfloat16
  layers.0…47.self_attn             6 × 48  18.9 M  1.69 GiB   3  bfloat16
  layers.0…47: other                3 × 48   266 k  24.4 MiB   0  bfloat16
  layers.0…47.mlp.experts.0…127   3 × 6144  4.72 M  54.0 GiB  95  bfloat16
  norm                                   1   2.0 k   4.0 KiB   0  bfloat16
  lm_head                                1   311 M   594 MiB   1  bfloat16

--tensors: all 18,867 · --metadata: 41 entries · --json
)");
  EXPECT_EQ(screen(model, kNarrow), R"(
Qwen3-30B-A3B
language model (qwen3_moe), safetensors
30.5 B parameters, 3.35 B active
bfloat16, 56.9 GiB, 16 shards

  context     40,960 tokens
  layers      48: hidden 2,048, 32
              heads, 4 KV
  experts     128, 8 per token
  vocabulary  151,936, BPE
  KV cache    96 KiB per token
  memory      57.6 GiB, 8,192 tokens
  licence     apache-2.0

  block             each      size   %
  embed_tokens     311 M   594 MiB   1
  …self_attn ×48  18.9 M  1.69 GiB   3
  other ×48        266 k  24.4 MiB   0
  …experts ×6144  4.72 M  54.0 GiB  95
  norm             2.0 k   4.0 KiB   0
  lm_head          311 M   594 MiB   1

--tensors · --metadata · --json
)");
}

TEST(Screen, OnnxGraph) {
  const Summarised model = test::mobilenet_summary();
  EXPECT_EQ(screen(model), R"(
mobilenetv2.onnx                                          ONNX (IR 8) · 13.3 MiB
graph (pytorch 2.4), 3.49 M parameters, float32

  input        input float32 [batch_size,3,224,224]
  output       output float32 [batch_size,1000]
  operators    52 Conv, 35 Clip, 10 Add, Flatten, Gemm, GlobalAveragePool
  opset        17
  files        1; not verified (no digest known)

  block              tensors    each      size   %  types
  features               104  2.21 M  8.42 MiB  63  float32
  classifier.1             2  1.28 M  4.89 MiB  37  float32

--tensors: all 106 · --json · cat MODEL graph.json
)");
  EXPECT_EQ(screen(model, kNarrow), R"(
mobilenetv2.onnx
graph (pytorch 2.4), ONNX (IR 8)
3.49 M parameters, float32, 13.3 MiB

  input       input float32
              [batch_size,3,224,224]
  output      output float32
              [batch_size,1000]
  operators   52 Conv, 35 Clip, 10 Add,
              and 3 others

  block           each      size   %
  features      2.21 M  8.42 MiB  63
  classifier.1  1.28 M  4.89 MiB  37

--tensors · --json
)");
}

TEST(Screen, LoraWithStateOfItsTraining) {
  const Summarised model = test::lora_summary();
  EXPECT_EQ(screen(model), R"(
llama-3.1-8b-support-lora                                 safetensors · 26.0 MiB
LoRA adapter for meta-llama/Llama-3.1-8B, 6.82 M trainable parameters, float32

  rank         16, alpha 32 (scale 2)
  targets      q_proj, v_proj in 32 layers
  task         CAUSAL_LM
  base         meta-llama/Llama-3.1-8B
  licence      none stated
  training     state of 500 steps, 52.1 MiB: optimizer.pt and 3 others
  files        12, 78.3 MiB; not verified (no digest known)

  block (base_model.model.model.)    tensors   each      size   %  types
  layers.0…31.self_attn.q_proj        2 × 32  131 k  16.0 MiB  62  float32
  layers.0…31.self_attn.v_proj        2 × 32   82 k  10.0 MiB  38  float32

--tensors: all 128 · --metadata: 1 entry · --json
)");
  EXPECT_EQ(screen(model, kNarrow), R"(
llama-3.1-8b-support-lora
LoRA adapter, safetensors
6.82 M trainable parameters, 26.0 MiB

  rank        16, alpha 32 (scale 2)
  targets     q_proj, v_proj in 32
              layers
  base        meta-llama/Llama-3.1-8B
  training    500 steps, 52.1 MiB

--tensors · --metadata · --json
)");
}

TEST(Screen, CutGguf) {
  const Summarised model = test::cut_gguf_summary();
  EXPECT_EQ(screen(model), R"(
Llama 3.1 8B Instruct                                          GGUF 3 · 2.47 GiB
DAMAGED: the file ends 2.1 GiB early: 133 of 291 tensors refused;
interrupted download?
language model (llama), 8.03 B parameters, Q4_K_M: 4.89 bits per weight

  context      131,072 tokens (llama3 scaling, base 500,000)
  layers       32: hidden 4,096, ffn 14,336, 32 heads, 8 KV heads of 128
  embeddings   525 M + output 525 M (13 %)
  vocabulary   128,256, BPE; chat template with tools
  KV cache     128 KiB per token in f16: 1.00 GiB for 8,192, 16.0 GiB for all
  licence      llama3.1
  base         meta-llama/Llama-3.1-8B-Instruct
  files        1; 2.11 GiB missing; not verified (no digest known)

  block              tensors    each      size   %  types
  token_embd               1   525 M   282 MiB   6  q4_k
  blk.0…31.attn_*     5 × 32  41.9 M   737 MiB  16  q4_k, …; 74 refused
  blk.0…31.ffn_*      4 × 32   176 M  3.18 GiB  69  q4_k, …; 57 refused
  output_norm              1   4.1 k    16 KiB   0  refused
  output                   1   525 M   411 MiB   9  refused

--tensors: all 291 · --metadata: 33 entries · --json
)");
  EXPECT_EQ(screen(model, kNarrow), R"(
Llama 3.1 8B Instruct
DAMAGED: the file ends 2.1 GiB early:
133 of 291 tensors refused;
interrupted download?
language model (llama), GGUF 3
8.03 B parameters, 2.47 of 4.58 GiB
Q4_K_M: 4.89 bits per weight

  context     131,072 tokens
  layers      32: hidden 4,096, ffn
              14,336, 32 heads, 8 KV
  vocabulary  128,256, BPE
  KV cache    128 KiB per token
  licence     llama3.1

  block           each      size   %
  token_embd     525 M   282 MiB   6
  …attn_* ×32   41.9 M   737 MiB  16
  …ffn_* ×32     176 M  3.18 GiB  69
  output_norm    4.1 k    16 KiB   0
  output         525 M   411 MiB   9

--tensors · --metadata · --json
)");
}

// Every fact that there is, with long texts.
Summarised crowded() {
  Summarised model = test::qwen3_summary();
  summary::Summary& s = model.summary;
  s.name = std::string(300, 'n');
  s.license = "a licence with a long name";
  s.experts_shared = 1;
  s.parameters_mtp = 5'000'000'000;
  s.parameters_vision = s.parameters_audio = 1'000'000;
  s.projector = "mmproj-" + std::string(200, 'p') + ".gguf";
  s.image_size = 336;
  s.patch_size = 14;
  s.labels = 1000;
  s.embedding_size = 384;
  s.pooling = "mean";
  s.languages = {"en", "de", "fr", "it", "es", "pt"};
  s.repository = "Qwen/Qwen3-30B-A3B";
  s.commit = std::string(40, 'c');
  s.inputs = s.outputs = std::vector<std::string>(20, "a_long_name_of_a_tensor float32 [batch,sequence,1024]");
  for (int i = 0; i < 100; ++i) s.components.push_back({fmt::format("component{}", i), "Class", 12'345, 12'345});
  add_pickled_code(model.model.common, "os.system, builtins.exec, subprocess.Popen", kUnpickled);
  return model;
}

// info-screen.md, 6: no more than 24 lines, no line wider, whatever the model.
TEST(Screen, StaysWithinTwentyFourLinesOfItsWidth) {
  std::vector<Summarised> models = all_models();
  models.push_back(crowded());
  for (const Summarised& model : models)
    for (size_t width = 40; width <= 140; width += 5)
      for (const Charset charset : {Charset::utf8, Charset::ascii}) {
        const auto lines = lines_of(render_screen(model.subject(), {width, charset, Colours::off}));
        EXPECT_LE(lines.size(), info::kMaxLines) << width;
        for (const std::string& line : lines) EXPECT_LE(info::width_of(line), width) << line;
      }
}

TEST(Screen, DropsLeastImportantFactsFirst) {
  const std::string shown = screen(crowded());
  EXPECT_THAT(shown, HasSubstr("\nRUNS CODE: os.system, builtins.exec, subprocess.Popen when the file is unpickled\n"));
  EXPECT_THAT(shown, HasSubstr("30.5 B parameters, 3.35 B active"));
  for (const char* dropped : {"languages", "repository", "  base ", "embeddings"})
    EXPECT_THAT(shown, Not(HasSubstr(dropped))) << dropped;
}

TEST(Screen, FilesStayIfThereAreAlternatives) {
  Summarised model = test::qwen3_summary();
  model.summary.languages = {"en"};
  model.summary.repository = "Qwen/Qwen3-30B-A3B";
  model.summary.labels = 2;
  const std::string shown = screen(model);
  EXPECT_THAT(shown, Not(HasSubstr("repository")));
  EXPECT_THAT(shown, HasSubstr("also here: 1 GGUF, onnx/model.onnx"));
}

TEST(Screen, AsciiHasNoOtherBytes) {
  Summarised model = test::llama_gguf_summary();
  model.summary.name = "Größe \xFF 模型 …";
  const std::string shown = render_screen(model.subject(), {80, Charset::ascii, Colours::off});
  EXPECT_TRUE(std::ranges::all_of(shown, [](char c) { return static_cast<uint8_t>(c) < 0x7F; }));
  EXPECT_THAT(shown, HasSubstr("Gr??e ? ?? ...    "));
  EXPECT_THAT(shown, HasSubstr("  blk.0...31.attn_*   5 x 32  41.9 M   737 MiB  16  q4_k, 16 with q6_k; float32\n"));
  EXPECT_THAT(shown, HasSubstr("\n--tensors: all 291 - --metadata: 33 entries - --json\n"));
}

TEST(Screen, ColoursMarkNameParametersDamageAndGuesses) {
  Summarised model = test::cut_gguf_summary();
  model.summary.quantisation->is_guessed = true;
  const std::string shown = render_screen(model.subject(), {80, Charset::utf8, Colours::on});
  for (const char* part : {"\033[1mLlama 3.1 8B Instruct\033[0m", "\033[1m8.03 B parameters\033[0m",
                           "\033[31mDAMAGED: the file ends 2.1 GiB early: 133 of 291 tensors refused;\033[0m\n"
                           "\033[31minterrupted download?\033[0m\n",
                           "\033[31m74 refused\033[0m", "Q4_K_M \033[33m(guessed)\033[0m: 4.89", "\033[2m 0\033[0m",
                           "\033[2m--tensors: all 291"})
    EXPECT_THAT(shown, HasSubstr(part));
  std::string plain;
  for (size_t i = 0; i < shown.size(); ++i)
    if (shown[i] == '\033')
      i = shown.find('m', i);
    else
      plain += shown[i];
  EXPECT_EQ(plain, render_screen(model.subject(), kWide));
}

TEST(Screen, ControlCharactersAndDirectionsOfNamesAreReplaced) {
  Summarised model = test::llama_gguf_summary();
  model.summary.name =
      "a\x1B[31mb\nc\u202E"
      "d\x01";
  EXPECT_EQ(lines_of(render_screen(model.subject(), kNarrow)).front(), "a?[31mb?c?d?");
}

TEST(Screen, WideTerminalsHaveBars) {
  const Summarised model = test::llama_gguf_summary();
  const auto at = [&](size_t width, Charset charset) { return render_screen(model.subject(), {width, charset}); };
  EXPECT_THAT(at(100, Charset::utf8), HasSubstr("  69  █████▌    q4_k, 16 with q6_k; float32\n"));
  EXPECT_THAT(at(99, Charset::utf8), Not(HasSubstr("█")));
  EXPECT_THAT(at(100, Charset::ascii), HasSubstr("  69  q4_k, 16 with q6_k; float32\n"));
}

TEST(Screen, BlocksAreFoldedLessIfAsked) {
  const Summarised model = test::mobilenet_summary();
  EXPECT_THAT(screen(model), HasSubstr("\n  features               104  2.21 M"));
  const auto shown = lines_of(render_screen(model.subject(), kWide, 40));
  EXPECT_GT(shown.size(), info::kMaxLines);
  EXPECT_THAT(shown, testing::Contains(testing::StartsWith("  features.8…10.conv           6 × 3    53 k")));
}

TEST(Screen, NameOfTheSourceIsShownIfTheModelHasNone) {
  Summarised model = test::llama_gguf_summary();
  model.summary.name.clear();
  EXPECT_THAT(screen(model), testing::StartsWith("\nLlama-3.1-8B-Instruct-Q4_K_M.gguf  "));
}

TEST(Screen, UnknownFactsHaveNoLine) {
  Summarised model;
  model.model.format = "npz";
  model.summary.kind = "tensors";
  model.summary.name = "arrays";
  EXPECT_EQ(screen(model), R"(
arrays                                                                 npz · 0 B
tensors

  files        0

--json
)");
}

TEST(Screen, PackedWeightsOfAnUnknownKindHaveALine) {
  Summarised model = test::qwen3_summary();
  model.summary.parameters.reset();
  model.summary.parameters_active.reset();
  model.summary.warnings = {"packed weights of an unknown kind: the number of parameters is incomplete"};
  const std::string shown = screen(model);
  EXPECT_THAT(shown, HasSubstr("\nlanguage model (qwen3_moe), bfloat16\n"));
  EXPECT_THAT(shown, HasSubstr("  parameters   packed weights of an unknown kind: the number of parameters is\n"
                               "               incomplete\n"));
}

// There is no warnings.txt without a mount.
TEST(Screen, HasFewWarningsAndOfManyTheCommandThatPrintsThem) {
  Summarised model = test::qwen3_summary();
  EXPECT_THAT(screen(model), Not(HasSubstr("warning")));
  model.model.warnings = {"tensor \"a\": odd", "key\x1b: odd"};
  model.summary.warnings = {"config.json: not JSON; ignored"};
  for (const char* shown : {"\n  warning      tensor \"a\": odd\n", "\n  warning      key?: odd\n",
                            "\n  warning      config.json: not JSON; ignored\n"})
    EXPECT_THAT(screen(model), HasSubstr(shown));
  EXPECT_THAT(screen(model, kNarrow), HasSubstr("\n  warning     tensor \"a\": odd\n")) << "more have no room";
  model.model.warnings.resize(120, "further");
  EXPECT_THAT(screen(model), HasSubstr("\n  warnings     120: weightfs cat "));
  EXPECT_THAT(screen(model), HasSubstr(" warnings.txt\n  warnings     1 about its facts: --json\n"));
  EXPECT_THAT(screen(model), Not(HasSubstr("further")));
}

// The alert says the same.
TEST(Screen, WarningAboutWhatIsMissingIsNotRepeated) {
  Summarised model = test::qwen3_summary();
  model.model.warnings = {"tensor w is missing", "another"};
  model.model.lacks.edit().by_code[static_cast<size_t>(Code::corrupt)] = {1, "tensor w is missing"};
  EXPECT_THAT(screen(model), HasSubstr("\n  warning      another\n"));
  EXPECT_THAT(screen(model), Not(HasSubstr("warning      tensor w")));
}

TEST(Screen, MissingShardsMakeItIncomplete) {
  Summarised model = test::qwen3_summary();
  Lacks& lacks = model.model.lacks.edit();
  lacks.files = 1;
  lacks.by_code[static_cast<size_t>(Code::not_found)] = {1,
                                                         "1 of 16 shards is missing: model-00003-of-00016.safetensors"};
  EXPECT_THAT(screen(model), HasSubstr("\nINCOMPLETE: 1 of 16 shards is missing: "
                                       "model-00003-of-00016.safetensors\nlanguage model"));
}

TEST(Screen, CacheOfAUsualConversationRespectsWindows) {
  Summarised model = test::llama_gguf_summary();
  summary::Summary& s = model.summary;
  s.context_length = 32768;
  // 10 layers of 1 KiB per token, of which 8 have the window.
  s.kv_cache = summary::KvCache{10 << 10, uint64_t{2 << 10} * 32768 + uint64_t{8 << 10} * 1024, {}, 1024};
  EXPECT_THAT(screen(model), HasSubstr("10 KiB per token in f16: 24.0 MiB for 8,192, 72.0 MiB for all"));
}

TEST(Screen, LabelOfTheFileNameIsBesideTheQuantisation) {
  Summarised model = test::llama_gguf_summary();
  model.summary.quantisation->label = "UD-Q4_K_XL";
  EXPECT_THAT(screen(model), HasSubstr("Q4_K_M (file name: UD-Q4_K_XL): 4.89\nbits per weight\n"));
}

TEST(Screen, LayerThatPredictsTokensIsNamed) {
  Summarised model = test::summarised(test::deepseek_v3());
  model.summary.kind = "causal-lm";
  model.summary.layers = 61;
  model.summary.parameters_mtp = 13'463'426'304;
  const std::string shown = screen(model);
  EXPECT_THAT(shown, HasSubstr("\n  layers.61 (MTP)                      788  13.5 B  14.4 GiB   2  "));
  EXPECT_THAT(shown, HasSubstr("\n  layers.3…60.mlp.experts.0…255  3 × 14848  44.0 M   609 GiB  95  float8_e4m3fn\n"));
}

}  // namespace
}  // namespace weightfs::info_screen_test
