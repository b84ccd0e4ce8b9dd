#include "report/info/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/named_tensors.h"

namespace weightfs::info_models_test {
namespace {

using info::Charset;
using info::Colours;
using info::DirectoryItem;
using info::Style;
using testing::HasSubstr;

constexpr Style kWide{80, Charset::utf8, Colours::off};

// A language model of one GGUF with this file type.
ModelPtr gguf(std::string_view dtype, uint64_t file_type, uint64_t bytes) {
  auto model = std::make_shared<Model>();
  model->format = "gguf";
  model->version = "3";
  test::NamedTensors tensors;
  tensors.add("token_embd.weight", dtype, {1024, 256}).add("blk.0.attn_q.weight", dtype, {1024, 256});
  model->tensors = std::move(tensors.tensors);
  model->metadata.append("general.architecture", "llama");
  model->metadata.append("general.file_type", file_type);
  model->metadata.append("general.license", "llama3.1");
  model->metadata.append("llama.block_count", 1);
  model->parts.push_back({"m.gguf", Later<SourcePtr>::of(std::make_shared<test::CountedSource>("", bytes))});
  return model;
}

ModelPtr cut_gguf() {
  const auto model = std::const_pointer_cast<Model>(gguf("q8_0", 7, 300'000));
  Lacks& lacks = model->lacks.edit();
  lacks.short_by = 300'000;
  lacks.by_code[static_cast<size_t>(Code::corrupt)] = {1, "cut"};
  return model;
}

std::vector<DirectoryItem> models() {
  std::vector<DirectoryItem> out;
  out.push_back({"README.md", nullptr, "file", {}});
  out.push_back({"Tiny-Q2_K.gguf", nullptr, "file",
                 Error{Code::unsupported, "a Git LFS pointer to a file of 3.0 GiB (3,179,131,456 bytes)"}});
  out.push_back({"Tiny-Q6_K.gguf", gguf("q6_k", 18, 440'000), "directory", {}});
  out.push_back({"Tiny-Q8_0.gguf", cut_gguf(), "directory", {}});
  out.push_back({"Tiny-Q4_0.gguf", gguf("q4_0", 2, 250'000), "directory", {}});
  return out;
}

TEST(InfoModels, TableIsSortedBySizeWithBadFilesLast) {
  EXPECT_EQ("\n" + info::render_models(models(), "hf://org/Tiny-GGUF", kWide), R"(
org/Tiny-GGUF                                                 3 models · 967 KiB
licence llama3.1

  model           kind            parameters  quantised   bits      size
  Tiny-Q4_0.gguf  language model       524 k  Q4_0        4.50   244 KiB
  Tiny-Q8_0.gguf  DAMAGED: ends 293 KiB early             8.50   293 KiB
  Tiny-Q6_K.gguf  language model       524 k  Q6_K        6.56   430 KiB
  Tiny-Q2_K.gguf  a Git LFS pointer to a file of 3.0 GiB (3,179,131,456 bytes)
  and 1 other file

name one: weightfs info hf://org/Tiny-GGUF/Tiny-Q4_0.gguf
)");
}

TEST(InfoModels, NarrowTableHasNamesTypesAndSizes) {
  EXPECT_EQ("\n" + info::render_models(models(), "hf://org/Tiny-GGUF", {40, Charset::utf8, Colours::off}), R"(
org/Tiny-GGUF         3 models · 967 KiB
licence llama3.1

  model           quantised      size
  Tiny-Q4_0.gguf  Q4_0        244 KiB
  Tiny-Q8_0.gguf  DAMAGED: ends 293 KiB…
  Tiny-Q6_K.gguf  Q6_K        430 KiB
  Tiny-Q2_K.gguf  a Git LFS pointer to …
  and 1 other file

name one for its screen
)");
}

TEST(InfoModels, LongNamesLoseTheirBeginningOrHaveLinesOfTheirOwn) {
  std::vector<DirectoryItem> items = models();
  for (DirectoryItem& item : items) item.name.insert(0, "Llama-3.1-8B-Instruct-");
  items.erase(items.begin());
  EXPECT_THAT(info::render_models(items, "q", kWide), HasSubstr(R"(
  model (Llama-3.1-8B-Instruct-Tiny-)
             kind            parameters  quantised   bits      size
  Q4_0.gguf  language model       524 k  Q4_0        4.50   244 KiB
)"));
  items.front().name = "another-model-with-a-name-that-is-long.gguf";
  EXPECT_THAT(info::render_models(items, "q", {40, Charset::utf8, Colours::off}), HasSubstr(R"(
  model
    quantised      size
  Llama-3.1-8B-Instruct-Tiny-Q4_0.gguf
    Q4_0        244 KiB
)"));
}

TEST(InfoModels, PlainTypesHaveOneName) {
  std::vector<DirectoryItem> items = {{"a.gguf", gguf("float32", 0, 100), "directory", {}}};
  EXPECT_THAT(info::render_models(items, "q", kWide), HasSubstr("  float32    32.00"));
}

TEST(InfoModels, CommandIsQuotedForAShell) {
  std::vector<DirectoryItem> items = models();
  items.back().name = "it's me.gguf";
  EXPECT_THAT(info::render_models(items, "q 2's", kWide), HasSubstr(R"(weightfs info 'q 2'\''s/it'\''s me.gguf')"));
  items.back().name = "a\nb.gguf";
  EXPECT_THAT(info::render_models(items, "q", kWide), HasSubstr("\nname one for its screen\n"));
}

// semantics 27.3
TEST(InfoModels, RowsSayWhatIsWrongInThePlaceOfTheKind) {
  testing::internal::CaptureStdout();
  info::print_rows(models());
  EXPECT_EQ("\n" + testing::internal::GetCapturedStdout(), R"(
name	format	tensors	bytes	kind	parameters	quantisation	bits_per_weight	code
README.md	file							
Tiny-Q2_K.gguf				a Git LFS pointer to a file of 3.0 GiB (3,179,131,456 bytes)				
Tiny-Q6_K.gguf	gguf	2	430080	causal-lm	524288	Q6_K	6.56	
Tiny-Q8_0.gguf	gguf	2	557056	DAMAGED: ends 293 KiB early	524288	Q8_0	8.50	
Tiny-Q4_0.gguf	gguf	2	294912	causal-lm	524288	Q4_0	4.50	
)");
}

TEST(InfoModels, LinesFitAnyWidth) {
  for (size_t width = 40; width < 120; ++width)
    for (const Charset charset : {Charset::utf8, Charset::ascii}) {
      std::string text =
          info::render_models(models(), "a/directory/with/a/name/that/is/long", {width, charset, Colours::off});
      while (!text.empty()) {
        EXPECT_LE(info::width_of(std::string_view(text).substr(0, text.find('\n'))), width) << text;
        text.erase(0, text.find('\n') + 1);
      }
    }
}

}  // namespace
}  // namespace weightfs::info_models_test
