// Reference: dynamic_module_utils.py of transformers 4.57, pipeline_loading_utils.py of diffusers 0.35,
// SentenceTransformer.py of sentence-transformers 5, model_archiver of TorchServe, _audit.py of skops.
#include "formats/code/hub.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/code/keras.h"
#include "formats/code/names.h"
#include "formats/code/template.h"

namespace weightfs::code {
namespace {

constexpr const char* kTransformers = "when transformers loads the model with trust_remote_code=True";
constexpr const char* kDiffusers = "when diffusers loads the pipeline with trust_remote_code=True";
constexpr const char* kSentences = "when sentence-transformers loads the model with trust_remote_code=True";
constexpr const char* kServed = "when TorchServe serves the model";
constexpr const char* kImported = "when the program imports it to load the model";

constexpr auto kLibraries = std::to_array<std::string_view>(
    {"transformers", "diffusers", "timm", "torch", "peft", "sentence_transformers", "onnxruntime", "optimum", "flax"});

// Modules of diffusers.pipelines, which model_index.json names as it names libraries.
constexpr std::string_view kPipelines =
    " allegro alt_diffusion amused animatediff audio_diffusion audioldm audioldm2 aura_flow blip_diffusion bria chroma "
    "cogvideo cogview3 cogview4 consisid consistency_models controlnet controlnet_hunyuandit controlnet_sd3 "
    "controlnet_xs cosmos dance_diffusion ddim ddpm deepfloyd_if deprecated dit easyanimate flux free_init "
    "hidream_image "
    "hunyuan_video hunyuandit i2vgen_xl kandinsky kandinsky2_2 kandinsky3 kandinsky5 kolors latent_consistency_models "
    "latent_diffusion latte ledits_pp lora ltx lumina lumina2 marigold mochi musicldm omnigen pag paint_by_example pia "
    "pixart_alpha pndm qwenimage repaint sana score_sde_ve semantic_stable_diffusion shap_e skyreels_v2 "
    "spectrogram_diffusion stable_audio stable_cascade stable_diffusion stable_diffusion_3 "
    "stable_diffusion_attend_and_excite "
    "stable_diffusion_diffedit stable_diffusion_gligen stable_diffusion_k_diffusion stable_diffusion_ldm3d "
    "stable_diffusion_panorama stable_diffusion_safe stable_diffusion_sag stable_diffusion_variants "
    "stable_diffusion_xl stable_video_diffusion stochastic_karras_ve t2i_adapter text_to_video_synthesis unclip "
    "unconditional_image_generation unidiffuser versatile_diffusion visualcloze vq_diffusion wan wuerstchen ";

constexpr auto kHandlers = std::to_array<std::string_view>(
    {"image_classifier", "object_detector", "image_segmenter", "text_classifier", "densenet_handler", "base_handler"});

// Types of skops in modules that only have data.
constexpr auto kData = std::to_array<std::string_view>(
    {"numpy", "scipy", "sklearn", "collections", "xgboost", "lightgbm", "catboost", "quantile_forest", "datetime"});
constexpr auto kPlain = std::to_array<std::string_view>(
    {"dict", "list", "tuple", "set", "str", "int", "float", "bool", "bytes", "bytearray", "slice", "complex",
     "NoneType", "range", "type", "function", "frozenset", "method", "builtin_function_or_method"});

std::string directory_of(std::string_view path) { return std::string(path.substr(0, path.rfind('/') + 1)); }

bool is_pipeline_module(std::string_view library) {
  return kPipelines.find(fmt::format(" {} ", library)) != kPipelines.npos;
}

class Configuration {
 public:
  Configuration(std::string_view path, const Paths& files, CodeList& out)
      : path_(path), directory_(directory_of(path)), files_(files), out_(out) {}

  void examine(const Value& json) {
    const std::string_view name = std::string_view(path_).substr(directory_.size());
    if (const auto* const map = std::get_if<Map>(&json)) examine_map(*map, name);
    if (name == "modules.json") modules(json);
    if (name == "schema.json") types(json);
    find_auto_maps(json);
  }

 private:
  void add(std::string what, const std::string& where, const char* runs) { out_.add({std::move(what), where, runs}); }

  void examine_map(const Map& map, std::string_view name) {
    templates(map);
    if (map.find_as<std::string>("class_name") != nullptr) add_keras(Value(map), path_, out_);  // a model of Keras
    if (name == "model_index.json" || name == "modular_model_index.json") pipeline(map);
    if (name == "MANIFEST.json") archive(map);
    if (name == "adapter_config.json") adapter(map);
    for (const char* const key : {"activation_function", "sbert_ce_default_activation_function", "activation_fn"})
      activation(text_in(map, key));
    if (const Map* const inner = map.find_as<Map>("sentence_transformers"))
      activation(text_in(*inner, "activation_fn"));
    if (name == "router_config.json" || name == "config.json")
      if (const Map* const all = map.find_as<Map>("types"))
        for (const auto& [key, type] : *all)
          if (const auto* const text = std::get_if<std::string>(&type)) module(*text);
  }

  // A text, or a list of {"name", "template"}.
  void templates(const Map& map) {
    const Value* const value = map.find("chat_template");
    if (value == nullptr) return;
    if (const auto* const text = std::get_if<std::string>(value)) add_template(*text, path_, out_);
    if (const auto* const all = std::get_if<List>(value))
      for (const Value& one : *all)
        if (const auto* const entry = std::get_if<Map>(&one)) add_template(text_in(*entry, "template"), path_, out_);
    if (const auto* const named = std::get_if<Map>(value))
      for (const auto& [key, one] : *named)
        if (const auto* const text = std::get_if<std::string>(&one)) add_template(*text, path_, out_);
  }

  // {"AutoModel": "modeling_x.XModel"}: also in the configuration of a part, and as "impl" of custom_pipelines.
  void find_auto_maps(const Value& value) {
    if (const auto* const list = std::get_if<List>(&value))
      for (const Value& one : *list) find_auto_maps(one);
    const auto* const map = std::get_if<Map>(&value);
    if (map == nullptr) return;
    for (const auto& [key, one] : *map) {
      if (key == "auto_map")
        auto_map(key, one);
      else if (key == "custom_pipelines")
        custom_pipelines(one);
      else
        find_auto_maps(one);
    }
  }

  void auto_map(const std::string& key, const Value& value) {
    if (const auto* const text = std::get_if<std::string>(&value)) return remote_class(key, *text);
    if (const auto* const list = std::get_if<List>(&value))
      for (const Value& one : *list) auto_map(key, one);
    if (const auto* const map = std::get_if<Map>(&value))
      for (const auto& [name, one] : *map) auto_map(name, one);
  }

  void custom_pipelines(const Value& value) {
    const auto* const map = std::get_if<Map>(&value);
    if (map == nullptr) return;
    for (const auto& [task, one] : *map)
      if (const auto* const fields = std::get_if<Map>(&one)) remote_class(task, std::string(text_in(*fields, "impl")));
  }

  // "modeling_x.XModel", "org/repository--modeling_x.XModel".
  void remote_class(const std::string& key, const std::string& reference) {
    if (!reference.empty()) add(fmt::format("{}: {}", key, reference), file_of(reference), kTransformers);
  }

  // The file of the module if the model has it, else the configuration.
  std::string file_of(std::string_view reference) const {
    std::string module(reference.substr(0, reference.rfind('.')));
    std::ranges::replace(module, '.', '/');
    const std::string file = fmt::format("{}{}.py", directory_, module);
    return files_.has(file) ? file : path_;
  }

  // Files of diffusers: the class of the pipeline, and of its parts.
  void pipeline(const Map& map) {
    const Value* const class_name = map.find("_class_name");
    const auto* const pair = class_name == nullptr ? nullptr : std::get_if<List>(class_name);
    if (pair != nullptr && pair->size() == 2 && std::holds_alternative<std::string>((*pair)[0]))
      custom_pipeline(std::get<std::string>((*pair)[0]));
    if (const std::string file = directory_ + "pipeline.py"; files_.has(file)) add("pipeline.py", file, kDiffusers);
    for (const char* const key : {"custom_pipeline", "_custom_pipeline"})
      if (const std::string_view name = text_in(map, key); !name.empty()) custom_pipeline(name);
    for (const auto& [name, value] : map)
      if (const auto* const list = std::get_if<List>(&value); name != "_class_name" && list != nullptr)
        component(name, *list);
  }

  void custom_pipeline(std::string_view module) {
    add(fmt::format("custom pipeline {}", module), file_of(fmt::format("{}.x", module)), kDiffusers);
  }

  // "unet": ["my_unet", "MyUNet"]
  void component(const std::string& name, const List& pair) {
    if (pair.size() < 2 || !std::holds_alternative<std::string>(pair[0])) return;
    if (!std::holds_alternative<std::string>(pair[1])) return;
    const auto& library = std::get<std::string>(pair[0]);
    const auto& class_name = std::get<std::string>(pair[1]);
    const std::string file = fmt::format("{}{}/{}.py", directory_, name, library);
    const bool is_known = is_one_of(package_of(library), kLibraries) || is_pipeline_module(library);
    const std::string full = fmt::format("{}: {}.{}", name, library, class_name);
    if (files_.has(file)) return add(full, file, kDiffusers);
    if (!is_known || leads_to_danger(fmt::format("{}.{}", library, class_name))) add(full, path_, kImported);
  }

  // [{"type": "sentence_transformers.models.Transformer"}]
  void modules(const Value& json) {
    const auto* const list = std::get_if<List>(&json);
    if (list == nullptr) return;
    for (const Value& value : *list)
      if (const auto* const entry = std::get_if<Map>(&value)) module(text_in(*entry, "type"));
  }

  void module(std::string_view type) {
    const bool is_own = package_of(type) == "sentence_transformers" && !leads_to_danger(type);
    if (!is_own && type.find('.') != type.npos) add(fmt::format("module {}", type), file_of(type), kSentences);
  }

  void activation(std::string_view function) {
    if (function.find('.') == function.npos) return;
    const bool is_known = package_of(function) == "torch" || package_of(function) == "sentence_transformers";
    if (!is_known || leads_to_danger(function)) add(fmt::format("function {}", function), path_, kSentences);
  }

  // The class of the model that an adapter of PEFT is for: {"base_model_class": "LlamaModel", "parent_library":
  // "transformers.models.llama.modeling_llama"}
  void adapter(const Map& map) {
    const Map* const names = map.find_as<Map>("auto_mapping");
    const std::string_view library = names == nullptr ? "" : text_in(*names, "parent_library");
    if (library.empty() || (is_one_of(package_of(library), kLibraries) && !leads_to_danger(library))) return;
    add(fmt::format("class {}.{}", library, text_in(*names, "base_model_class")), path_, kImported);
  }

  // A .mar of TorchServe.
  void archive(const Map& manifest) {
    const Map* const model = manifest.find_as<Map>("model");
    if (model == nullptr) return;
    const std::string_view handler = text_in(*model, "handler");
    const std::string_view file = handler.substr(0, handler.find(':'));
    if (!file.empty() && !is_one_of(file, kHandlers)) add(fmt::format("handler {}", handler), member(file), kServed);
    if (const std::string_view code = text_in(*model, "modelFile"); !code.empty())
      add(fmt::format("model file {}", code), member(code), kServed);
    if (const std::string_view packages = text_in(*model, "requirementsFile"); !packages.empty())
      add(fmt::format("packages of {}", packages), member(packages), "when TorchServe installs them");
  }

  // A file of the archive; the manifest is in a directory of its own.
  std::string member(std::string_view name) const {
    constexpr std::string_view kOwn = "MAR-INF/";
    std::string top = directory_;
    if (top.ends_with(kOwn)) top.resize(top.size() - kOwn.size());
    for (const std::string_view suffix : {"", ".py"})
      if (const std::string file = fmt::format("{}{}{}", top, name, suffix); files_.has(file)) return file;
    return path_;
  }

  // {"__class__": "Popen", "__module__": "subprocess"}
  void types(const Value& value) {
    if (const auto* const list = std::get_if<List>(&value))
      for (const Value& one : *list) types(one);
    const auto* const map = std::get_if<Map>(&value);
    if (map == nullptr) return;
    type(text_in(*map, "__module__"), text_in(*map, "__class__"));
    type(text_in(*map, "module_path"), text_in(*map, "function"));
    for (const auto& [key, one] : *map) types(one);
  }

  void type(std::string_view module, std::string_view name) {
    if (module.empty() || name.empty() || (module == "builtins" && is_one_of(name, kPlain))) return;
    const std::string full = fmt::format("{}.{}", module, name);
    if (is_one_of(package_of(module), kData) && !leads_to_danger(full)) return;
    add(full, path_, "when skops loads the file as one of trusted types");
  }

  std::string path_, directory_;
  const Paths& files_;
  CodeList& out_;
};

}  // namespace

Paths::Paths(const Model& model) {
  for (const Part& part : model.parts) sorted_.push_back(&part);
  std::ranges::sort(sorted_, {}, [](const Part* part) -> const std::string& { return part->path; });
}

const Part* Paths::find(std::string_view path) const {
  const auto path_of = [](const Part* part) { return std::string_view(part->path); };
  const auto found = std::ranges::lower_bound(sorted_, path, {}, path_of);
  return found == sorted_.end() || (*found)->path != path ? nullptr : *found;
}

const Part* Paths::resolve(const Part& part) const {
  constexpr int kMaxLinks = 40;
  const Part* at = &part;
  for (int i = 0; i < kMaxLinks && at != nullptr && !at->link_target.empty(); ++i) {
    const auto target = normalize(directory_of(at->path) + at->link_target, Dots::resolved);
    at = target ? find(*target) : nullptr;
  }
  return at != nullptr && at->link_target.empty() ? at : nullptr;
}

bool is_configuration(std::string_view path) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"config.json", "model_index.json", "modular_model_index.json", "modules.json",
                                       "chat_template.json", "MANIFEST.json", "schema.json", "configuration.json"});
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return is_one_of(name, kNames) || name.ends_with("_config.json");
}

void add_configuration(const Value& json, std::string_view path, const Paths& files, CodeList& out) {
  Configuration(path, files, out).examine(json);
}

}  // namespace weightfs::code
