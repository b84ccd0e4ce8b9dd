// general.* by the model card, the settings for generation and the name of the repository.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/mapping/config/model_name.h"
#include "formats/mapping/model_keys.h"
#include "tests/formats/mapping/repository_support.h"

namespace weightfs::general_keys_test {
namespace {

using mapping::Keys;
using mapping::ParameterCount;
using testing::Contains;
using testing::ElementsAre;

const std::string kConfig = R"({"architectures": ["LlamaForCausalLM"])";

std::vector<std::string> general(test::Files files, const std::string& name, uint64_t parameters = 8'030'261'248) {
  files.emplace("config.json", kConfig + "}");
  const auto repository = test::hub_repository(std::move(files), name);
  if (repository == nullptr) return {};
  ParameterCount count;
  count.add("token_embd.weight", Shape{parameters});
  Keys keys;
  mapping::add_general(*repository, count, keys);
  return test::lines_of(keys);
}

TEST(GeneralKeys, NameOfTheDirectoryIsTheModels) {
  EXPECT_THAT(
      general({}, "Llama-3.1-8B-Instruct"),
      ElementsAre("general.architecture str llama", "general.type str model", "general.name str Llama 3.1 8B Instruct",
                  "general.finetune str Instruct", "general.basename str Llama-3.1", "general.size_label str 8B"));
  EXPECT_THAT(general({}, "tiny-llama2"), ElementsAre("general.architecture str llama", "general.type str model",
                                                      "general.name str Tiny Llama2", "general.size_label str 8.0B"));
}

TEST(GeneralKeys, NameUnderWhichItWasSavedComesFirst) {
  const auto lines = general({{"config.json", kConfig + R"(, "_name_or_path": "foo-labs/Bar-7B-v2"})"}}, "x");
  EXPECT_THAT(lines, testing::IsSupersetOf({"general.name str Bar 7B v2", "general.organization str Foo Labs",
                                            "general.version str v2", "general.size_label str 7B"}));
  EXPECT_THAT(general({{"config.json", kConfig + R"(, "_name_or_path": "/home/me/x-7B"})"}}, "y"),
              Contains("general.name str Y"));
}

TEST(GeneralKeys, CardAndSettingsForGeneration) {
  const std::string card =
      "---\nlicense: llama3.2\nlicense_link: https://x/y\nlanguage:\n- en\n- no\ntags:\n- a\n- b\n"
      "pipeline_tag: text-generation\nbase_model: meta-llama/Llama-3.2-1B\ndatasets:\n"
      "- foo/bar-baz\n- https://huggingface.co/a/b\n- https://example.org/c\n---\n# Tiny\n";
  const std::string generation = R"({"temperature": 0.5, "top_p": 0.25, "top_k": 20, "repetition_penalty": 1.5})";
  EXPECT_THAT(
      general({{"README.md", card}, {"generation_config.json", generation}}, "Tiny-Llama3-1B-Instruct", 172'000),
      ElementsAre(
          "general.architecture str llama", "general.type str model", "general.sampling.top_k i32 20",
          "general.sampling.top_p f32 0.25", "general.sampling.temp f32 0.5", "general.sampling.penalty_repeat f32 1.5",
          "general.name str Tiny Llama3 1B Instruct", "general.finetune str 1b-Instruct",
          "general.basename str Tiny-Llama3", "general.size_label str 172K", "general.license str llama3.2",
          "general.license.link str https://x/y", "general.base_model.count u32 1",
          "general.base_model.0.name str Llama 3.2 1B", "general.base_model.0.organization str Meta Llama",
          "general.base_model.0.repo_url str https://huggingface.co/meta-llama/Llama-3.2-1B",
          "general.dataset.count u32 3", "general.dataset.0.name str Bar Baz", "general.dataset.0.organization str Foo",
          "general.dataset.0.repo_url str https://huggingface.co/foo/bar-baz", "general.dataset.1.name str B",
          "general.dataset.1.organization str A", "general.dataset.1.repo_url str https://huggingface.co/a/b",
          "general.dataset.2.repo_url str https://example.org/c", "general.tags str[] a b text-generation",
          "general.languages str[] en no"));
}

TEST(GeneralKeys, CardMayNameTheModel) {
  EXPECT_THAT(general({{"README.md", "---\nmodel_name: A Model\nmodel_creator: B\nmodel_type: llama\n---\n"}}, "x-7B"),
              testing::IsSupersetOf({"general.name str A Model", "general.author str B", "general.basename str llama",
                                     "general.size_label str 7B"}));
}

TEST(GeneralKeys, FactorOfPhi3StandsBeforeTheType) {
  const std::string config = R"({"architectures": ["Phi3ForCausalLM"], "max_position_embeddings": 512, "rope_scaling":
      {"type": "longrope", "long_factor": [1], "short_factor": [1]}, "original_max_position_embeddings": 128})";
  const auto lines = general({{"config.json", config}}, "x");
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines[1], "phi3.rope.scaling.attn_factor f32 1.1338934");
  EXPECT_EQ(lines[2], "general.type str model");
}

struct NameRow {
  const char* name;
  const char* parts;  // base name | finetune | version | size
};

TEST(ModelName, PartsOfNamesOfTheHub) {
  for (const NameRow& row : {
           NameRow{"Qwen2.5-7B-Instruct", "Qwen2.5|Instruct||7B"},
           NameRow{"gemma-3-4b-it", "gemma-3|it||4B"},
           NameRow{"Mixtral-8x7B-Instruct-v0.1", "Mixtral|Instruct|v0.1|8x7B"},
           NameRow{"Qwen3-8B-A3B-Instruct-2507", "Qwen3|Instruct|2507|8B-A3B"},
           NameRow{"Llama-3-8B-Instruct-1048K", "Llama-3|Instruct-1048k||8B"},
           NameRow{"phi-3-mini-4k-instruct", "phi-3|4k-instruct||mini"},
           NameRow{"bloom-7b1", "bloom|||7.1B"},
           NameRow{"small-large-7b", "small-large|||7B"},
           NameRow{"bge-large-en-v1.5", "bge|en|v1.5|large"},
           NameRow{"x-Q4_K_M", "|||"},
           NameRow{"gpt2", "|||"},
           NameRow{"a b-7B", "|||"},
       }) {
    const mapping::ModelName found = mapping::parse_model_name(row.name, 7'000'000'000);
    EXPECT_EQ(fmt::format("{}|{}|{}|{}", found.basename.value_or(""), found.finetune.value_or(""),
                          found.version.value_or(""), found.size_label.value_or("")),
              row.parts)
        << row.name;
  }
}

TEST(ModelName, TitlesKeepAcronymsAndVersions) {
  EXPECT_EQ(mapping::title_of("tiny-llama3-1b-GGUF-v0.3-foo.bar"), "Tiny Llama3 1b GGUF v0.3 Foo.Bar");
}

TEST(ParameterCount, LabelHasTwoDigits) {
  const auto label = [](uint64_t count) {
    ParameterCount out;
    out.add("x", Shape{count});
    return out.label();
  };
  EXPECT_EQ(label(0), "");
  EXPECT_EQ(label(12), "0.01K");
  EXPECT_EQ(label(1'235), "1.2K");
  EXPECT_EQ(label(9'960'000), "10M");
  EXPECT_EQ(label(8'030'261'248), "8.0B");
  EXPECT_EQ(label(671'000'000'000), "671B");
  EXPECT_EQ(label(UINT64_MAX), "");  // more than any model has
}

TEST(ParameterCount, ExpertsAreCountedByOne) {
  ParameterCount count;
  count.add("token_embd.weight", Shape{1000, 100});
  count.add("blk.0.ffn_up_exps.weight", Shape{8, 100, 10});
  count.add("blk.0.ffn_up_exps.bias", Shape{8, 100});
  EXPECT_EQ(count.total(), 108'800u);
  EXPECT_EQ(count.label(), "8x102K");
}

}  // namespace
}  // namespace weightfs::general_keys_test
