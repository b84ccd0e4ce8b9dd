// The pictures of a whole model: its overview, its experts, and the bars of its layers.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/values/json.h"
#include "formats/format.h"
#include "fs/layout/layout.h"
#include "serve/api/api.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/surroundings.h"

namespace weightfs::overview_of_api_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

// `count` elements of one number.
std::string numbers_of(size_t count, float number) {
  std::string out(count * sizeof(float), '\0');
  for (size_t i = 0; i < count; ++i) std::memcpy(out.data() + i * sizeof(float), &number, sizeof(float));
  return out;
}

class Served {
 public:
  explicit Served(const SafetensorsBuilder& builder)
      : forest_(lay_out(std::make_shared<Model>(read_model({"m.safetensors", in_memory(builder.build())}).value()), "m",
                        1'700'000'000'000'000'000)),
        api_(forest_, "m.safetensors", [](const std::string& path) { return "/" + path; }) {}

  std::string body(const std::string& target) {
    httpd::Request request;
    request.method = "GET";
    request.target = "/.weightfs/api/v1/" + target;
    const auto answered = api_.answer(request, httpd::parse_target(request.target).value(), {}).value();
    if (!answered) return answered.error().message;
    std::string out;
    for (const httpd::BodyPart& part : answered->body) {
      if (const auto* text = std::get_if<std::string>(&part)) out += *text;
      if (const auto* shared = std::get_if<httpd::SharedText>(&part)) out += *shared->text;
    }
    return out;
  }

  // The members of a response as JSON, each behind its name.
  std::vector<std::string> members(const std::string& target, const std::vector<const char*>& names) {
    const std::string text = body(target);
    const SourcePtr source = in_memory(text);
    const auto parsed = parse_json(*source, 0, text.size());
    EXPECT_TRUE(parsed.has_value()) << text;
    if (!parsed) return {};
    std::vector<std::string> out;
    for (const char* name : names) {
      const auto& map = std::get<Map>(*parsed);
      const auto found = std::ranges::find_if(map, [&](const auto& member) { return member.first == name; });
      std::string line = found == map.end() ? "none" : to_json_line(found->second);
      while (!line.empty() && line.back() == '\n') line.pop_back();
      out.push_back(fmt::format("{} {}", name, line));
    }
    return out;
  }

 private:
  Forest forest_;
  api::Api api_;
};

// Two layers of a matrix, a norm and three experts, an embedding of another type.
SafetensorsBuilder experts() {
  SafetensorsBuilder builder;
  builder.tensor("embed.weight", "F16", "2,2", "halfhalf");
  for (int layer = 0; layer < 2; ++layer) {
    builder.tensor(fmt::format("h.{}.q.weight", layer), "F32", "2,2", numbers_of(4, 2));
    builder.tensor(fmt::format("h.{}.norm.weight", layer), "F32", "2", numbers_of(2, 1));
    for (int expert = 0; expert < 3; ++expert)
      builder.tensor(fmt::format("h.{}.experts.{}.up.weight", layer, expert), "F32", "1,2",
                     numbers_of(2, static_cast<float>(expert + 1)));
  }
  return builder;
}

TEST(OverviewOfApi, ExpertsOfALayerAreOneCell) {
  Served served(experts());
  EXPECT_THAT(served.members("overview?metric=type", {"rows", "unders", "columns", "vectors"}),
              ElementsAre(R"(rows ["embed.weight","h.0","h.1"])", R"(unders ["","h.0.","h.1."])",
                          R"x(columns ["(no layer)","q.weight","norm.weight","experts.*.up.weight"])x",
                          "vectors [false,false,true,true]"));
  EXPECT_THAT(
      served.members("overview?metric=type", {"values", "tensors", "counts"}),
      ElementsAre("values [[0.0,null,null,null],[null,1.0,1.0,1.0],[null,1.0,1.0,1.0]]",
                  "tensors [[0,null,null,null],[null,1,2,3],[null,6,7,8]]", "counts [[1,0,0,0],[0,1,1,3],[0,1,1,3]]"));
  EXPECT_THAT(
      served.body("overview?metric=type"),
      HasSubstr(R"("types":[{"name":"float16","tensors":1,"bytes":8},{"name":"float32","tensors":10,"bytes":96}])"));
}

TEST(OverviewOfApi, NumberOfExpertsIsThatOfAllTheirElements) {
  Served served(experts());
  EXPECT_THAT(served.members("overview?metric=mean&mode=full", {"values", "sample"}),
              ElementsAre(testing::MatchesRegex(
                              R"(values \[\[[-.e0-9]+,null,null,null\],\[null,2.0,1.0,2.0\],\[null,2.0,1.0,2.0\]\])"),
                          "sample false"));
  EXPECT_THAT(served.body("overview?metric=largest&mode=full"), HasSubstr("[null,2.0,1.0,3.0]"));
}

TEST(OverviewOfApi, TypesOfExpertsThatDifferAreNamedTogether) {
  SafetensorsBuilder builder;
  builder.tensor("h.0.experts.0.up.weight", "F32", "1,1", "four").tensor("h.0.experts.1.up.weight", "F16", "1,1", "22");
  EXPECT_THAT(Served(builder).body("overview?metric=type"), HasSubstr(R"("name":"float32 and float16")"));
}

TEST(OverviewOfApi, CellsOfExpertsNameTheirTensors) {
  Served served(experts());
  EXPECT_THAT(served.members("model", {"has_experts"}), ElementsAre("has_experts true"));
  EXPECT_THAT(served.members("experts?mode=full", {"columns", "tensors", "counts"}),
              ElementsAre(R"(columns ["0","1","2"])", "tensors [[3,4,5],[8,9,10]]", "counts [[1,1,1],[1,1,1]]"));
}

TEST(BarsOfApi, TensorsBesideTheLayersAreNamedByWhatTheyAre) {
  SafetensorsBuilder builder;
  builder.tensor("model.embed_tokens.weight", "F16", "2,2", "halfhalf");
  builder.tensor("model.layers.0.q_proj.weight", "F16", "1,1", "22")
      .tensor("model.layers.0.norm.weight", "F16", "1", "22");
  builder.tensor("model.norm.weight", "F16", "1", "22").tensor("lm_head.weight", "F16", "1,1", "22");
  builder.tensor("model.rotary.a", "F16", "1", "22").tensor("model.rotary.b", "F16", "1", "22");
  builder.tensor("model.a", "F16", "1", "22");
  const std::string bars = Served(builder).body("model");
  for (const char* bar :
       {R"({"name":"embeddings","under":"model.embed_tokens.weight","tensor":0,"bytes":8,"kinds":[0,0,0,8,0,0]})",
        R"({"name":"model.layers.0","under":"model.layers.0.","tensor":null,"bytes":4,"kinds":[2,0,0,0,2,0]})",
        R"({"name":"norms","under":"model.norm.weight","tensor":3,)",
        R"({"name":"head","under":"lm_head.weight","tensor":4,)",
        R"({"name":"other tensors","under":"","tensor":null,)"})
    EXPECT_THAT(bars, HasSubstr(bar));
}

TEST(BarsOfApi, ModelWithoutLayersHasBarsOfModules) {
  SafetensorsBuilder builder;
  builder.tensor("conv1a.weight", "F16", "2,2", "halfhalf").tensor("conv1a.bias", "F16", "1", "22");
  builder.tensor("conv1b.weight", "F16", "2,2", "halfhalf");
  const std::string bars = Served(builder).body("model");
  EXPECT_THAT(
      bars,
      HasSubstr(R"("bars":{"of":"modules","layers":[{"name":"conv1a","under":"conv1a.","tensor":null,"bytes":10,)"));
  EXPECT_THAT(bars, HasSubstr(R"({"name":"conv1b","under":"conv1b.weight","tensor":2,"bytes":8,)"));
}

TEST(BarsOfApi, MatricesOfALoraAreOneBarOfTheirModule) {
  SafetensorsBuilder builder;
  builder.tensor("lora_unet_mid_to_q.alpha", "F16", "1", "22");
  builder.tensor("lora_unet_mid_to_q.lora_down.weight", "F16", "2,2", "halfhalf");
  builder.tensor("lora_unet_mid_to_q.lora_up.weight", "F16", "2,2", "halfhalf");
  EXPECT_THAT(Served(builder).body("model"), HasSubstr(R"("layers":[{"name":"lora_unet_mid_to_q",)"
                                                       R"("under":"lora_unet_mid_to_q.","tensor":null,"bytes":18,)"));
}

TEST(BarsOfApi, MatricesOfALoraWithoutLayersHaveTheirModule) {
  SafetensorsBuilder builder;
  builder.tensor("te.a.lora.down.weight", "F16", "1", "22").tensor("te.a.lora.up.weight", "F16", "1", "22");
  builder.tensor("te.b.lora_A.default.weight", "F16", "1", "22").tensor("te.b.lora_B.default.weight", "F16", "1", "22");
  const std::string bars = Served(builder).body("model");
  EXPECT_THAT(bars, HasSubstr(R"({"name":"te.a","under":"te.a.lora.","tensor":null,"bytes":4,)"));
  EXPECT_THAT(bars, HasSubstr(R"({"name":"te.b","under":"te.b.","tensor":null,"bytes":4,)"));
}

TEST(BarsOfApi, ModulesHaveTheKindsOfTheirNames) {
  SafetensorsBuilder builder;
  builder.tensor("token_embd.weight", "F16", "1", "22").tensor("attn_q.weight", "F16", "1", "22");
  builder.tensor("norm.weight", "F16", "1", "22");
  const std::string bars = Served(builder).body("model");
  EXPECT_THAT(bars, HasSubstr(R"("name":"attn_q","under":"attn_q.weight","tensor":1,"bytes":2,"kinds":[2,0,0,0,0,0])"));
  EXPECT_THAT(bars, HasSubstr(R"("bytes":2,"kinds":[0,0,0,0,2,0])"));
  EXPECT_THAT(bars, HasSubstr(R"("bytes":2,"kinds":[0,0,0,2,0,0])"));
}

TEST(ModelOfApi, StateAndLicenceAreMembers) {
  SafetensorsBuilder builder;
  builder.metadata(R"({"modelspec.license":"apache-2.0"})").tensor("w", "F32", "1", "four");
  EXPECT_THAT(
      Served(builder).members("model", {"complete", "verification", "licence", "has_licence_text", "fact_warnings"}),
      ElementsAre("complete true", R"x(verification "not verified (no digest known)")x", R"(licence "apache-2.0")",
                  "has_licence_text false", "fact_warnings []"));
  EXPECT_THAT(Served(SafetensorsBuilder().tensor("w", "F32", "1", "four")).members("model", {"licence", "has_experts"}),
              ElementsAre("licence null", "has_experts false"));
}

}  // namespace
}  // namespace weightfs::overview_of_api_test
