#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "base/text.h"
#include "formats/completeness.h"
#include "formats/directory/small_json.h"
#include "formats/directory/weight_files.h"
#include "formats/flat_formats.h"
#include "formats/safetensors/unlisted_shards.h"
#include "formats/summary/diffusion/diffusion.h"
#include "formats/summary/facts/adapter.h"
#include "formats/summary/facts/card.h"
#include "formats/summary/facts/config_file.h"
#include "formats/summary/facts/gguf_facts.h"
#include "formats/summary/facts/graph.h"
#include "formats/summary/facts/kind.h"
#include "formats/summary/summary.h"
#include "formats/summary/tensors/naming.h"
#include "formats/summary/tensors/stated.h"
#include "formats/summary/tensors/totals.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMaxName = 200;
constexpr uint64_t kMaxEpochs = 1'000'000'000;

// What the sections of the summary share.
struct Work {
  explicit Work(const Model& m) : model(m), files(m), gguf(gguf_keys_of(m)) {}

  const Model& model;
  SmallFiles files;
  const Map* gguf;
  Config config;
  Fields quantisation;
  StatedPacking stated;
  Summary out;
};

// The object that says how weights are packed: in config.json, or in a file of its own.
void find_quantisation(Work& work) {
  auto& warnings = work.files.warnings();
  work.quantisation = work.config.outer.object({"quantization_config", "quantization"});
  if (!work.quantisation) work.quantisation = work.config.text.object({"quantization_config", "quantization"});
  for (const char* const name : {"quantize_config.json", "quant_config.json"})
    if (!work.quantisation && work.gguf == nullptr)
      if (const Map* const object = work.files.object(name)) work.quantisation = Fields(object, name, warnings);
  if (work.quantisation || work.gguf != nullptr) return;
  if (const Map* const object = work.files.object("hf_quant_config.json"))
    work.quantisation = Fields(object, "hf_quant_config.json", warnings).object({"quantization"});
  const auto* const text = work.model.metadata.find_as<std::string>("quantization_config");  // nunchaku
  if (text != nullptr && !work.quantisation)
    if (const Map* const object = work.files.object_in(*text)) work.quantisation = Fields(object, "metadata", warnings);
}

std::string format_by_name(const std::string& path) {
  const auto all = formats();
  const auto named = std::ranges::find_if(all, [&](const Format& format) { return !format.suffix_of(path).empty(); });
  return named == all.end() ? "" : std::string(named->name);
}

void describe_files(Work& work) {
  const ChosenFiles& chosen = *work.model.chosen;
  Summary& out = work.out;
  out.weight_files = weight_files_of(work.model);
  for (const ChosenFiles::File& file : chosen.alternatives)
    out.alternatives.push_back({file.path, format_by_name(file.path), file.bytes});
  for (const ChosenFiles::File& file : chosen.training_state) out.training_state.push_back({file.path, "", file.bytes});
  out.projector = chosen.projector;
  out.repository = chosen.repository;
  out.commit = chosen.commit;
  for (const ChosenFiles::Component& component : chosen.components)
    out.components.push_back({component.name, component.class_name, 0, 0});
  if (chosen.training_state.empty()) return;
  if (const Map* const state = work.files.object("trainer_state.json"))
    if (const Value* const steps = state->find("global_step"))
      if (const Number number = number_of(*steps); number && *number < kMaxEpochs) out.training_steps = number;
}

// Adds the tensors of each component up. `components` are sorted.
void add_up_components(const Model& model, const std::vector<Counted>& counted, std::vector<Component>& components) {
  const TensorList& tensors = model.tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors.name(i);
    const std::string_view directory = name.substr(0, std::min(name.find('/'), name.size()));
    const auto component = std::ranges::lower_bound(components, directory, {}, &Component::name);
    if (component == components.end() || component->name != directory) continue;
    if (counted[i].role == Role::parameter)
      component->parameters = counted[i].is_known ? sum(component->parameters, counted[i].elements) : std::nullopt;
    component->bytes = sum(component->bytes, listed_bytes(tensors, i)).value_or(0);
  }
  // The component that a missing file is of is not known.
  if (may_lack_tensors(model))
    for (Component& component : components) component.parameters = std::nullopt;
}

// A pipeline: what each directory of tensors has.
void describe_pipeline(Work& work, const std::vector<Counted>& counted) {
  Summary& out = work.out;
  const TensorList& tensors = work.model.tensors;
  const bool is_one_file = traits_of(work.model.format).content == Traits::pipeline;  // its metadata are the index
  const Map* const index = is_one_file ? &work.model.metadata : work.files.object("model_index.json");
  if (index != nullptr) out.architecture = out.architecture_class = text_in(*index, "_class_name").substr(0, kMaxName);
  if (is_one_file) {
    std::set<std::string_view> names;
    for (size_t i = 0; i < tensors.size() && names.size() < 100; ++i)
      if (const size_t slash = tensors.name(i).find('/'); slash != std::string_view::npos)
        names.insert(tensors.name(i).substr(0, slash));
    for (const std::string_view name : names) out.components.push_back({std::string(name), "", 0, 0});
  }
  for (Component& component : out.components) {
    const auto* const entry = index == nullptr ? nullptr : index->find_as<List>(component.name);
    if (component.class_name.empty() && entry != nullptr && entry->size() == 2)
      if (const auto* const name = std::get_if<std::string>(&entry->back()))
        component.class_name = name->substr(0, kMaxName);
  }
  std::ranges::sort(out.components, {}, &Component::name);
  add_up_components(work.model, counted, out.components);
}

// What an embedding model makes of the tokens (sentence-transformers).
void describe_embedding(Work& work) {
  Summary& out = work.out;
  auto& warnings = work.files.warnings();
  if (const Map* const object = work.files.object("1_Pooling/config.json")) {
    const Fields pooling(object, "1_Pooling/config.json", warnings);
    for (const auto& [key, name] :
         {std::pair{"pooling_mode_cls_token", "cls"}, std::pair{"pooling_mode_mean_tokens", "mean"},
          std::pair{"pooling_mode_max_tokens", "max"}, std::pair{"pooling_mode_lasttoken", "last"},
          std::pair{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len"}})
      if (pooling.flag(key).value_or(false)) out.pooling += (out.pooling.empty() ? "" : "+") + std::string(name);
    out.embedding_size = pooling.number({"word_embedding_dimension"});
  }
  for (const char* const path : {"2_Dense/config.json", "3_Dense/config.json"})
    if (const Map* const object = work.files.object(path))
      if (const Number size = Fields(object, path, warnings).number({"out_features"})) out.embedding_size = size;
  if (!out.embedding_size) out.embedding_size = out.hidden_size;
}

// The title of a model card, which begins with front matter: any other README may be about anything.
std::string title_of(std::string_view readme) {
  if (!readme.starts_with("---\n") && !readme.starts_with("---\r\n")) return "";
  const size_t end = readme.find("\n---", 3);
  const size_t at = end == readme.npos ? end : readme.find("\n# ", end + 1);
  if (at == readme.npos) return "";
  std::string_view line = readme.substr(at + 3);
  line = trimmed(line.substr(0, line.find('\n')));
  const bool is_plain = line.find_first_of("<[`*{") == line.npos && is_utf8(line) && line.size() <= 100;
  return is_plain ? std::string(line) : "";
}

void describe_name(Work& work) {
  Summary& out = work.out;
  if (!out.name.empty()) return;
  if (out.kind != "adapter")
    if (std::string stated = work.config.outer.text({"_name_or_path", "name_or_path"}); is_repository_name(stated))
      out.name = std::move(stated);
  if (const auto* const name = work.model.common.find_as<std::string>("name"); out.name.empty() && name != nullptr)
    if (traits_of(work.model.format).content != Traits::pipeline || is_repository_name(*name))
      out.name = name->substr(0, kMaxName);
  // A card describes the model of its directory, not each file that is beside it.
  if (out.name.empty() && work.model.chosen.is_set()) out.name = title_of(work.files.head("README.md", 64 * 1024));
  if (out.name.empty()) out.name = out.repository;
}

// What the container says where the files beside it do not.
void describe_common(Work& work) {
  Summary& out = work.out;
  const auto* const license = work.model.common.find_as<std::string>("license");
  if (out.license.empty() && license != nullptr) out.license = license->substr(0, kMaxName);
  if (out.repository.empty()) out.repository = text_in(work.model.common, "repository").substr(0, kMaxName);
  if (out.commit.empty()) out.commit = text_in(work.model.common, "commit").substr(0, kMaxName);
  if (work.gguf == nullptr || traits_of(work.model.format).has_gguf_keys) return;
  // An Ollama model: its template is a layer.
  for (const Part& part : work.model.parts)
    if (part.path == "template" || part.path == "template.txt") {
      out.has_chat_template = true;
      const auto source = part.source.get();
      const auto text =
          source ? read_text(**source, 0, std::min<uint64_t>((*source)->size(), 1 << 20)) : Result<std::string>("");
      if (text) describe_template(*text, out);
    }
  const auto* const parameters = work.model.metadata.find_as<Map>("parameters");
  if (parameters != nullptr && parameters->size() <= 100 && out.generation.empty()) out.generation = *parameters;
}

void fill_from_shapes(Work& work, const Shapes& shapes) {
  Summary& out = work.out;
  if (is_graph_format(work.model) || work.gguf != nullptr || out.kind == "diffusion") return;  // not of a text encoder
  const bool is_text = work.config.outer || shapes.has_embedding;
  if (!is_text) return;
  const bool has_all = !may_lack_tensors(work.model);
  if (has_all && !out.layers && !work.config.is_encoder_decoder && out.kind != "vision") out.layers = shapes.layers;
  if (!out.vocabulary_size) out.vocabulary_size = shapes.vocabulary_size;
  if (!out.hidden_size) out.hidden_size = shapes.hidden_size;
  if (!out.ffn_size) out.ffn_size = shapes.ffn_size;
  if (!out.head_dim) out.head_dim = shapes.head_dim;
  if (has_all && !out.experts && shapes.experts.value_or(0) > 1) out.experts = shapes.experts;
}

// The number of experts in use in each layer, if it is a list.
std::vector<uint64_t> experts_by_layer(const Work& work) {
  for (const char* const name : {"moe_topk", "num_experts_per_tok"})
    if (work.config.text.list(name) != nullptr) return work.config.text.per_layer(name, work.out.layers.value_or(0));
  return {};
}

// A projector in a file of its own has parameters that are not of the model.
void describe_projector_file(Work& work) {
  if (work.out.projector.empty()) return;
  const SourcePtr bytes = work.files.open(work.out.projector);
  if (bytes == nullptr) return;
  Container container{.name = work.out.projector, .bytes = bytes, .depth = 1};
  if (work.model.budget != nullptr) container.budget = work.model.budget;
  const auto model = read_gguf(container);
  if (!model)
    return work.out.warnings.push_back(fmt::format("{}: {}", printable(work.out.projector), model.error().message));
  Number elements = 0;
  for (size_t i = 0; i < model->tensors.size(); ++i) elements = sum(elements, elements_of(model->tensors.shape(i)));
  work.out.parameters_vision = elements;
}

bool has_cache(const Summary& out) {
  static constexpr std::array<std::string_view, 4> kKinds = {"causal-lm", "encoder-decoder", "speech",
                                                             "vision-language"};
  return std::ranges::find(kKinds, out.kind) != kKinds.end();
}

// A model of pictures in one file: nothing beside it says what it is.
void describe_diffusion(Work& work) {
  const auto found = find_diffusion(work.model, work.files.warnings());
  if (!found) return;
  work.out.kind = found->kind;
  work.out.family = found->family;
  if (!found->architecture.empty()) work.out.architecture = found->architecture;
}

void describe_model(Work& work) {
  Summary& out = work.out;
  auto& warnings = work.files.warnings();
  if (work.gguf != nullptr) describe_gguf(Fields(work.gguf, "gguf", warnings), work.model.tensors, out);
  if (work.gguf == nullptr) work.config = read_config(work.files);
  find_quantisation(work);
  work.stated = stated_packing(work.config.outer, work.quantisation);
  out.adapter = find_adapter(work.model, work.files, work.gguf);
  if (work.config.outer && !out.adapter) describe_config(work.config, out);
  describe_files(work);
  out.kind = kind_of(work.model, work.config, work.gguf, work.files, out);
  if (out.kind == "tensors") describe_diffusion(work);
  if (is_graph_format(work.model)) describe_graph(work.model, out);
  describe_texts(work.files, out);
  describe_common(work);
  if (out.kind == "embedding" && work.gguf == nullptr) describe_embedding(work);
  describe_name(work);
}

// Some tensors are missing: their part of each sum is not known, nor whether one is an output head unless that is
// stated.
void leave_out_sums(bool has_stated_head, Summary& out) {
  out.parameters = out.parameters_active = out.parameters_mtp = std::nullopt;
  out.parameters_vision = out.parameters_audio = std::nullopt;
  out.buffer_elements = out.optimizer_elements = std::nullopt;
  out.weight_bytes = 0;
  out.bits_per_weight = std::nullopt;
  if (!has_stated_head && out.tied_embeddings.value_or(false)) out.tied_embeddings = std::nullopt;
  out.warnings.emplace_back("tensors are missing: the number of parameters is not known");
}

// What is only known once the tensors are counted.
void describe_tensors(Work& work, Roles& roles) {
  Summary& out = work.out;
  const TensorNames names = parse_names(work.model.tensors, out, work.gguf != nullptr);
  const Shapes shapes = shapes_of(work.model.tensors, names, roles.tensors);
  fill_from_shapes(work, shapes);
  std::optional<bool> tied = work.config.outer.flag("tie_word_embeddings");
  if (!tied) tied = work.config.text.flag("tie_word_embeddings");
  find_tied(work.model.tensors, names, tied, roles.tensors, out);
  if (work.model.lacks->has_other_numbers) roles.packing.is_complete = false;
  add_up(work.model.tensors, names, roles, experts_by_layer(work), out);
  if (may_lack_tensors(work.model)) leave_out_sums(tied.has_value(), out);
  out.quantisation = name_quantisation(roles.packing, work.quantisation, work.stated);
  if (work.gguf != nullptr && out.kind != "vocabulary") {
    const std::string file = out.weight_files.empty() ? "" : out.weight_files.front();
    out.quantisation = gguf_quantisation(Fields(work.gguf, "gguf", work.files.warnings()), work.model.tensors, file);
  }
  if (out.kind == "pipeline") describe_pipeline(work, roles.tensors);
  if (out.kind == "diffusion")
    out.components = components_of_checkpoint(work.model.tensors, roles.tensors, may_lack_tensors(work.model));
  if (work.config.outer && has_cache(out)) {
    const auto cache = cache_by_config(work.config, out, key_rows_of(work.model.tensors, names));
    if (cache) out.kv_cache = cache->total;
  }
  if (!has_cache(out)) out.kv_cache = std::nullopt;
  describe_projector_file(work);
}

}  // namespace

Summarised summarise(const Model& model) {
  Work work(model);
  const uint64_t count = model.tensors.size();
  const BudgetPtr budget = model.budget;
  // The roles stay; names are sorted for a moment.
  constexpr uint64_t kBytes = sizeof(Counted) + 64;
  const auto paid = budget == nullptr ? Result<void>() : budget->charge(Cost::kept, count * kBytes);
  const auto worked = budget == nullptr || !paid ? Result<void>() : budget->charge(Cost::step, count);
  describe_model(work);
  Roles roles;
  if (paid && worked) {
    roles = find_roles(model, work.stated, [&](const std::string& text) { return work.files.object_in(text); });
    describe_tensors(work, roles);
  } else {
    work.out.warnings.push_back((paid ? worked : paid).error().message);
    roles.tensors.resize(count);
  }
  if (paid && budget != nullptr) budget->release(Cost::kept, count * kBytes);
  auto& warnings = work.out.warnings;
  // The facts are those of other files than the publisher's index lists.
  std::ranges::copy_if(model.warnings, std::back_inserter(warnings), [](const std::string& warning) {
    return warning.find(safetensors::kStaleIndex) != warning.npos;
  });
  warnings.insert(warnings.end(), roles.warnings.begin(), roles.warnings.end());
  warnings.insert(warnings.end(), work.files.warnings().begin(), work.files.warnings().end());
  return {std::move(work.out), std::move(roles.tensors)};
}

}  // namespace weightfs::summary
