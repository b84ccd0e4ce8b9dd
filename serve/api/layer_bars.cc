#include "serve/api/layer_bars.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "formats/summary/adapter_name.h"
#include "report/compare/select_tensors.h"
#include "report/text/map_of.h"

namespace weightfs::api {
namespace {

constexpr size_t kMaxBars = 512;
constexpr const char* kOthers = "other tensors";

constexpr std::array<const char*, 6> kKinds = {"attention", "feed-forward", "experts", "embedding", "norm", "other"};
constexpr size_t kAttention = 0, kFeedForward = 1, kExperts = 2, kEmbedding = 3, kNorm = 4, kOther = 5;

// The kind of a part, as an index of kKinds.
size_t kind_of(mapping::TensorPart part) {
  using mapping::TensorPart;
  switch (part) {
    case TensorPart::embedding:
    case TensorPart::lookup:
    case TensorPart::head:
      return kEmbedding;
    case TensorPart::norm:
    case TensorPart::query_norm:
      return kNorm;
    case TensorPart::attention:
    case TensorPart::keys:
    case TensorPart::latent:
      return kAttention;
    case TensorPart::feed_forward:
    case TensorPart::feed_forward_in:
    case TensorPart::router:
      return kFeedForward;
    case TensorPart::expert:
    case TensorPart::shared_expert:
      return kExperts;
    case TensorPart::other:
      break;
  }
  return kOther;
}

// The kinds of names.
class Kinds {
 public:
  explicit Kinds(const summary::NameParser& names) : names_(names) {}

  // Words are looked for once where what follows the layer is the same.
  size_t of(std::string_view name, std::string_view layer) {
    if (const auto part = names_.part_in_table(name)) return kind_of(*part);
    const std::string_view rest = name.starts_with(layer) ? name.substr(layer.size()) : name;
    if (const auto known = known_.find(rest); known != known_.end()) return known->second;
    const size_t kind = kind_of(summary::part_by_words(name));
    constexpr size_t kMaxKnown = 10'000;
    if (known_.size() < kMaxKnown) known_.emplace(rest, kind);
    return kind;
  }

 private:
  const summary::NameParser& names_;
  std::map<std::string, size_t, std::less<>> known_;
};

// The name of the bar of a tensor beside the layers, by what it is.
const char* name_beside_layers(bool is_head, size_t kind) {
  if (is_head) return "head";
  return kind == kEmbedding ? "embeddings" : kind == kNorm ? "norms" : kOthers;
}

std::string without_last_component(const std::string& name) {
  const size_t end = name.find_last_of("./");
  return end == name.npos || end == 0 ? name : name.substr(0, end);
}

// "conv1" of "conv1.weight": the module that a tensor belongs to. The matrices of a LoRA belong to the module that they
// adapt: "attn" of "attn.lora_down.weight".
std::string module_of(const std::string& name) {
  const summary::AdapterName adapter = summary::adapter_name(name);
  return adapter.end.empty() || adapter.module.empty() ? without_last_component(name) : std::string(adapter.module);
}

size_t common_length(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Bars in the order of their first tensors.
class Bars {
 public:
  void add(const std::string& name, const std::string& tensor, size_t index, size_t kind, uint64_t bytes) {
    const bool is_cut = bars_.size() >= kMaxBars && !places_.contains(name);
    const auto [place, is_new] = places_.try_emplace(is_cut ? kOthers : name, bars_.size());
    if (is_new) bars_.push_back({place->first, tensor, index, 0, {}});
    Bar& bar = bars_[place->second];
    if (bar.tensors++ > 0) bar.under.resize(common_length(bar.under, tensor));
    bar.bytes[kind] += bytes;
  }

  List rows() const {
    List out;
    for (const Bar& bar : bars_) {
      List kinds;
      uint64_t bytes = 0;
      for (const uint64_t count : bar.bytes) kinds.emplace_back(count), bytes += count;
      out.emplace_back(map_of({{"name", bar.name},
                               {"under", under_of(bar)},
                               {"tensor", bar.tensors == 1 ? Value(bar.first) : Value(nullptr)},
                               {"bytes", bytes},
                               {"kinds", std::move(kinds)}}));
    }
    return out;
  }

 private:
  struct Bar {
    std::string name;
    std::string under;  // how the names of its tensors begin
    size_t first;       // the index of a tensor
    uint64_t tensors;
    std::array<uint64_t, kKinds.size()> bytes;
  };

  // A prefix that only the tensors of a bar have; empty if there is none.
  std::string under_of(const Bar& bar) const {
    if (bar.tensors == 1) return bar.under;
    const std::string under = bar.under.substr(0, bar.under.find_last_of("./") + 1);
    const auto is_other = [&](const Bar& other) { return other.name != bar.name && other.under.starts_with(under); };
    return under.empty() || std::ranges::any_of(bars_, is_other) ? "" : under;
  }

  std::map<std::string, size_t> places_;
  std::vector<Bar> bars_;
};

bool has_layers(const OpenModel& of) {
  for (size_t i = 0; i < of.model().tensors.size() && !is_cancelled(); ++i)
    if (!layer_of(of.name(i)).empty()) return true;
  return false;
}

}  // namespace

std::string_view kind_of_bar(std::string_view name, const summary::NameParser& names) {
  return kKinds.at(Kinds(names).of(name, ""));
}

Map layer_bars(const OpenModel& of, const summary::NameParser& names) {
  const TensorList& tensors = of.model().tensors;
  const bool are_layers = has_layers(of);
  Bars bars;
  Kinds kinds(names);
  for (size_t i = 0; i < tensors.size() && !is_cancelled(); ++i) {
    const std::string name = of.name(i);
    std::string bar = are_layers ? layer_of(name) : module_of(name);
    const size_t kind = kinds.of(name, are_layers ? bar : "");
    if (bar.empty()) bar = name_beside_layers(names.is_head(name), kind);
    bars.add(bar, name, i, kind, listed_bytes(tensors, i));
  }
  List all;
  for (const char* kind : kKinds) all.emplace_back(kind);
  return map_of({{"of", are_layers ? "layers" : "modules"}, {"layers", bars.rows()}, {"kinds", std::move(all)}});
}

}  // namespace weightfs::api
