// Which files of a directory are its one model: a table of directories.
#include "formats/one_model.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/reading.h"

namespace weightfs::one_model_test {
namespace {

using test::Files;
using test::MemoryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kConfig = R"({"model_type": "llama"})";

std::vector<ChosenFiles::File> listed(const Files& files) {
  std::vector<ChosenFiles::File> out;
  for (const auto& [path, bytes] : files) out.push_back({path, bytes.size()});
  return out;
}

// "shards*2" for shards without an index.
std::string text_of(const OneModel& model) {
  std::string text;
  for (const OneModel::Weights& weights : model.weights) {
    text += (text.empty() ? "" : " + ") + weights.prefix + (weights.prefix.empty() ? "" : ":") + weights.path;
    if (!weights.shards.empty()) text += fmt::format("*{}", weights.shards.size());
  }
  const auto add = [&](const char* what, const std::vector<ChosenFiles::File>& files) {
    for (size_t i = 0; i < files.size(); ++i) text += (i == 0 ? fmt::format("; {} ", what) : ", ") + files[i].path;
  };
  add("also", model.chosen.alternatives);
  add("training", model.chosen.training_state);
  if (!model.chosen.projector.empty()) text += "; projector " + model.chosen.projector;
  return text;
}

// A directory lists one shard of a split model.
bool is_model(const std::string& name) {
  return is_named_as_weights(name) && split_model_named(name).value_or(name) == name;
}

// A directory on disk. Those below count as directories of models if `has_models_below`.
std::string on_disk(const Files& files, bool has_models_below = false) {
  const MemoryFolder folder(files);
  Budget budget(0);
  const auto found = find_one_model(
      {.files = listed(files), .folder = folder, .budget = budget, .is_model = is_model, .has_models_below = [=] {
         return has_models_below;
       }});
  if (!found) return found.error().message;
  return *found ? text_of(**found) : "models";
}

std::string published(const Files& files) {
  const MemoryFolder folder(files);
  Budget budget(0);
  const auto found = find_one_model(
      {.files = listed(files), .folder = folder, .budget = budget, .is_published = true, .is_model = is_model});
  if (!found) return found.error().message;
  return *found ? text_of(**found) : "models";
}

// With config.json of a model.
std::string described(std::vector<std::string> names) {
  Files files{{"config.json", kConfig}};
  for (std::string& name : names) files.emplace(std::move(name), "");
  return on_disk(files);
}

std::string undescribed(std::vector<std::string> names) {
  Files files;
  for (std::string& name : names) files.emplace(std::move(name), "");
  return on_disk(files);
}

TEST(OneModel, PrefersFormsInTheirOrder) {
  // The best one is removed again and again.
  std::vector<std::string> names = {"model.safetensors",
                                    "diffusion_pytorch_model.safetensors",
                                    "other.safetensors",
                                    "consolidated.safetensors",
                                    "pytorch_model.bin",
                                    "checkpoint.pth",
                                    "tf_model.h5",
                                    "flax_model.msgpack",
                                    "model.keras",
                                    "m-Q4_K_M.gguf",
                                    "onnx/model.onnx",
                                    "model.onnx",
                                    "openvino/openvino_model.xml"};
  while (names.size() > 1) {
    EXPECT_THAT(described(names), testing::StartsWith(names.front() + "; also ")) << names.front();
    names.erase(names.begin());
  }
}

TEST(OneModel, ChoosesShardsByIndex) {
  EXPECT_EQ(described({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                       "model.safetensors.index.json"}),
            "model.safetensors.index.json");
  EXPECT_EQ(described({"model.safetensors", "model-00001-of-00001.safetensors"}),
            "model.safetensors; also model-00001-of-00001.safetensors");
  // The shards of an index may have any names.
  EXPECT_EQ(undescribed({"a.safetensors", "b.safetensors", "m.safetensors.index.json"}),
            "m.safetensors.index.json; also a.safetensors, b.safetensors");
}

TEST(OneModel, IndexAloneMakesADirectoryAModel) {
  EXPECT_EQ(undescribed({"m.safetensors.index.json"}), "m.safetensors.index.json");
  EXPECT_EQ(undescribed({"m.safetensors.index.json", "n.safetensors.index.json"}), "models");
}

TEST(OneModel, TwoIndexesOfOneKindAreAModelAndAVariant) {
  const std::string model = "model.safetensors.index.json; also model.fp16.safetensors.index.json";
  EXPECT_EQ(described({"model.safetensors.index.json", "model-00001-of-00002.safetensors",
                       "model-00002-of-00002.safetensors", "model.fp16.safetensors.index.json",
                       "model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors"}),
            model);
  EXPECT_EQ(described({"model.safetensors.index.json", "model-00001-of-00002.safetensors",
                       "model.safetensors.index.fp16.json", "model-00001-of-00002.fp16.safetensors"}),
            "model.safetensors.index.json; also model.safetensors.index.fp16.json");
}

TEST(OneModel, ShardsThatAreLeftOfAModelAreAModel) {
  EXPECT_EQ(described({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}),
            "model-00001-of-00002.safetensors*2");
  EXPECT_EQ(described({"model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"}),
            "model-00001-of-00003.safetensors*2");
  EXPECT_EQ(described({"pytorch_model-00002-of-00003.bin"}), "pytorch_model-00002-of-00003.bin*1");
  EXPECT_EQ(undescribed({"model-00001-of-00003.safetensors"}), "model-00001-of-00003.safetensors*1");
  EXPECT_EQ(described({"model-00001-of-20000.safetensors", "model-00002-of-20000.safetensors"}), "models");
  EXPECT_EQ(described({"model-1-of-2.safetensors", "model-1-of-3.safetensors"}), "models");
  EXPECT_EQ(described({"model-00001-of-00002.safetensors", "pytorch_model.bin"}),
            "pytorch_model.bin; also model-00001-of-00002.safetensors");
}

// Reads a directory whose weights have no tensors; the sentence, and the warnings.
std::vector<std::string> problems_of(Files files) {
  for (auto& [path, bytes] : files)
    if (path.ends_with(".safetensors")) bytes = test::SafetensorsBuilder().build();
  const auto folder = std::make_shared<MemoryFolder>(files);
  Budget budget(0);
  const auto found =
      find_one_model({.files = listed(files), .folder = *folder, .budget = budget, .is_model = is_model});
  if (!found || !*found) return {"not a model"};
  const auto read = [&](const std::string& path, const BudgetPtr& charged) {
    const SourcePtr bytes = in_memory(files.at(path));
    return read_as("safetensors",
                   {.name = path, .bytes = bytes, .budget = charged == nullptr ? budget_of(bytes) : charged});
  };
  const Model model = test::well(read_one_model(**found, {.read = read, .folder = folder, .parts = {}}));
  std::vector<std::string> lines = model.warnings;
  lines.insert(lines.begin(), to_sentence(completeness_of(model)));
  return lines;
}

TEST(OneModel, MissingShardsMakeTheModelIncomplete) {
  EXPECT_THAT(problems_of({{"config.json", kConfig}, {"model-00002-of-00003.safetensors", ""}}),
              testing::Contains("2 of 3 shards are missing: model-00001-of-00003.safetensors and 1 more"));
  EXPECT_THAT(problems_of({{"config.json", kConfig},
                           {"model-00001-of-000002.fp16.safetensors", ""},
                           {"model-00002-of-000002.fp16.safetensors", ""}}),
              testing::Contains(""));
}

TEST(OneModel, NumbersOfShardsNeedNoZeros) {
  EXPECT_THAT(problems_of({{"config.json", kConfig},
                           {"model-1-of-11.safetensors", ""},
                           {"model-9-of-11.safetensors", ""},
                           {"model-10-of-11.safetensors", ""}}),
              testing::Contains(testing::StartsWith("8 of 11 shards are missing: ")));
}

TEST(OneModel, MissingFoldersOfAPipelineMakeItIncomplete) {
  const std::string index = R"({"_class_name": "P", "unet": ["diffusers", "U"], "vae": ["diffusers", "V"],
                                "safety_checker": [null, null], "scheduler": ["diffusers", "PNDMScheduler"]})";
  Files files{{"model_index.json", index}, {"unet/m.safetensors", ""}};
  const std::string no_weights = "model_index.json lists the folder \"scheduler\": missing";
  EXPECT_THAT(problems_of(files),
              ElementsAre("1 file cannot be read: model_index.json lists the folder \"vae\": missing", no_weights,
                          "model_index.json lists the folder \"vae\": missing"));
  files["vae/config.json"] = "{}";
  EXPECT_THAT(problems_of(files), ElementsAre("", no_weights));
  // diffusers loads it from the directory itself.
  files.erase("vae/config.json");
  files["config.json"] = "{}";
  EXPECT_THAT(problems_of(files), ElementsAre(""));
}

TEST(OneModel, MissingFoldersOfModulesMakeTheModelIncomplete) {
  const std::string modules = R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                                  {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                                  {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";
  Files files{{"modules.json", modules}, {"model.safetensors", ""}};
  EXPECT_THAT(problems_of(files).front(),
              "1 file cannot be read: modules.json lists the folder \"1_Pooling\": missing");
  files["1_Pooling/config.json"] = "{}";
  EXPECT_THAT(problems_of(files), ElementsAre("")) << "Normalize has no files";
  files["modules.json"] = "[";
  EXPECT_THAT(problems_of(files), ElementsAre("", "modules.json: not a list of modules"));
}

TEST(OneModel, WeightsSideBySideAreAlternatives) {
  EXPECT_EQ(described({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                       "model.safetensors.index.json", "onnx/model.onnx", "original/consolidated.00.pth",
                       "original/params.json", "pytorch_model.bin", "tiny-q8_0.gguf", "vocab.bin"}),
            "model.safetensors.index.json; also onnx/model.onnx, original/consolidated.00.pth, pytorch_model.bin, "
            "tiny-q8_0.gguf");
  EXPECT_EQ(described({"model.safetensors", "model.fp16.safetensors", "tf_model.h5", "flax_model.msgpack",
                       "coreml/m.mlpackage/Manifest.json", "coreml/m.mlpackage/Data/weight.bin",
                       "openvino/openvino_model.xml", "openvino/openvino_model.bin", "m.imatrix.gguf",
                       "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin",
                       "pytorch_model.bin.index.json", "consolidated.safetensors", ".cache/x.safetensors"}),
            "model.safetensors; also consolidated.safetensors, coreml/m.mlpackage, flax_model.msgpack, "
            "model.fp16.safetensors, openvino/openvino_model.xml, pytorch_model.bin.index.json, tf_model.h5");
}

TEST(OneModel, SubdirectoriesOfOtherModelsAreNotAlternatives) {
  EXPECT_EQ(described({"model.safetensors", "checkpoint-500/model.safetensors", "checkpoint-500/optimizer.pt"}),
            "model.safetensors");
}

TEST(OneModel, OnlyVariantIsTheModel) { EXPECT_EQ(described({"model.fp16.safetensors"}), "model.fp16.safetensors"); }

TEST(OneModel, ConfigOfAnotherProgramDoesNotCount) {
  const auto with = [](const std::string& config) {
    return on_disk({{"config.json", config}, {"model.safetensors", ""}, {"pytorch_model.bin", ""}});
  };
  const std::string model = "model.safetensors; also pytorch_model.bin";
  for (const char* config :
       {R"({"model_type":"x"})", R"({"architectures":["A"]})", R"({"_class_name":"U"})", R"({"n_layer":2})",
        R"({"d_model":2})", R"({"quantization":{"bits":4}})", R"({"quantization_config":{}})",
        "\xEF\xBB\xBF{\"a\": 1, \"model_type\": \"x\"}", R"({"model_type":"x", "a": NaN})"})
    EXPECT_EQ(with(config), model) << config;
  for (const char* config : {"", "[]", R"(["model_type"])", R"({"name":"x"})", R"({"model_type":null})",
                             R"({"model_type":7})", R"({"architectures":"A"})", R"({"n_layer":"2"})",
                             R"({"a":{"model_type":"x"}})", "not JSON", R"([{"model_type":"x"}])"})
    EXPECT_EQ(with(config), "models") << config;
  EXPECT_EQ(with(R"({"a":")" + std::string(10'000'000, 'x') + R"(", "model_type":"x"})"), "models") << "too large";
  EXPECT_EQ(with(std::string(100'000, '[')), "models");
}

TEST(OneModel, OneGgufIsTheModel) {
  EXPECT_EQ(undescribed({"a-Q4_K_M.gguf", "README.md"}), "a-Q4_K_M.gguf");
  EXPECT_EQ(described({"a-Q4_K_M.gguf"}), "a-Q4_K_M.gguf");
  EXPECT_EQ(undescribed({"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"}), "a-00001-of-00002.gguf");
  EXPECT_EQ(undescribed({"a-Q4_K_M.gguf", "mmproj-a-f16.gguf", "a-lora.gguf", "a.imatrix.gguf"}),
            "a-Q4_K_M.gguf; also a-lora.gguf; projector mmproj-a-f16.gguf");
  EXPECT_EQ(undescribed({"a-imatrix-Q4_K_M.gguf"}), "a-imatrix-Q4_K_M.gguf");
  EXPECT_EQ(undescribed({"lora.gguf"}), "lora.gguf");
  EXPECT_EQ(undescribed({"mmproj.gguf"}), "mmproj.gguf");
}

TEST(OneModel, SeveralGgufsAreModels) {
  EXPECT_EQ(undescribed({"a-Q4_K_M.gguf", "a-Q8_0.gguf", "mmproj.gguf"}), "models");
  EXPECT_EQ(described({"a-Q4_K_M.gguf", "a-Q8_0.gguf"}), "models");
  EXPECT_EQ(undescribed({"a.gguf", "b.safetensors"}), "models");
}

TEST(OneModel, GgufsAreToldApartByTheirKeysWhereNamesDoNot) {
  const auto gguf = [](std::string_view type, std::string_view architecture) {
    return test::GgufBuilder().string("general.type", type).string("general.architecture", architecture).build();
  };
  EXPECT_EQ(on_disk({{"a.gguf", gguf("model", "llama")},
                     {"b.gguf", gguf("mmproj", "clip")},
                     {"c.gguf", gguf("adapter", "llama")}}),
            "a.gguf; also c.gguf; projector b.gguf");
  EXPECT_EQ(on_disk({{"a.gguf", gguf("model", "llama")}, {"b.gguf", gguf("imatrix", "")}}), "a.gguf");
  EXPECT_EQ(on_disk({{"a.gguf", gguf("model", "llama")}, {"b.gguf", "not a GGUF"}}), "models");
}

TEST(OneModel, OnlyModelFileIsTheModel) {
  EXPECT_EQ(undescribed({"a.onnx", "README.md", "params.json"}), "a.onnx");
  EXPECT_EQ(undescribed({"consolidated.safetensors", "params.json", "tekken.json"}), "consolidated.safetensors");
  EXPECT_EQ(undescribed({"a.safetensors", "b.safetensors"}), "models");
  EXPECT_EQ(undescribed({"README.md"}), "models");
}

TEST(OneModel, ModelsBelowMakeADirectoryOfModels) {
  EXPECT_EQ(on_disk({{"a.onnx", ""}}, true), "models");
  EXPECT_EQ(on_disk({{"a.gguf", ""}}, true), "models");
  EXPECT_EQ(on_disk({{"config.json", kConfig}, {"a.gguf", ""}}, true), "a.gguf");
}

TEST(OneModel, TrainingStateIsNeverAModelBesideWeights) {
  EXPECT_EQ(described({"model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "training_args.bin",
                       "trainer_state.json", "global_step5/mp_rank_00_model_states.pt", "latest"}),
            "model.safetensors; training global_step5/mp_rank_00_model_states.pt, latest, optimizer.pt, "
            "rng_state_0.pth, scheduler.pt, training_args.bin");
  EXPECT_EQ(undescribed({"pytorch_model.bin", "optimizer.pt"}), "pytorch_model.bin; training optimizer.pt");
  EXPECT_EQ(undescribed({"optimizer.pt", "trainer_state.json"}), "models");
  EXPECT_EQ(undescribed({"optimizer.pt"}), "optimizer.pt") << "alone it is shown like any file";
}

TEST(OneModel, AdapterIsTheModelWithoutItsBase) {
  const Files adapter{{"adapter_config.json", "{}"}, {"adapter_model.safetensors", ""}, {"optimizer.pt", ""}};
  EXPECT_EQ(on_disk(adapter), "adapter_model.safetensors; training optimizer.pt");
  Files files = adapter;
  files["adapter_model.bin"] = "";
  EXPECT_EQ(on_disk(files), "adapter_model.safetensors; also adapter_model.bin; training optimizer.pt");
  files["config.json"] = kConfig;
  EXPECT_EQ(on_disk(files), "adapter_model.safetensors; also adapter_model.bin; training optimizer.pt");
  files["model.safetensors"] = "";
  EXPECT_EQ(on_disk(files),
            "model.safetensors; also adapter_model.bin, adapter_model.safetensors; training optimizer.pt");
}

TEST(OneModel, PipelineHasTheWeightsOfItsComponents) {
  const Files files{{"model_index.json", R"({"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.1",
    "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
    "scheduler": ["diffusers", "PNDMScheduler"], "safety_checker": [null, null], "../x": ["a", "b"], "y": 5,
    "text_encoder": ["transformers", "CLIPTextModel"]})"},
                    {"scheduler/scheduler_config.json", "{}"},
                    {"safety_checker/model.safetensors", ""},
                    {"text_encoder/pytorch_model.bin", ""},
                    {"unet/diffusion_pytorch_model.safetensors", ""},
                    {"unet/diffusion_pytorch_model.fp16.safetensors", ""},
                    {"unet/diffusion_pytorch_model.bin", ""},
                    {"vae/diffusion_pytorch_model-00001-of-00002.safetensors", ""},
                    {"vae/diffusion_pytorch_model-00002-of-00002.safetensors", ""},
                    {"vae/diffusion_pytorch_model.safetensors.index.json", ""},
                    {"v1-5-pruned.safetensors", ""}};
  const std::string model =
      "unet/:unet/diffusion_pytorch_model.safetensors + vae/:vae/diffusion_pytorch_model.safetensors.index.json + "
      "text_encoder/:text_encoder/pytorch_model.bin; also unet/diffusion_pytorch_model.bin, "
      "unet/diffusion_pytorch_model.fp16.safetensors, v1-5-pruned.safetensors";
  EXPECT_EQ(on_disk(files), model);
  EXPECT_EQ(published(files), model);
  EXPECT_EQ(on_disk({{"model_index.json", "{}"}, {"a.safetensors", ""}, {"unet/b.safetensors", ""}}), "a.safetensors");
}

TEST(OneModel, PipelineOfVariantsHasOneOfEach) {
  EXPECT_EQ(on_disk({{"model_index.json", R"({"_class_name": "P", "unet": ["diffusers", "U"]})"},
                     {"unet/diffusion_pytorch_model.fp16.safetensors", ""},
                     {"unet/diffusion_pytorch_model.non_ema.safetensors", ""}}),
            "unet/:unet/diffusion_pytorch_model.fp16.safetensors; also "
            "unet/diffusion_pytorch_model.non_ema.safetensors");
}

TEST(OneModel, ModulesAddTheirWeights) {
  const Files files{{"modules.json", R"([{"idx": 0, "name": "0", "path": "", "type": "T"},
                                         {"idx": 1, "name": "1", "path": "1_Pooling", "type": "P"},
                                         {"idx": 2, "name": "2", "path": "2_Dense", "type": "D"},
                                         {"path": "../etc"}, {"path": 7}, 8])"},
                    {"config.json", kConfig},
                    {"1_Pooling/config.json", "{}"},
                    {"2_Dense/model.safetensors", ""},
                    {"2_Dense/pytorch_model.bin", ""},
                    {"model.safetensors", ""},
                    {"onnx/model.onnx", ""}};
  const std::string model =
      "model.safetensors + 2_Dense/:2_Dense/model.safetensors; also 2_Dense/pytorch_model.bin, onnx/model.onnx";
  EXPECT_EQ(on_disk(files), model);
  EXPECT_EQ(published(files), model);
}

// Their own files are among the others until the model is read.
TEST(OneModel, FormsOfDirectoriesAreAsBefore) {
  EXPECT_EQ(undescribed({"tensor-cache.json", "params_shard_0.bin"}), "tensor-cache.json");
  EXPECT_EQ(undescribed({"carton.toml", "MANIFEST", "model/a.gguf"}), "carton.toml");
  EXPECT_EQ(undescribed({"m.weights.json", "m_00000.weights.h5"}), "m.weights.json; also m_00000.weights.h5");
  EXPECT_EQ(on_disk({{"config.json", R"({"class_name": "Functional"})"}, {"model.weights.h5", ""}}),
            "config.json; also model.weights.h5");
}

// semantics 1.6: files that are called models, and not what a format only has as its data.
TEST(OneModel, OtherModelsBesideAFormAreNamed) {
  Files files{{"model.json", R"({"weightsManifest": []})"}, {"weights.bin", ""}, {"a.safetensors", ""}};
  for (const char* const name : {"b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "net.caffemodel", "net.prototxt",
                                 "ir.xml", "ir.bin", "page.xml", "x.npy", "x.zip", "README.md"})
    files.emplace(name, "");
  EXPECT_EQ(on_disk(files), "model.json; also a.safetensors, b-00001-of-00002.gguf, ir.xml, net.caffemodel");
}

TEST(OneModel, TransformersJsHasOneModelUnlessItHasParts) {
  EXPECT_EQ(described({"onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_q4.onnx", "onnx/model.onnx_data"}),
            "onnx/model.onnx; also onnx/model_fp16.onnx, onnx/model_q4.onnx");
  EXPECT_EQ(described({"onnx/encoder_model.onnx", "onnx/decoder_model.onnx"}), "models");
  EXPECT_EQ(described({"onnx/model_quantized.onnx"}), "onnx/model_quantized.onnx");
}

// Each of them is a request.
TEST(OneModel, PublishedNamesDecideWithoutReading) {
  class Unreadable final : public Folder {
   public:
    Result<std::vector<std::string>> names() const override { return failure(Code::io, "read"); }
    Result<SourcePtr> open(std::string_view) const override { return failure(Code::io, "read"); }
    Result<std::vector<Part>> parts() const override { return failure(Code::io, "read"); }
  };
  const Unreadable folder;
  Budget budget(0);
  const auto decide = [&](const Files& files) {
    const auto found = find_one_model(
        {.files = listed(files), .folder = folder, .budget = budget, .is_published = true, .is_model = is_model});
    return !found ? found.error().message : *found ? text_of(**found) : "models";
  };
  EXPECT_EQ(decide({{"config.json", ""}, {"model.safetensors", ""}, {"a.gguf", ""}}), "model.safetensors; also a.gguf");
  EXPECT_EQ(decide({{"model.safetensors", ""}, {"a.gguf", ""}}), "model.safetensors; also a.gguf");
  EXPECT_EQ(decide({{"config.json", ""}, {"m.safetensors.index.json", ""}}), "m.safetensors.index.json");
  EXPECT_EQ(decide({{"config.json", ""}, {"modules.json", ""}, {"model.safetensors", ""}, {"1_Pooling/x", ""}}),
            "model.safetensors");
  EXPECT_EQ(decide({{"a.gguf", ""}, {"BF16/a.gguf", ""}}), "a.gguf");
  EXPECT_EQ(decide({{"config.json", ""}, {"pytorch_model.bin", ""}, {"tf_model.h5", ""}}), "read");
}

TEST(OneModel, NamedFileIsOpenedInstead) {
  const Files files{
      {"config.json", kConfig}, {"model.safetensors", ""}, {"onnx/model.onnx", ""}, {"m.mlpackage/Manifest.json", ""}};
  const MemoryFolder folder(files);
  Budget budget(0);
  const DirectoryView view{.files = listed(files), .folder = folder, .budget = budget};
  EXPECT_EQ(text_of(find_model_file(view, "onnx/model.onnx").value()),
            "onnx/model.onnx; also m.mlpackage, model.safetensors");
  EXPECT_EQ(text_of(find_model_file(view, "m.mlpackage").value()),
            "m.mlpackage/Manifest.json; also model.safetensors, onnx/model.onnx");
  const auto missing = find_model_file(view, "a.gguf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("a.gguf"));
}

}  // namespace
}  // namespace weightfs::one_model_test
