// The rule of formats/one_model.h, line by line.
#include "formats/one_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "formats/directory/directory_files.h"
#include "formats/directory/pieces.h"
#include "formats/directory/small_json.h"
#include "formats/flat_formats.h"

namespace weightfs {
namespace directory {
namespace {

using Chosen = std::optional<OneModel>;
using Role = WeightName::Role;

constexpr const char* kPipeline = "model_index.json";
constexpr const char* kConfig = "config.json";
constexpr const char* kModules = "modules.json";
constexpr const char* kAdapter = "adapter_config.json";

OneModel::Weights weights_of(const WeightSet& set, std::string prefix = {}) {
  const bool has_index = set.name.role != Role::shard || set.name.family == Family::gguf;
  if (has_index) return {set.path, {}, std::move(prefix)};
  return {set.path, set.files, std::move(prefix), set.name.count};
}

// Applies the rule to one directory.
class Rule {
 public:
  explicit Rule(const DirectoryView& view) : view_(view), files_(view.files) {}

  Result<Chosen> apply() {
    if (auto pipeline = TRY(find_pipeline())) return pipeline;
    if (auto pieces = find_pieces()) return pieces;
    if (auto model = TRY(find_described())) return model;
    if (auto adapter = find_adapter()) return adapter;
    if (view_.is_model == nullptr) return std::nullopt;
    if (auto form = TRY(find_form())) return form;
    if (auto gguf = TRY(find_gguf())) return gguf;
    return find_only();
  }

  // The model of a file that is named.
  Result<OneModel> at(std::string_view path) const {
    const std::string manifest = fmt::format("{}/Manifest.json", path);  // of a package of Core ML
    const bool is_package = path.ends_with(".mlpackage") && files_.has(manifest);
    if (!is_package && !files_.has(path))
      return failure(Code::not_found, fmt::format("{}: no such file in the directory", printable(path)));
    OneModel model;
    model.weights.push_back({is_package ? manifest : std::string(path), {}, {}});
    name_others(model, Projector::none);
    return model;
  }

 private:
  enum class Projector { named, none };

  // model_index.json: the weights of each component.
  Result<Chosen> find_pipeline() const {
    if (!files_.has(kPipeline)) return std::nullopt;
    const auto index = TRY(read_small_json(view_.folder, kPipeline, view_.budget));
    const auto components = index ? components_in(*index) : std::nullopt;
    if (!components) return std::nullopt;
    OneModel model;
    model.pipeline = kPipeline;
    for (const NamedComponent& component : *components) {
      const auto sets = files_.sets_in(component.name);
      if (!has_component(component.name))
        (component.has_weights ? model.missing : model.warnings)
            .push_back(fmt::format("{} lists the folder {}: missing", kPipeline, quoted(component.name)));
      const WeightSet* const set = choose_weights(sets, {}, Ambiguity::resolved);
      if (set == nullptr || set->name.family == Family::openvino) continue;
      model.weights.push_back(weights_of(*set, component.name + "/"));
      model.chosen.components.push_back({component.name, component.class_name});
    }
    if (model.weights.empty()) return std::nullopt;
    for (const auto& component : model.chosen.components) name_sets(model, files_.sets_in(component.name));
    name_others(model, Projector::none);
    return model;
  }

  bool has_directory(const std::string& name) const {
    return files_.has_directory(name) || std::ranges::find(view_.directories, name) != view_.directories.end();
  }

  // Diffusers loads a component without a folder from the directory itself, which then has its configuration.
  bool has_component(const std::string& name) const {
    if (has_directory(name)) return true;
    return std::ranges::any_of(
        files_.names(), [](const std::string& file) { return file == kConfig || file.ends_with("_config.json"); });
  }

  // Files with pieces of tensors, before they were consolidated.
  Chosen find_pieces() const {
    const auto is_other = [](const WeightSet& set) {
      return set.name.family == Family::safetensors && !is_named_as_pieces(set.path);
    };
    OneModel::Weights weights;
    weights.are_pieces = true;
    for (const std::string& name : files_.names())
      if (is_named_as_pieces(name)) weights.shards.push_back(name);
    if (weights.shards.size() < 2 || std::ranges::any_of(files_.sets(), is_other)) return std::nullopt;
    weights.path = weights.shards.front();
    OneModel model;
    model.weights.push_back(std::move(weights));
    name_others(model, Projector::none);
    return model;
  }

  // A directory with config.json, modules.json or an index: the first set in the order of choose_weights().
  Result<Chosen> find_described() const {
    OneModel model;
    const auto modules = TRY(find_modules(model));
    const auto& sets = files_.sets();
    const auto below_onnx = files_.sets_in("onnx");
    const WeightSet* main = choose_weights(sets, below_onnx, Ambiguity::refused);
    if (main != nullptr && (!modules.empty() || files_.has(kModules) || TRY(is_described_for(*main))))
      model.weights.push_back(main->name.family == Family::gguf ? TRY(gguf_of(*main)) : weights_of(*main));
    for (const std::string& directory : modules) {
      const auto below = files_.sets_in(directory);
      const WeightSet* const set = choose_weights(below, {}, Ambiguity::resolved);
      if (set == nullptr) continue;
      model.weights.push_back(weights_of(*set, directory + "/"));
      name_sets(model, below);
    }
    if (model.weights.empty()) return std::nullopt;
    name_others(model, Projector::named);
    return model;
  }

  // Whether the other files say that the directory is a model with these weights.
  Result<bool> is_described_for(const WeightSet& main) const {
    const auto is_index = [](const WeightSet& set) { return set.name.role == Role::index; };
    if (std::ranges::any_of(files_.sets(), is_index)) return true;
    if (view_.is_published && main.path == "model.safetensors") return true;
    return files_.has(kConfig) && TRY(is_model_config(view_.folder, kConfig, view_.budget));
  }

  // The directories with weights that modules.json names, other than the directory itself. What is published as a whole
  // lacks none.
  Result<std::vector<std::string>> find_modules(OneModel& model) const {
    std::vector<std::string> found;
    if (!files_.has(kModules) || (view_.is_published && !files_.has_weights_below())) return found;
    const auto modules = TRY(read_small_json(view_.folder, kModules, view_.budget));
    const auto directories = modules ? module_directories_in(*modules) : std::nullopt;
    if (!directories) model.warnings.push_back(fmt::format("{}: not a list of modules", kModules));
    if (!directories) return found;
    for (const auto& [directory, has_files] : *directories) {
      if (has_files && !has_directory(directory))
        model.missing.push_back(fmt::format("{} lists the folder {}: missing", kModules, quoted(directory)));
      const bool is_new = std::ranges::find(found, directory) == found.end();
      if (!directory.empty() && is_new && !files_.sets_in(directory).empty()) found.push_back(directory);
    }
    return found;
  }

  // PEFT: safetensors before a pickle. MLX: not the checkpoints before the last one.
  Chosen find_adapter() const {
    if (!files_.has(kAdapter)) return std::nullopt;
    for (const char* name :
         {"adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors", "adapters.npz"}) {
      if (files_.has(name)) return adapter_in(name);
    }
    const auto last = last_checkpoint_of_adapter();
    return last ? adapter_in(*last) : std::nullopt;
  }

  Chosen adapter_in(const std::string& name) const {
    OneModel model;
    model.weights.push_back({name, {}, {}});
    name_others(model, Projector::none);
    return model;
  }

  // The last checkpoint of a training of MLX that has not ended: "0000200_adapters.safetensors".
  std::optional<std::string> last_checkpoint_of_adapter() const {
    std::pair<uint32_t, std::string> last;
    for (const std::string& name : files_.names()) {
      const size_t end = name.find('_');
      if (end == name.npos || name.substr(end) != "_adapters.safetensors") continue;
      if (const auto number = parse_number<uint32_t>(name.substr(0, end))) last = std::max(last, {*number, name});
    }
    return last.second.empty() ? std::nullopt : std::optional(last.second);
  }

  // The forms of a directory that belong to one format.
  Result<Chosen> find_form() const {
    std::vector<std::string> entries = files_.names();
    for (const auto* const directories : {&view_.directories, &files_.directories()})
      entries.insert(entries.end(), directories->begin(), directories->end());
    std::ranges::sort(entries);
    const auto entry = TRY(model_entry_file(entries, view_.folder));
    if (!entry) return std::nullopt;
    OneModel model;
    model.is_own_form = true;
    model.weights.push_back({*entry, {}, {}});
    name_all_models(model);
    return model;
  }

  // Names all files that are called models. Those that the form itself consists of are left out when it is read.
  void name_all_models(OneModel& model) const {
    std::set<std::string_view> of_sets;
    name_sets(model, files_.sets());
    for (const WeightSet& set : files_.sets()) {
      of_sets.insert(set.path);
      of_sets.insert(set.files.begin(), set.files.end());
    }
    for (const std::string& name : files_.names())
      if (!of_sets.contains(name) && name != model.weights.front().path && is_other_model(name))
        model.chosen.alternatives.push_back({name, files_.size_of(name)});
    std::ranges::sort(model.chosen.alternatives, {}, &ChosenFiles::File::path);
  }

  // By the name: not an archive or a single array, which may be the data of a model. A structure of OpenVINO has its
  // weights beside it.
  bool is_other_model(std::string_view name) const {
    constexpr std::string_view kXml = ".xml";
    if (name.ends_with(kXml)) return files_.has(std::string(name.substr(0, name.size() - kXml.size())) + ".bin");
    const auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
    constexpr auto kOthers = std::to_array<std::string_view>({".npy", ".npz", ".zip"});
    return is_named_as_model(name) && !is_training_state(name) && std::ranges::none_of(kOthers, ends);
  }

  // One GGUF, whole or split, perhaps with a projector, adapters, a predictor and an importance matrix.
  Result<Chosen> find_gguf() {
    const WeightSet* main = nullptr;
    const WeightSet* addition = nullptr;
    size_t models = 0, additions = 0;
    TRY_VOID(look_into_ggufs());
    for (const WeightSet& set : files_.sets()) {
      if (set.name.family != Family::gguf && set.name.is_usual) return std::nullopt;
      if (set.name.family != Family::gguf) continue;
      const GgufUse use = use_of(set);
      if (use == GgufUse::model) ++models, main = &set;
      if (use == GgufUse::adapter || use == GgufUse::predictor) ++additions, addition = &set;
    }
    if (models == 0 && additions == 1) std::swap(main, addition);
    if (main == nullptr || models > 1 || !TRY(is_one(*main)) || has_models_below()) return std::nullopt;
    OneModel model;
    model.weights.push_back(TRY(gguf_of(*main)));
    name_others(model, Projector::named);
    return model;
  }

  // What a GGUF is for, by its keys if they were read, else by its name.
  GgufUse use_of(const WeightSet& set) const {
    const auto read = uses_.find(set.path);
    return read != uses_.end() ? read->second : use_of_gguf(set.name.base);
  }

  // Reads the keys of a few files on disk whose names do not show which of them is the model.
  Result<void> look_into_ggufs() {
    constexpr size_t kMost = 8;
    std::vector<const WeightSet*> models;
    for (const WeightSet& set : files_.sets())
      if (set.name.family == Family::gguf && use_of(set) == GgufUse::model) models.push_back(&set);
    if (view_.is_published || models.size() < 2 || models.size() > kMost) return {};
    for (const WeightSet* set : models)
      if (const auto use = TRY(use_by_keys(set->path))) uses_.emplace(set->path, *use);
    return {};
  }

  // Whether it has layers for multi-token prediction, and not the first one of a model.
  static bool is_predictor(const Model& model) {
    const auto begins = [&](std::string_view text) {
      return [text](const TensorView& tensor) { return tensor.name.starts_with(text); };
    };
    const std::string key = fmt::format("{}.nextn_predict_layers", text_in(model.metadata, "general.architecture"));
    return model.metadata.find(key) != nullptr && std::ranges::any_of(model.tensors, begins("blk.")) &&
           std::ranges::none_of(model.tensors, begins("blk.0."));
  }

  // Nothing if it is no valid GGUF.
  Result<std::optional<GgufUse>> use_by_keys(const std::string& path) const {
    const auto read = [&]() -> Result<Model> {
      const SourcePtr bytes = TRY(view_.folder.open(path));
      return read_gguf({.name = path, .bytes = bytes});
    };
    const auto model = read();
    if (!model && !is_permanent(model.error())) return tl::unexpected(model.error());
    if (!model) return std::nullopt;
    const std::string_view type = text_in(model->metadata, "general.type");
    if (type == "mmproj" || text_in(model->metadata, "general.architecture") == "clip") return GgufUse::projector;
    if (type == "imatrix") return GgufUse::importance_matrix;
    if (type == "adapter" || model->metadata.find("adapter.type") != nullptr) return GgufUse::adapter;
    return is_predictor(*model) ? GgufUse::predictor : GgufUse::model;
  }

  // Whether the files that are called shards are shards: else the directory lists each of them as a model.
  Result<bool> is_one(const WeightSet& set) const { return TRY(models_among(set)).size() < 2; }

  // The files of a set that are listed as models; of shards one that can be read.
  Result<std::vector<std::string>> models_among(const WeightSet& set) const {
    std::vector<std::string> found;
    if (view_.is_published || view_.is_model == nullptr || set.name.role != Role::shard) return found;
    for (const std::string& path : set.files)
      if (TRY(view_.is_model(path))) found.push_back(path);
    return found;
  }

  Result<OneModel::Weights> gguf_of(const WeightSet& set) const {
    OneModel::Weights weights = weights_of(set);
    if (const auto models = TRY(models_among(set)); !models.empty()) weights.path = models.front();
    return weights;
  }

  // The only file that is a model.
  Result<Chosen> find_only() const {
    std::optional<std::string> only;
    for (const std::string& name : files_.names()) {
      if (files_.is_training_state(name) || !TRY(view_.is_model(name))) continue;
      const auto split = view_.is_published ? split_model_named(name) : std::nullopt;
      if (only && (!split || split != split_model_named(*only))) return std::nullopt;
      if (!only) only = name;
    }
    if (!only || has_models_below()) return std::nullopt;
    OneModel model;
    const auto shards = std::ranges::find_if(files_.sets(), [&](const WeightSet& set) {
      return set.path == *only && set.name.role == Role::shard && set.name.is_usual && set.name.count <= kMaxShards;
    });
    model.weights.push_back(shards != files_.sets().end() ? weights_of(*shards) : OneModel::Weights{*only, {}, {}});
    name_others(model, Projector::none);
    return model;
  }

  bool has_models_below() const { return view_.has_models_below != nullptr && view_.has_models_below(); }

  // Names the other weights, and the files of a trainer.
  void name_others(OneModel& model, Projector projector) const {
    name_projector(model, projector);
    name_sets(model, files_.sets());
    for (const char* directory : {"onnx", "openvino", "original", "gguf"}) name_sets(model, files_.sets_in(directory));
    for (const auto& package : files_.packages())
      if (!model.weights.front().path.starts_with(package.path + "/")) model.chosen.alternatives.push_back(package);
    model.chosen.training_state = files_.training_state();
    std::ranges::sort(model.chosen.alternatives, {}, &ChosenFiles::File::path);
  }

  void name_projector(OneModel& model, Projector projector) const {
    if (projector == Projector::none || !model.weights.front().path.ends_with(".gguf")) return;
    const auto found = std::ranges::find_if(files_.sets(), [&](const WeightSet& set) {
      return set.name.family == Family::gguf && use_of(set) == GgufUse::projector;
    });
    if (found != files_.sets().end()) model.chosen.projector = found->path;
  }

  void name_sets(OneModel& model, const std::vector<WeightSet>& sets) const {
    for (const WeightSet& set : sets) {
      const auto is_it = [&](const OneModel::Weights& weights) {
        return weights.path == set.path || std::ranges::find(set.files, weights.path) != set.files.end();
      };
      const bool is_chosen = std::ranges::any_of(model.weights, is_it) || set.path == model.chosen.projector;
      const bool is_matrix = set.name.family == Family::gguf && use_of(set) == GgufUse::importance_matrix;
      // An index whose shards are not there under its name is another index of files that are named.
      const bool is_empty = set.files.empty();
      if (is_chosen || is_matrix || is_empty || !set.name.is_usual) continue;
      model.chosen.alternatives.push_back({set.path, set.bytes});
    }
  }

  const DirectoryView& view_;
  DirectoryFiles files_;
  std::map<std::string, GgufUse> uses_;  // of GGUFs whose keys were read
};

}  // namespace
}  // namespace directory

bool may_be_one_model(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [](const std::string& name) {
    if (name == directory::kPipeline || name == directory::kConfig || name == directory::kModules) return true;
    const auto parsed = directory::parse_weight_name(name);
    return name == directory::kAdapter || (parsed && parsed->role == directory::Role::index);
  });
}

Result<std::optional<OneModel>> find_one_model(const DirectoryView& directory) {
  return directory::Rule(directory).apply();
}

Result<OneModel> find_model_file(const DirectoryView& directory, std::string_view path) {
  return directory::Rule(directory).at(path);
}

bool is_named_as_weights(std::string_view name) {
  const auto parsed = directory::parse_weight_name(name);
  const bool is_weights = parsed && parsed->is_usual && parsed->role != directory::Role::index &&
                          parsed->family != directory::Family::openvino;
  return is_weights || is_named_as_model(name);
}

}  // namespace weightfs
