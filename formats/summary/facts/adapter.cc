#include "formats/summary/facts/adapter.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "formats/summary/adapter_name.h"
#include "formats/summary/diffusion/diffusion.h"
#include "formats/summary/facts/card.h"
#include "formats/summary/fields.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMaxTargets = 100;

bool is_of_adapter(const TensorList& tensors) {
  if (tensors.empty()) return false;
  bool has_pair = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const AdapterName place = adapter_name(tensors.name(i));
    if (place.end.empty()) return false;
    has_pair |= place.end != "alpha";
  }
  return has_pair;
}

bool is_first_matrix(std::string_view end) {
  return end == "lora_A" || end == "lora_a" || end == "lora_down" || end == "lora.down" || end == "hada_w1_b" ||
         end == "lokr_w2_b";
}

// What the tensors show: the ranks, and the last components of the modules.
struct Shown {
  std::set<uint64_t> ranks;
  std::set<std::string> targets;
};

// "attn2_to_k" of "lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_attn2_to_k": the scripts of kohya replace
// the dots, so what is behind the number of the block is the module.
std::string_view after_blocks(std::string_view name) {
  size_t after = 0;
  for (const std::string_view blocks : {"transformer_blocks_", "layers_", "double_blocks_", "single_blocks_"}) {
    const size_t begin = name.rfind(blocks);
    if (begin == name.npos) continue;
    const size_t number = begin + blocks.size();
    const size_t end = name.find_first_not_of("0123456789", number);
    if (end != name.npos && end > number && name[end] == '_') after = std::max(after, end + 1);
  }
  return name.substr(after);
}

// The module that an adapter is for: a wrapper of PEFT has it in `base_layer`.
std::string_view target_of(std::string_view module) {
  for (const std::string_view end : {".weight", ".base_layer"})
    while (module.ends_with(end)) module.remove_suffix(end.size());
  const std::string_view last = last_component(module);
  return last.starts_with("lora_") ? after_blocks(last) : last;
}

// MLX has lora_a [in, rank] and lora_b [rank, out], with experts in front; GGUF and others have the rank first.
Number rank_of(std::string_view end, ShapeView first, ShapeView second) {
  if (end != "lora_a" || first.size() != second.size() || first.size() < 2) return first.front();
  const auto at = [](ShapeView shape, size_t from_end) { return shape[shape.size() - from_end]; };
  const bool is_rank_first = at(first, 2) == at(second, 1);
  const bool is_rank_last = at(first, 1) == at(second, 2);
  if (is_rank_first && is_rank_last) return std::min(at(first, 2), at(first, 1));
  return is_rank_first ? Number(at(first, 2)) : is_rank_last ? Number(at(first, 1)) : std::nullopt;
}

Shown shown_by(const TensorList& tensors) {
  Shown shown;
  std::map<std::string_view, size_t> seconds;  // lora_b, by the module
  for (size_t i = 0; i < tensors.size(); ++i)
    if (const AdapterName place = adapter_name(tensors.name(i)); place.end == "lora_b")
      seconds.emplace(place.module, i);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const AdapterName place = adapter_name(tensors.name(i));
    if (place.end.empty() || place.module.empty()) continue;
    if (shown.targets.size() < kMaxTargets) shown.targets.emplace(target_of(place.module));
    const ShapeView shape = tensors.shape(i);
    if (!is_first_matrix(place.end) || shape.size() < 2 || shown.ranks.size() >= kMaxTargets) continue;
    const auto second = seconds.find(place.module);
    const ShapeView other = second == seconds.end() ? ShapeView() : tensors.shape(second->second);
    if (const Number rank = rank_of(place.end, shape, other)) shown.ranks.insert(*rank);
  }
  return shown;
}

void set_targets(const std::set<std::string>& targets, Adapter& out) {
  out.target_modules.assign(targets.begin(), targets.end());
}

// PEFT's adapter_config.json.
Adapter of_peft(const Fields& config, const Shown& shown) {
  Adapter out;
  out.method = config.text({"peft_type"});
  if (out.method.empty()) out.method = "LORA";
  if (config.flag("use_dora").value_or(false)) out.method = "DORA";
  out.rank = config.number({"r"});
  const Fields pattern = config.object({"rank_pattern"});
  if (out.rank && pattern) {
    std::set<uint64_t> others;
    for (const auto& [name, value] : *pattern.map())
      if (const Number rank = number_of(value); rank && rank != out.rank && others.size() < kMaxTargets)
        others.insert(*rank);
    out.rank_text = others.empty() ? "" : fmt::format("{}", *out.rank);
    for (const uint64_t rank : others) out.rank_text += fmt::format(", some {}", rank);
  }
  out.alpha = config.real({"lora_alpha"});
  out.uses_rslora = config.flag("use_rslora").value_or(false);
  std::set<std::string> targets;
  for (const char* const key : {"target_modules", "target_parameters"})
    if (config.list(key) != nullptr)
      for (std::string& name : config.texts(key)) targets.insert(std::move(name));
  set_targets(targets.empty() ? shown.targets : targets, out);
  out.base_model = config.text({"base_model_name_or_path"});
  out.task = config.text({"task_type"});
  return out;
}

// The adapter_config.json of mlx_lm.
Adapter of_mlx(const Fields& config, const Shown& shown) {
  Adapter out;
  out.method = upper_case(config.text({"fine_tune_type"}));
  if (out.method.empty()) out.method = "LORA";
  const Fields parameters = config.object({"lora_parameters"});
  out.rank = parameters.number({"rank"});
  if (!out.rank && !shown.ranks.empty()) out.rank = *shown.ranks.rbegin();
  out.alpha = parameters.real({"alpha"});
  set_targets(shown.targets, out);
  out.base_model = config.text({"model"});
  return out;
}

Adapter of_gguf(const Fields& keys, const Shown& shown) {
  Adapter out;
  out.method = upper_case(keys.text({"adapter.type"}));
  if (out.method.empty()) out.method = "LORA";
  out.alpha = keys.real({"adapter.lora.alpha"});
  if (!shown.ranks.empty()) out.rank = *shown.ranks.rbegin();
  set_targets(shown.targets, out);
  out.base_model = repository_in(keys.text({"general.base_model.0.repo_url"}));
  if (out.base_model.empty()) out.base_model = keys.text({"general.base_model.0.name"});
  return out;
}

// The metadata of safetensors, in which every value is a text.
Adapter of_metadata(const Fields& metadata, const Model& model, const Shown& shown) {
  Adapter out;
  const bool is_lokr =
      std::ranges::any_of(model.tensors, [](const TensorView& t) { return t.name.find("lokr_") != t.name.npos; });
  const bool is_loha =
      std::ranges::any_of(model.tensors, [](const TensorView& t) { return t.name.find("hada_") != t.name.npos; });
  out.method = is_lokr ? "LOKR" : is_loha ? "LOHA" : "LORA";
  out.rank = parse_number<uint64_t>(metadata.text({"ss_network_dim"}));
  if (!out.rank && !shown.ranks.empty()) out.rank = *shown.ranks.rbegin();
  out.alpha = parse_number<double>(metadata.text({"ss_network_alpha"}));
  set_targets(shown.targets, out);
  out.base_model = metadata.text({"ss_sd_model_name", "modelspec.architecture"});
  return out;
}

constexpr uint64_t kMaxTagText = uint64_t{1} << 20;
constexpr size_t kMaxTags = 10;
constexpr size_t kMaxTag = 100;  // bytes

// The tags of the captions, the most frequent first. kohya's scripts store how often each occurs, by the directory of
// its pictures.
std::vector<std::string> common_tags(const Map& metadata, SmallFiles& files) {
  const auto* const text = metadata.find_as<std::string>("ss_tag_frequency");
  const Map* const directories = text == nullptr ? nullptr : files.object_in(*text, kMaxTagText);
  if (directories == nullptr) return {};
  std::map<std::string_view, uint64_t> counts;
  for (const auto& [directory, frequencies] : *directories) {
    const auto* const tags = std::get_if<Map>(&frequencies);
    if (tags == nullptr) continue;
    for (const auto& [tag, count] : *tags)
      if (const std::string_view word = trimmed(tag); !word.empty() && word.size() <= kMaxTag)
        counts[word] += number_of(count).value_or(0);
  }
  std::vector<std::pair<std::string_view, uint64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(), [](const auto& one) { return one.second; });
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(kMaxTags, sorted.size()); ++i) out.emplace_back(sorted[i].first);
  return out;
}

// The family by the text that cross-attention reads, or by the names of blocks.
std::string_view family_by_tensors(const TensorList& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors.name(i);
    const auto has = [&](std::string_view text) { return name.find(text) != name.npos; };
    if (has("single_transformer_blocks") || has("double_blocks_0_img_attn") || has("double_blocks.0.img_attn"))
      return "Flux.1";
    const bool is_cross = has("attn2_to_k.") || has("attn2.to_k.") || has("attn2.processor.to_k_lora.");
    const ShapeView shape = tensors.shape(i);
    if (is_cross && is_first_matrix(adapter_name(name).end) && shape.size() >= 2)
      if (const std::string_view family = family_by_width(shape[1]); !family.empty()) return family;
  }
  return "";
}

// What a person who makes pictures with an adapter asks.
void describe_use(const Model& model, SmallFiles& files, Adapter& out) {
  const Fields metadata(&model.metadata, "metadata", files.warnings());
  out.base_version = metadata.text({"ss_base_model_version"});
  if (out.base_version.empty()) out.base_version = family_of(metadata.text({"modelspec.architecture"}));
  if (out.base_version.empty()) out.base_version = family_by_tensors(model.tensors);
  out.trigger_phrase = metadata.text({"modelspec.trigger_phrase"});
  if (out.trigger_phrase.empty()) out.trigger_phrase = instance_prompt(files);
  out.tags = common_tags(model.metadata, files);
}

}  // namespace

std::optional<Adapter> find_adapter(const Model& model, SmallFiles& files, const Map* gguf) {
  if (gguf != nullptr) {
    const Fields keys(gguf, "gguf", files.warnings());
    if (keys.text({"general.type"}) != "adapter" && !keys.has("adapter.type")) return std::nullopt;
    return of_gguf(keys, shown_by(model.tensors));
  }
  // adapter_config.json may lie beside the base model, too.
  const bool is_named = std::ranges::any_of(model.parts, [](const Part& part) {
    const std::string stem = part.path.substr(0, part.path.rfind('.'));
    return last_component(stem).starts_with("adapter_model") || stem.ends_with("adapters");
  });
  const bool is_adapter = is_of_adapter(model.tensors);
  if (!is_named && !is_adapter) return std::nullopt;
  std::optional<Adapter> out;
  if (const Map* const object = files.object("adapter_config.json")) {
    const Fields config(object, "adapter_config.json", files.warnings());
    const bool is_mlx = !config.has("peft_type") && (config.has("fine_tune_type") || config.has("lora_parameters"));
    out = is_mlx ? of_mlx(config, shown_by(model.tensors)) : of_peft(config, shown_by(model.tensors));
  } else if (is_adapter) {
    out = of_metadata(Fields(&model.metadata, "metadata", files.warnings()), model, shown_by(model.tensors));
  }
  if (out) describe_use(model, files, *out);
  return out;
}

}  // namespace weightfs::summary
