// Tensors that are made of config.json. The values of Llama 3 are those that torch computes.
#include "formats/mapping/config/rope.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/mapping/repository_support.h"

namespace weightfs::rope_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The names and values of the tensors; or the refusal, as one line.
std::vector<std::string> tensors_of(const std::string& config) {
  const auto repository = test::hub_repository({{"config.json", config}});
  if (repository == nullptr) return {};
  const auto tensors = mapping::generated_tensors(*repository);
  if (!tensors) return {tensors.error().message};
  std::vector<std::string> out;
  for (const mapping::NamedFloats& tensor : *tensors)
    out.push_back(fmt::format("{} {}", tensor.name, fmt::join(tensor.values, " ")));
  return out;
}

std::string llama(const std::string& rope, const std::string& class_name = "LlamaForCausalLM") {
  return fmt::format(R"({{"architectures": ["{}"], "hidden_size": 64, "num_attention_heads": 4, {}}})", class_name,
                     rope);
}

const std::string kLlama3 = R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})";

TEST(Rope, Llama3SlowsLongWaves) {
  EXPECT_THAT(tensors_of(llama(kLlama3)), ElementsAre("rope_freqs.weight 1 2.4422596 8 8 8 8 8 8"));
  EXPECT_THAT(tensors_of(llama(kLlama3, "SmolLM3ForCausalLM")), testing::SizeIs(1));
  EXPECT_THAT(tensors_of(llama(R"("rope_theta": 500000.0)")), IsEmpty());
}

TEST(Rope, Llama3WithImpossibleFactorsIsRefused) {
  for (const char* const rope : {R"("factor": 0.5)", R"("low_freq_factor": 4)", R"("high_freq_factor": 0)"})
    EXPECT_THAT(tensors_of(llama(fmt::format(R"("rope_scaling": {{"rope_type": "llama3", {}}})", rope))),
                ElementsAre("config.json: the factors of llama3 scaling are impossible"));
}

TEST(Rope, Gemma4RotatesAPartOfEachHead) {
  EXPECT_THAT(tensors_of(R"({"architectures": ["Gemma4ForCausalLM"], "num_hidden_layers": 1, "global_head_dim": 16})"),
              ElementsAre("rope_freqs.weight 1 1 1e+30 1e+30 1e+30 1e+30 1e+30 1e+30"));
  EXPECT_THAT(tensors_of(R"({"architectures": ["Gemma4ForCausalLM"], "num_hidden_layers": 1, "rope_parameters":
                            {"full_attention": {"rope_type": "default"}}})"),
              ElementsAre("config.json: gemma4 needs rope_parameters.full_attention of rope_type proportional"));
}

std::string phi3(const std::string& rope) {
  return llama(R"("max_position_embeddings": 512, "original_max_position_embeddings": 128,
                  "partial_rotary_factor": 0.25, "rope_scaling": )" +
                   rope,
               "Phi3ForCausalLM");
}

TEST(Rope, FactorsOfPhi3) {
  const std::string both = R"({"type": "longrope", "long_factor": [1, 1.5], "short_factor": [1.25, 2]})";
  EXPECT_THAT(tensors_of(phi3(both)),
              ElementsAre("rope_factors_long.weight 1 1.5", "rope_factors_short.weight 1.25 2"));
  EXPECT_THAT(tensors_of(phi3("null")), IsEmpty());
  EXPECT_THAT(tensors_of(phi3(R"({"type": "longrope", "long_factor": [1, 1.5], "short_factor": [1]})")),
              ElementsAre("config.json: short_factor has 1 numbers, 2 needed"));
  EXPECT_THAT(tensors_of(phi3(R"({"type": "longrope", "long_factor": [1, "x"], "short_factor": [1, 2]})")),
              ElementsAre("config.json: long_factor is not a number of float32 from 0 on"));
  EXPECT_THAT(tensors_of(phi3(R"({"type": "linear", "long_factor": [1, 2], "short_factor": [1, 2]})")),
              ElementsAre("config.json: phi3 has no rope_type linear with long factors"));
  EXPECT_THAT(tensors_of(phi3(R"({"type": "su", "long_factor": [1, 2], "short_factor": [1, 2],
                                  "original_max_position_embeddings": 1})")),
              ElementsAre("config.json: original_max_position_embeddings is 1"));
}

}  // namespace
}  // namespace weightfs::rope_test
