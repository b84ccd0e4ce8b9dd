#include "formats/mapping/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/text.h"

namespace weightfs::mapping {
namespace {

constexpr uint64_t kMostExperts = 65'536;

// Parts of names of towers for pictures and sound, which are files of their own for llama.cpp (conversion/base.py,
// TextModel.filter_tensors).
constexpr auto kOtherBeginnings =
    std::to_array<std::string_view>({"mlp", "vit.", "vpm.", "siglip2.", "conformer.", "merger.", "resampler.",
                                     "sound_encoder.", "sound_projection.", "speech_embeddings."});
constexpr auto kOtherParts = std::to_array<std::string_view>(
    {"visual.", "vision.", "audio.", "talker.", "vision_", "audio_", "token2wav.", "code2wav.", "projector.",
     "pre_mm_projector_norm", "image_newline", "view_seperator", "patch_embed", "patch_merger.", "patch_merge_mlp.",
     "model.connector."});
// Buffers that programs compute themselves.
constexpr auto kBuffers =
    std::to_array<std::string_view>({".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq"});
constexpr auto kHeadsOfBert = std::to_array<std::string_view>({"cls.predictions", "cls.seq_relationship"});

template <size_t count>
bool begins(std::string_view name, const std::array<std::string_view, count>& with) {
  return std::ranges::any_of(with, [&](std::string_view text) { return name.starts_with(text); });
}

// The names of a repository as the table has them.
class HubNames {
 public:
  explicit HubNames(Repository& repository)
      : arch_(repository.architecture().id),
        lacks_prefix_(repository.class_name() == "LlamaModel" || repository.class_name() == "Qwen2Model" ||
                      repository.class_name() == "Qwen3Model"),
        layers_(repository.config().number({"n_layers", "num_hidden_layers", "n_layer", "num_layers"}).value_or(0)),
        is_tied_(repository.config().flag("tie_word_embeddings").value_or(false)) {}

  // Nothing for a tensor that no GGUF of the text model has.
  std::optional<std::string> of(std::string_view stored) const {
    if (begins(stored, kOtherBeginnings)) return std::nullopt;
    for (const std::string_view part : kOtherParts)
      if (stored.find(part) != stored.npos) return std::nullopt;
    for (const std::string_view end : kBuffers)
      if (stored.ends_with(end)) return std::nullopt;
    std::string name(stored);
    erase_all(name, "language_model.");
    if (arch_ == Arch::llama) erase_all(name, "text_model.");
    if (arch_ == Arch::bert) return of_bert(std::move(name));
    if (lacks_prefix_ && !name.starts_with("model.")) name.insert(0, "model.");
    if (arch_ == Arch::qwen35 || arch_ == Arch::qwen35moe) return of_several_tokens(std::move(name));
    if (arch_ == Arch::deepseek2 && (is_tied_output(name) || is_behind_layers(name))) return std::nullopt;
    return name;
  }

 private:
  static void erase_all(std::string& name, std::string_view text) {
    std::string rest;
    size_t from = 0;
    for (size_t at = name.find(text); at != name.npos; at = name.find(text, from)) {
      rest.append(name, from, at - from);
      from = at + text.size();
    }
    if (from > 0) name = rest.append(name, from);
  }

  static std::optional<std::string> of_bert(std::string name) {
    if (name.starts_with("bert.")) name.erase(0, 5);
    if (begins(name, kHeadsOfBert)) return std::nullopt;
    if (name.ends_with(".gamma")) name.replace(name.size() - 6, 6, ".weight");
    if (name.ends_with(".beta")) name.replace(name.size() - 5, 5, ".bias");
    return name;
  }

  // The tensors of the blocks that predict further tokens.
  std::optional<std::string> of_several_tokens(std::string name) const {
    if (name.starts_with("model.mtp.")) name.erase(0, 6);
    if (const auto numbers = fit("mtp.layers.{}", name.substr(0, name.find('.', 11))))
      return fmt::format("model.layers.{}{}", layers_ + numbers->block, name.substr(name.find('.', 11)));
    static constexpr std::array<std::array<std::string_view, 2>, 4> kNames = {
        {{"mtp.fc.weight", "eh_proj.weight"},
         {"mtp.pre_fc_norm_embedding.weight", "enorm.weight"},
         {"mtp.pre_fc_norm_hidden.weight", "hnorm.weight"},
         {"mtp.norm.weight", "shared_head.norm.weight"}}};
    for (const auto& [from, to] : kNames)
      if (name == from) return fmt::format("model.layers.{}.{}", layers_, to);
    return name;
  }

  bool is_tied_output(std::string_view name) const { return is_tied_ && name == "lm_head.weight"; }

  bool is_behind_layers(std::string_view name) const {
    constexpr std::string_view kLayers = "model.layers.";
    if (!name.starts_with(kLayers)) return false;
    const std::string_view number = name.substr(kLayers.size());
    const auto layer = parse_number<uint64_t>(number.substr(0, number.find('.')));
    return layer && *layer >= layers_;
  }

  Arch arch_;
  bool lacks_prefix_;
  uint64_t layers_;
  bool is_tied_;
};

// The tensors in the order in which the converter reads them: the files of the repository by name, as in the model; in
// each the tensors by name. Computed weights are where the tensor of their name is stored.
std::vector<uint32_t> reading_order(const Model& model, const Model& stored) {
  std::map<const Source*, size_t> files;
  std::map<std::string_view, size_t> file_of;
  for (size_t i = 0; i < stored.tensors.size(); ++i) {
    const TensorView tensor = stored.tensors[i];
    file_of[tensor.name] = files.emplace(tensor.source.whole().get(), files.size()).first->second;
  }
  std::vector<std::pair<size_t, std::string_view>> keys;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const auto file = file_of.find(model.tensors.name(i));
    keys.emplace_back(file == file_of.end() ? files.size() : file->second, model.tensors.name(i));
  }
  std::vector<uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](uint32_t i) { return keys[i]; });
  return order;
}

class Planner {
 public:
  Planner(Repository& repository, Unplaced unplaced)
      : repository_(repository),
        unplaced_(unplaced),
        model_(repository.model()),
        names_(repository),
        experts_(repository.config().number({"num_local_experts", "num_experts", "n_routed_experts"}).value_or(0)) {}

  Result<Plan> run() {
    std::optional<Charges> charges;  // of what is needed until the plan is made
    if (model_.budget != nullptr) {
      charges.emplace(*model_.budget);
      TRY_VOID(charges->charge(Cost::step, model_.tensors.size() * kSteps));
      TRY_VOID(charges->charge(Cost::kept, model_.tensors.size() * kNames));
    }
    const std::vector<uint32_t> order = reading_order(model_, repository_.stored());
    for (const uint32_t i : order) TRY_VOID(name(i));
    for (const uint32_t i : order) {
      if (hub_names_[i].empty())
        ++plan_.dropped;
      else if (auto added = add(i); !added)
        TRY_VOID(keep(i, added.error()));
    }
    TRY_VOID(finish_experts());
    if (unplaced_ == Unplaced::refused) TRY_VOID(check_layers());
    plan_.tensors = std::move(first_);
    std::ranges::move(others_, std::back_inserter(plan_.tensors));
    return std::move(plan_);
  }

 private:
  static constexpr uint64_t kSteps = 3;    // the microseconds of finding a name in the table
  static constexpr uint64_t kNames = 384;  // bytes of a tensor in the maps of names

  // The experts of a block: for each tensor of the GGUF, by number, the tensors of the repository.
  using Experts = std::map<const NameRow*, std::map<uint64_t, uint32_t>>;

  Result<void> keep(uint32_t i, const Error& reason) {
    if (unplaced_ == Unplaced::refused || reason.code != Code::unsupported) return failure(reason);
    others_.push_back({std::string(model_.tensors.name(i)), Op::none, {i}});
    ++plan_.unplaced;
    return {};
  }

  Result<void> name(uint32_t i) {
    const TensorView tensor = model_.tensors[i];
    if (!tensor.scope.empty())
      return failure(Code::unsupported, fmt::format("tensor {} is in {}, where the index does not have it",
                                                    quoted(tensor.name), quoted(tensor.scope)));
    auto name = names_.of(tensor.name);
    if (name && !by_name_.emplace(*name, i).second)
      return failure(Code::unsupported, fmt::format("two tensors are {}", quoted(*name)));
    if (hub_names_.empty()) hub_names_.resize(model_.tensors.size());
    hub_names_[i] = std::move(name).value_or("");
    return {};
  }

  Result<void> add(uint32_t i) {
    bool has_place = false;
    for (const NameRow& row : name_rows()) {
      if ((row.architectures & bit(repository_.architecture().id)) == 0) continue;
      const auto numbers = fit(row.hub, hub_names_[i]);
      if (!numbers) continue;
      if (row.op == Op::drop) return {};
      has_place = true;
      if (row.gguf.starts_with("blk.")) layers_.insert(numbers->block);
      TRY_VOID(add(i, row, *numbers));
    }
    if (has_place) return {};
    return failure(Code::unsupported, fmt::format("tensor {} has no place in {}", quoted(model_.tensors.name(i)),
                                                  repository_.architecture().name));
  }

  Result<void> add(uint32_t i, const NameRow& row, const Numbers& numbers) {
    if (row.op == Op::expert) return add_expert(i, row, numbers);
    const bool is_mxfp4 = row.op == Op::mxfp4 || row.op == Op::mxfp4_even || row.op == Op::mxfp4_odd;
    if (!is_mxfp4) return add(others_, {fill(row.gguf, numbers), row.op, {i}});
    constexpr std::string_view kBlocks = "blocks";
    const std::string& blocks = hub_names_[i];
    const std::string name = blocks.substr(0, blocks.size() - kBlocks.size()) + "scales";
    const auto scales = by_name_.find(name);
    if (scales == by_name_.end()) return failure(Code::unsupported, fmt::format("{} is missing", quoted(name)));
    return add(first_, {fill(row.gguf, numbers), row.op, {i, scales->second}});
  }

  Result<void> add(std::vector<Planned>& to, Planned planned) {
    if (!used_.insert(planned.name).second)
      return failure(Code::unsupported, fmt::format("two tensors are {}", quoted(planned.name)));
    to.push_back(std::move(planned));
    return {};
  }

  // llama.cpp needs the tensors of every layer.
  Result<void> check_layers() {
    const uint64_t layers =
        repository_.config().number({"n_layers", "num_hidden_layers", "n_layer", "num_layers"}).value_or(0);
    for (uint64_t layer = 0; layer < layers; ++layer)
      if (!layers_.contains(layer))
        return failure(Code::unsupported, fmt::format("layer {} of {} has no tensors", layer, layers));
    return {};
  }

  // A block is complete with its last expert; then its tensors follow in the order of the table.
  Result<void> add_expert(uint32_t i, const NameRow& row, const Numbers& numbers) {
    if (experts_ == 0 || experts_ > kMostExperts)
      return failure(Code::unsupported, "config.json states no number of experts");
    if (numbers.expert >= experts_)
      return failure(Code::unsupported,
                     fmt::format("tensor {}, of {} experts", quoted(model_.tensors.name(i)), experts_));
    Experts& block = blocks_[numbers.block];
    block[&row].emplace(numbers.expert, i);
    uint64_t count = 0;
    for (const auto& [of, experts] : block) count += experts.size();
    constexpr uint64_t kTensors = 3;
    if (count < kTensors * experts_) return {};
    for (const auto& [of, experts] : block) {
      Planned planned{fill(of->gguf, numbers), Op::expert, {}};
      for (const auto& [number, tensor] : experts) planned.tensors.push_back(tensor);
      TRY_VOID(add(others_, std::move(planned)));
    }
    blocks_.erase(numbers.block);
    return {};
  }

  // Blocks that lack experts.
  Result<void> finish_experts() {
    for (const auto& [block, tensors] : blocks_)
      for (const Error reason = missing_experts(block, tensors); const auto& [row, experts] : tensors)
        for (const auto& [number, tensor] : experts) TRY_VOID(keep(tensor, reason));
    return {};
  }

  Error missing_experts(uint64_t block, const Experts& tensors) const {
    constexpr size_t kMostNamed = 8;
    std::set<uint64_t> missing;
    for (uint64_t number = 0; number < experts_ && missing.size() < kMostNamed; ++number)
      for (const auto& [row, experts] : tensors)
        if (!experts.contains(number)) missing.insert(number);
    std::string list;
    for (const uint64_t number : missing) list += fmt::format("{}{}", list.empty() ? "" : ", ", number);
    return {Code::unsupported, fmt::format("experts {} of layer {} are missing", list, block)};
  }

  Repository& repository_;
  Unplaced unplaced_;
  Plan plan_;
  const Model& model_;
  HubNames names_;
  uint64_t experts_;
  std::vector<std::string> hub_names_;       // by index; empty for what no GGUF has
  std::map<std::string, uint32_t> by_name_;  // the same
  std::map<uint64_t, Experts> blocks_;       // incomplete ones
  std::set<uint64_t> layers_;                // that have tensors
  std::set<std::string> used_;               // names of the GGUF
  std::vector<Planned> first_, others_;
};

}  // namespace

Result<Plan> plan(Repository& repository, Unplaced unplaced) { return Planner(repository, unplaced).run(); }

}  // namespace weightfs::mapping
