#include "formats/directory/weight_sets.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace weightfs::directory {
namespace {

using Role = WeightName::Role;
using Matches = std::function<bool(const WeightSet&)>;

// Groups files by what they have in common.
class Grouper {
 public:
  explicit Grouper(const std::string& prefix) : prefix_(prefix) {}

  void add(const std::string& file, uint64_t bytes, const WeightName& name) {
    auto& set = sets_[{name.family, name.base, name.role, name.count, name.role == Role::shard ? "" : file}];
    if (set.path.empty()) set = {name, prefix_ + file, {}, 0};
    if (name.role == Role::index) return;
    set.files.push_back(prefix_ + file);
    set.bytes += bytes;
  }

  std::vector<WeightSet> take() && {
    for (auto& [key, set] : sets_)
      if (set.name.role == Role::index) take_shards(set);
    std::vector<WeightSet> out;
    for (auto& [key, set] : sets_)
      if (!set.path.empty()) out.push_back(std::move(set));
    std::ranges::sort(out, {}, &WeightSet::path);
    return out;
  }

 private:
  using Key = std::tuple<Family, std::string, Role, uint32_t, std::string>;

  // An index has the shards of its base, whatever their number. Those of a second index have been taken.
  void take_shards(WeightSet& index) {
    const Key first{index.name.family, index.name.base, Role::shard, 0, ""};
    for (auto at = sets_.lower_bound(first); at != sets_.end(); ++at) {
      WeightSet& shards = at->second;
      if (std::tie(shards.name.family, shards.name.base) != std::tie(index.name.family, index.name.base)) break;
      if (shards.name.role != Role::shard || shards.path.empty()) continue;
      index.files.insert(index.files.end(), shards.files.begin(), shards.files.end());
      index.bytes += shards.bytes;
      shards.path.clear();
    }
  }

  std::string prefix_;
  std::map<Key, WeightSet> sets_;
};

// The only match; with Ambiguity::resolved the first one.
const WeightSet* only(const std::vector<WeightSet>& sets, Ambiguity ambiguity, const Matches& matches) {
  const auto first = std::ranges::find_if(sets, matches);
  if (first == sets.end()) return nullptr;
  if (ambiguity == Ambiguity::resolved) return &*first;
  return std::find_if(first + 1, sets.end(), matches) == sets.end() ? &*first : nullptr;
}

// The set of this base: a file before an index, and that before shards without one, which must be complete.
const WeightSet* named(const std::vector<WeightSet>& sets, Family family, std::string_view base) {
  for (const Role role : {Role::whole, Role::index, Role::shard}) {
    const auto found = std::ranges::find_if(sets, [&](const WeightSet& set) {
      return set.name.family == family && set.name.base == base && set.name.role == role && set.is_complete();
    });
    if (found != sets.end()) return &*found;
  }
  return nullptr;
}

bool is_consolidated(const WeightSet& set) { return set.name.base.starts_with("consolidated"); }

bool is_of(const WeightSet& set, Family family) {
  return set.name.family == family && !is_adapter(set) && set.is_complete();
}

// An index before files of other names, which may be its shards; Mistral's own form after the others.
const WeightSet* other_safetensors(const std::vector<WeightSet>& sets, Ambiguity ambiguity) {
  for (const bool consolidated : {false, true}) {
    const Matches matches = [&](const WeightSet& set) {
      return is_of(set, Family::safetensors) && is_consolidated(set) == consolidated;
    };
    const auto* const index =
        only(sets, ambiguity, [&](const WeightSet& set) { return matches(set) && set.name.role == Role::index; });
    if (index != nullptr) return index;
    if (const auto* const set = only(sets, ambiguity, matches)) return set;
    if (std::ranges::any_of(sets, matches)) return nullptr;
  }
  return nullptr;
}

// The only shards that lack others of their number: what is left of a model that was copied or downloaded in part.
const WeightSet* incomplete(const std::vector<WeightSet>& sets, Family family) {
  return only(sets, Ambiguity::refused, [&](const WeightSet& set) {
    return set.name.family == family && set.name.role == Role::shard && set.name.is_usual && !is_adapter(set) &&
           set.name.count <= kMaxShards;
  });
}

const WeightSet* choose_pytorch(const std::vector<WeightSet>& sets, Ambiguity ambiguity) {
  for (const char* base : {"pytorch_model", "diffusion_pytorch_model"})
    if (const auto* const set = named(sets, Family::pytorch, base)) return set;
  const auto* const index = only(sets, ambiguity, [](const WeightSet& set) {
    return is_of(set, Family::pytorch) && set.name.role == Role::index;
  });
  if (index != nullptr) return index;
  return only(sets, ambiguity, [](const WeightSet& set) { return is_of(set, Family::pytorch); });
}

const WeightSet* choose_keras(const std::vector<WeightSet>& sets, Ambiguity ambiguity) {
  if (const auto* const set = named(sets, Family::keras, "model")) return set;
  return only(sets, ambiguity, [](const WeightSet& set) { return is_of(set, Family::tensorflow); });
}

const WeightSet* choose_onnx(const std::vector<WeightSet>& sets, const std::vector<WeightSet>& below_onnx,
                             Ambiguity ambiguity) {
  for (const auto* const where : {&below_onnx, &sets})
    if (const auto* const set = named(*where, Family::onnx, "model")) return set;
  const Matches is_onnx = [](const WeightSet& set) { return is_of(set, Family::onnx); };
  const auto count = std::ranges::count_if(sets, is_onnx) + std::ranges::count_if(below_onnx, is_onnx);
  if (count > 1 && ambiguity == Ambiguity::refused) return nullptr;
  const auto* const set = only(sets, ambiguity, is_onnx);
  return set != nullptr ? set : only(below_onnx, ambiguity, is_onnx);
}

}  // namespace

bool is_adapter(const WeightSet& set) {
  const std::string& base = set.name.base;
  return base.starts_with("adapter_model") || base == "adapters" || base.ends_with("_adapters");
}

std::vector<WeightSet> find_weight_sets(const FileSizes& files, const std::string& prefix, TrainingState training) {
  Grouper grouper(prefix);
  for (const auto& [file, bytes] : files) {
    if (training == TrainingState::excluded && is_training_state(file)) continue;
    if (const auto name = parse_weight_name(file)) grouper.add(file, bytes, *name);
  }
  return std::move(grouper).take();
}

const WeightSet* choose_weights(const std::vector<WeightSet>& sets, const std::vector<WeightSet>& below_onnx,
                                Ambiguity ambiguity) {
  for (const char* base : {"model", "diffusion_pytorch_model"})
    if (const auto* const set = named(sets, Family::safetensors, base)) return set;
  if (const auto* const set = other_safetensors(sets, ambiguity)) return set;
  if (const auto* const set = choose_pytorch(sets, ambiguity)) return set;
  if (const auto* const set = named(sets, Family::tensorflow, "tf_model")) return set;
  if (const auto* const set = named(sets, Family::flax, "flax_model")) return set;
  if (const auto* const set = choose_keras(sets, ambiguity)) return set;
  const auto* const gguf = only(sets, ambiguity, [](const WeightSet& set) {
    return set.name.family == Family::gguf && use_of_gguf(set.name.base) == GgufUse::model;
  });
  if (gguf != nullptr) return gguf;
  if (const auto* const set = choose_onnx(sets, below_onnx, ambiguity)) return set;
  if (const auto* const set = named(sets, Family::openvino, "openvino_model")) return set;
  for (const Family family : {Family::safetensors, Family::pytorch})
    if (const auto* const set = incomplete(sets, family)) return set;
  return nullptr;
}

}  // namespace weightfs::directory
