// Models of pictures in one file, by the names and shapes that are published (docs/summary.md, 8).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/model.h"
#include "formats/summary/summary.h"
#include "tests/builders/named_tensors.h"
#include "tests/support/memory_folder.h"

namespace weightfs::diffusion_test {
namespace {

using summary::Summary;
using test::NamedTensors;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Texts = std::vector<std::pair<std::string, std::string>>;

Summary summary_of(const NamedTensors& tensors, const Texts& metadata = {}, test::Files files = {}) {
  Model model;
  model.format = "safetensors";
  model.tensors.append(tensors.tensors);
  for (const auto& [key, value] : metadata) model.metadata.append(key, value);
  model.parts.push_back({"model.safetensors", Later<SourcePtr>::of(in_memory(""))});
  model.beside = std::make_shared<test::MemoryFolder>(std::move(files));
  return summary::summarise(model).summary;
}

NamedTensors named(const std::vector<std::pair<std::string, Shape>>& tensors) {
  NamedTensors out;
  for (const auto& [name, shape] : tensors) out.add(name, "float16", shape);
  return out;
}

// "diffusion, stable-diffusion-v1, SD 1.x"
std::string what(const std::vector<std::pair<std::string, Shape>>& tensors, const std::string& stated = "") {
  const Summary s = summary_of(named(tensors), stated.empty() ? Texts() : Texts{{"modelspec.architecture", stated}});
  return fmt::format("{}, {}, {}", s.kind, s.architecture, s.family);
}

const std::string kUnet = "model.diffusion_model.";
const std::string kToK = ".transformer_blocks.0.attn2.to_k.weight";

std::vector<std::pair<std::string, Shape>> unet(uint64_t width, uint64_t inputs = 4,
                                                const std::string& prefix = kUnet) {
  return {{prefix + "input_blocks.0.0.weight", {320, inputs, 3, 3}},
          {prefix + "input_blocks.4.1" + kToK, {320, width}}};
}

std::vector<std::pair<std::string, Shape>> with(std::vector<std::pair<std::string, Shape>> tensors,
                                                const std::vector<std::string>& names, const Shape& shape = {8}) {
  for (const std::string& name : names) tensors.emplace_back(name, shape);
  return tensors;
}

TEST(Diffusion, UnetIsKnownByTheTextThatItReads) {
  EXPECT_EQ(what(unet(768)), "diffusion, stable-diffusion-v1, SD 1.x");
  EXPECT_EQ(what(unet(768, 9)), "diffusion, stable-diffusion-v1-inpainting, SD 1.x inpainting");
  EXPECT_EQ(what(unet(1024)), "diffusion, stable-diffusion-v2, SD 2.x");
  EXPECT_EQ(what(unet(1024, 7)), "diffusion, stable-diffusion-x4-upscaler, SD x4 upscaler");
  EXPECT_EQ(what(unet(1280)), "diffusion, stable-diffusion-xl-v1-refiner, SDXL refiner");
  EXPECT_EQ(what(unet(768, 4, "")), "diffusion, stable-diffusion-v1, SD 1.x");
  EXPECT_EQ(what(unet(768, 4, "state_dict." + kUnet)), "diffusion, stable-diffusion-v1, SD 1.x");
  EXPECT_EQ(what(unet(4321)), "diffusion, , ");
  const std::string deep = kUnet + "input_blocks.7.1.transformer_blocks.";
  const auto depth = [&](const std::vector<std::string>& blocks) {
    std::vector<std::string> names;
    for (const std::string& block : blocks) names.push_back(deep + block + ".attn1.to_q.weight");
    return what(with(unet(2048), names));
  };
  EXPECT_EQ(depth({"0", "1", "3", "9"}), "diffusion, stable-diffusion-xl-v1-base, SDXL");
  EXPECT_EQ(depth({"0", "1", "3"}), "diffusion, ssd-1b, SSD-1B");
  EXPECT_EQ(depth({"0", "1"}), "diffusion, segmind-vega, Segmind Vega");
  EXPECT_EQ(what(with(unet(1024, 8), {kUnet + "input_blocks.1.1.time_stack.0.attn1.to_q.weight"})),
            "diffusion, stable-video-diffusion-img2vid-v1, Stable Video Diffusion");
  EXPECT_EQ(what({{"conv_in.weight", {320, 4, 3, 3}}, {"down_blocks.1.attentions.0" + kToK, {640, 2048}}}),
            "diffusion, stable-diffusion-xl-v1-base, SDXL");
}

TEST(Diffusion, TransformersAreKnownByTheirBlocks) {
  const auto blocks = [](const std::vector<std::string>& names) { return what(with({}, names)); };
  const std::string joint = kUnet + "joint_blocks.";
  EXPECT_EQ(blocks({joint + "0.context_block.attn.qkv.weight"}), "diffusion, stable-diffusion-v3-medium, SD 3 medium");
  EXPECT_EQ(blocks({joint + "0.context_block.attn.qkv.weight", joint + "0.x_block.attn2.qkv.weight"}),
            "diffusion, stable-diffusion-v3.5-medium, SD 3.5 medium");
  EXPECT_EQ(blocks({joint + "0.context_block.attn.qkv.weight", joint + "37.x_block.mlp.fc1.weight"}),
            "diffusion, stable-diffusion-v3.5-large, SD 3.5 large");
  const std::string norm = "double_blocks.0.img_attn.norm.key_norm.scale";
  const auto flux = [&](uint64_t inputs, const std::vector<std::string>& names) {
    return what(with({{"img_in.weight", {3072, inputs}}, {norm, {128}}}, names));
  };
  EXPECT_EQ(flux(64, {}), "diffusion, flux-1-schnell, Flux.1 schnell");
  EXPECT_EQ(flux(64, {"guidance_in.in_layer.weight"}), "diffusion, flux-1-dev, Flux.1 dev");
  EXPECT_EQ(flux(384, {"guidance_in.in_layer.weight"}), "diffusion, flux-1-fill, Flux.1 Fill");
  EXPECT_EQ(flux(128, {"double_stream_modulation_img.lin.weight"}), "diffusion, flux-2, Flux.2");
  EXPECT_EQ(flux(64, {"distilled_guidance_layer.norms.0.scale"}), "diffusion, chroma, Chroma");
  EXPECT_EQ(blocks({"head.modulation", "head.head.weight"}), "diffusion, wan-2, Wan 2.x");
  EXPECT_EQ(blocks({"head.modulation"}), "tensors, , ");
  EXPECT_EQ(what({{"noise_refiner.0.attention.k_norm.weight", {8}}, {"cap_embedder.1.weight", {3840, 2560}}}),
            "diffusion, z-image, Z-Image");
}

TEST(Diffusion, PartsHaveKindsOfTheirOwn) {
  const std::vector<std::string> middle = {"decoder.mid.block_1.conv1.weight", "decoder.conv_out.weight"};
  EXPECT_EQ(what(with({{"decoder.conv_in.weight", {512, 4, 3, 3}}}, middle)), "vae, , SD");
  EXPECT_EQ(what(with({{"decoder.conv_in.weight", {512, 16, 3, 3}}}, middle)), "vae, , Flux.1/SD 3");
  EXPECT_EQ(what(with({{"decoder.conv_in.weight", {512, 80, 7}}}, middle)), "tensors, , ");  // of sound
  EXPECT_EQ(what(with(unet(768, 4, "control_model."), {"control_model.input_hint_block.0.weight"})),
            "controlnet, stable-diffusion-v1, SD 1.x");
  EXPECT_EQ(what({{"controlnet_cond_embedding.conv_in.weight", {16, 3, 3, 3}},
                  {"conv_in.weight", {320, 4, 3, 3}},
                  {"down_blocks.1.attentions.0" + kToK, {640, 2048}}}),
            "controlnet, stable-diffusion-xl-v1-base, SDXL");
  EXPECT_EQ(what({{"emb_params", {4, 768}}}), "textual-inversion, , SD 1.x");
  EXPECT_EQ(what({{"clip_l", {4, 768}}, {"clip_g", {4, 1280}}}),
            "textual-inversion, stable-diffusion-xl-v1-base, SDXL");
  EXPECT_EQ(what({{"ip_adapter.1.to_k_ip.weight", {640, 2048}}}), "ip-adapter, , SDXL");
}

TEST(Diffusion, StatedArchitectureIsUsedUnlessTheTensorsContradictIt) {
  EXPECT_EQ(what(unet(768), "stable-diffusion-v1"), "diffusion, stable-diffusion-v1, SD 1.x");
  EXPECT_EQ(what(with({{"img_in.weight", {3072, 64}}, {"double_blocks.0.img_attn.norm.key_norm.scale", {128}}},
                      {"guidance_in.in_layer.weight"}),
                 "Flux.1-dev"),
            "diffusion, Flux.1-dev, Flux.1 dev");
  EXPECT_EQ(what({{"w", {1}}}, "stable-diffusion-xl-v1-base"), "diffusion, stable-diffusion-xl-v1-base, SDXL");
  EXPECT_EQ(what({{"w", {1}}}, "stable-diffusion-xl-v1-base/vae"), "vae, stable-diffusion-xl-v1-base/vae, SDXL");
  EXPECT_EQ(what({{"w", {1}}}, "gpt-neo-x"), "tensors, , ");
  EXPECT_EQ(what({{"w", {1}}}, "flux."), "tensors, , ");
  const Summary wrong = summary_of(named(unet(768)), {{"modelspec.architecture", "stable-diffusion-xl-v1-base"}});
  EXPECT_EQ(wrong.family, "SD 1.x");
  EXPECT_THAT(wrong.warnings, ElementsAre("modelspec.architecture: stable-diffusion-xl-v1-base, but the tensors are "
                                          "those of SD 1.x; ignored"));
}

TEST(Diffusion, CheckpointHasItsParts) {
  const Summary s =
      summary_of(named(with(unet(768), {"first_stage_model.decoder.conv_in.bias",
                                        "cond_stage_model.transformer.text_model.final_layer_norm.bias"})));
  std::vector<std::string> parts;
  for (const summary::Component& part : s.components)
    parts.push_back(fmt::format("{} {}", part.name, *part.parameters));
  EXPECT_THAT(parts, ElementsAre("denoiser 257280", "text_encoder 8", "vae 8"));
  EXPECT_THAT(summary_of(named(unet(768))).components, IsEmpty());
  EXPECT_FALSE(s.vocabulary_size);
}

TEST(Diffusion, OtherModelsAreNotTakenForOne) {
  for (const auto& tensors : {test::llama_8b_gguf(), test::qwen3_30b()}) EXPECT_THAT(summary_of(tensors).family, "");
}

const std::string kDown = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_k.lora_down.weight";
const std::string kUp = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_k.lora_up.weight";

TEST(DiffusionLora, HasBaseAndTagsOfKohya) {
  const Summary s = summary_of(named({{kDown, {16, 768}}, {kUp, {320, 16}}}),
                               {{"ss_sd_model_name", "v1-5.safetensors"},
                                {"ss_base_model_version", "sd_v1"},
                                {"ss_tag_frequency", R"({"10_dog": {"ohwx dog": 20, " grass": 7, "": 99},
                                                         "5_more": {"grass": 20, "sky": "many"}, "bad": 3})"}});
  ASSERT_TRUE(s.adapter);
  EXPECT_EQ(s.adapter->base_model, "v1-5.safetensors");
  EXPECT_EQ(s.adapter->base_version, "sd_v1");
  EXPECT_THAT(s.adapter->tags, ElementsAre("grass", "ohwx dog", "sky"));
  EXPECT_EQ(s.adapter->trigger_phrase, "");
  EXPECT_THAT(s.adapter->target_modules, ElementsAre("attn2_to_k"));
}

TEST(DiffusionLora, HasTriggerPhraseOfModelSpecOrTheCard) {
  const NamedTensors tensors = named({{kDown, {16, 2048}}, {kUp, {640, 16}}});
  const Summary stated = summary_of(tensors, {{"modelspec.trigger_phrase", "mypetcat"},
                                              {"modelspec.architecture", "stable-diffusion-xl-v1-base/lora"}});
  EXPECT_EQ(stated.adapter->trigger_phrase, "mypetcat");
  EXPECT_EQ(stated.adapter->base_version, "SDXL");
  const Summary card = summary_of(tensors, {}, {{"README.md", "---\ninstance_prompt: a photo of TOK\n---\n"}});
  EXPECT_EQ(card.adapter->trigger_phrase, "a photo of TOK");
  EXPECT_EQ(card.adapter->base_version, "SDXL");
}

TEST(DiffusionLora, HostileTagsAreBounded) {
  std::string many = "{\"d\": {";
  for (int i = 0; i < 100'000; ++i)
    many += fmt::format("{}\"{}\": {}", i == 0 ? "" : ",", std::string(20, 'a') + std::to_string(i), i);
  const NamedTensors tensors = named({{kDown, {16, 2048}}, {kUp, {640, 16}}});
  for (const std::string& text :
       {many + "}}", std::string("{\"d\": {\"t\": -1}}"), std::string("[]"), std::string("{")})
    EXPECT_LE(summary_of(tensors, {{"ss_tag_frequency", text}}).adapter->tags.size(), 10u);
}

}  // namespace
}  // namespace weightfs::diffusion_test
