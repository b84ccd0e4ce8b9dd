// A model in several safetensors files, its shards: `model.safetensors.index.json` says which holds which tensor. As
// huggingface_hub writes it (serialization/_base.py, split_state_dict_into_shards_factory) and people edit it.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "formats/format.h"
#include "formats/warnings.h"

namespace weightfs {
namespace {

// A hundred thousand tensors take about 10 MB of it.
constexpr uint64_t kLongestIndex = 100'000'000;

// Each stays an open file.
constexpr size_t kMostShards = 10'000;

struct Shard {
  std::string_view name;
  size_t weights = 0;  // how many tensors the weight map puts into it
  bool was_read = false;
};

// A line of the weight map.
struct Weight {
  static constexpr size_t kNowhere = SIZE_MAX;

  std::string_view tensor;
  size_t shard;                 // its place in Index::shards
  bool found = false;           // there
  size_t elsewhere = kNowhere;  // the first tensor of that name in another shard: its place in the model
};

// The index file. All names are views into `root`.
struct Index {
  Value root;
  std::vector<Shard> shards;    // by name
  std::vector<Weight> weights;  // by tensor
};

// Whether a name can only be that of a file beside the index.
bool is_plain(std::string_view name) {
  constexpr std::string_view kNeverIn("/\\\0", 3);
  return !name.empty() && name != "." && name != ".." && name.find_first_of(kNeverIn) == std::string_view::npos;
}

Result<std::vector<Shard>> shards_of(const Map& weight_map) {
  std::vector<std::string_view> names;
  names.reserve(weight_map.size());
  for (const auto& [tensor, shard] : weight_map) {
    const auto* name = std::get_if<std::string>(&shard);
    if (name == nullptr) return failure(Code::corrupt, str("weight_map: tensor ", quoted(tensor), ": no string"));
    names.push_back(*name);
  }
  std::sort(names.begin(), names.end());
  std::vector<Shard> shards;
  for (const std::string_view name : names) {
    if (shards.empty() || shards.back().name != name) shards.push_back({name});
    ++shards.back().weights;
  }
  if (shards.size() <= kMostShards) return shards;
  return failure(Code::unsupported, str(shards.size(), " shards, ", kMostShards, " at most"));
}

Result<Index> read_index(const Source& bytes) {
  if (bytes.size() > kLongestIndex)
    return failure(Code::unsupported, str("an index of ", bytes.size(), " bytes, ", kLongestIndex, " at most"));
  Index index;
  index.root = TRY(parse_json(bytes, 0, bytes.size()));
  const auto* top = std::get_if<Map>(&index.root);
  const Value* found = top == nullptr ? nullptr : top->find("weight_map");
  const auto* weight_map = found == nullptr ? nullptr : std::get_if<Map>(found);
  if (weight_map == nullptr) return failure(Code::unsupported, "JSON without an object \"weight_map\"");
  index.shards = TRY(shards_of(*weight_map));
  index.weights.reserve(weight_map->size());
  for (const auto& [tensor, shard] : *weight_map) {
    const auto at = std::lower_bound(index.shards.begin(), index.shards.end(), std::get<std::string>(shard),
                                     [](const Shard& s, const std::string& name) { return s.name < name; });
    index.weights.push_back({tensor, static_cast<size_t>(at - index.shards.begin())});
  }
  std::sort(index.weights.begin(), index.weights.end(),
            [](const Weight& a, const Weight& b) { return a.tensor < b.tensor; });
  return index;
}

// Puts the shards' models together, in order, and says where the weight map is wrong.
class Merger {
 public:
  explicit Merger(Index& index) : index_(index) { model_.tensors.reserve(index.weights.size()); }

  void add(Shard& shard, Model read) {
    const std::string_view name = model_.spellings.emplace_back(shard.name);
    std::map<std::string_view, std::string_view> spelled;
    for (const std::string& spelling : read.spellings) spelled[spelling] = model_.spellings.emplace_back(spelling);
    for (const std::string& warning : read.warnings) warnings_.add("shard ", quoted(name), ": ", warning);
    for (Tensor& tensor : read.tensors) {
      if (tensor.dtype == &kUnknownDType) tensor.stored_dtype = spelled[tensor.stored_dtype];
      if (!is_at_home(tensor, shard)) tensor.scope = name;
      model_.tensors.push_back(std::move(tensor));
    }
    if (shards_.empty()) take_metadata(read);
    shards_.append(std::string(name), std::move(read.metadata));
    model_.parts.push_back(std::move(read.parts.front()));
    shard.was_read = true;
  }

  void miss(const Shard& shard, const Error& error) {
    warnings_.add("shard ", quoted(shard.name), ": ", error.message, "; ", shard.weights, " tensors are missing");
  }

  Model finish(const Container& container) {
    for (const Weight& weight : index_.weights) compare(weight);
    model_.format = "safetensors";
    Map facts;
    if (const Value* metadata = std::get<Map>(index_.root).find("metadata")) facts.append("metadata", *metadata);
    facts.append("shards", std::move(shards_));
    if (model_.metadata.find("index") == nullptr)
      model_.metadata.append("index", std::move(facts));
    else
      warnings_.add("the metadata has a key \"index\": what the index says is left out");
    model_.parts.insert(model_.parts.begin(), Part{container.name, Later<SourcePtr>::of(container.bytes)});
    model_.warnings = std::move(warnings_).take();
    return std::move(model_);
  }

 private:
  // Whether a tensor is where the weight map has it, or nowhere else.
  bool is_at_home(const Tensor& tensor, const Shard& shard) {
    const auto weight = std::lower_bound(index_.weights.begin(), index_.weights.end(), tensor.name,
                                         [](const Weight& w, const std::string& name) { return w.tensor < name; });
    if (weight == index_.weights.end() || weight->tensor != tensor.name) {
      warnings_.add("tensor ", quoted(tensor.name), " in ", quoted(shard.name), " is not in the weight_map");
      return unlisted_.insert(tensor.name).second;
    }
    if (&index_.shards[weight->shard] == &shard) return weight->found = true;
    if (weight->elsewhere == Weight::kNowhere) weight->elsewhere = model_.tensors.size();
    return false;
  }

  void compare(const Weight& weight) {
    const Shard& home = index_.shards[weight.shard];
    if (weight.elsewhere == Weight::kNowhere) {
      if (home.was_read && !weight.found)
        warnings_.add("tensor ", quoted(weight.tensor), " is not in ", quoted(home.name));
      return;
    }
    Tensor& tensor = model_.tensors[weight.elsewhere];
    warnings_.add("tensor ", quoted(weight.tensor), " is in ", quoted(tensor.scope),
                  weight.found ? " too, not only" : ", not", " in ", quoted(home.name), " as the weight_map says");
    if (!weight.found) tensor.scope = {};
  }

  // Shards repeat each other's metadata. At the top of the model's stands what a single file would have there.
  void take_metadata(const Model& first) {
    model_.common = first.common;
    for (const auto& [key, value] : first.metadata)
      if (key != first.format) model_.metadata.append(key, value);
  }

  Index& index_;
  Model model_;
  Map shards_;  // the metadata of each
  Warnings warnings_;
  std::set<std::string> unlisted_;  // tensors that are in no line of the weight map
};

Result<Model> read_shard(std::string_view name, const std::shared_ptr<const Folder>& folder) {
  if (!is_plain(name)) return failure(Code::corrupt, "not the name of a file beside the index");
  const SourcePtr bytes = TRY(folder->open(name));
  return read_safetensors({std::string(name), bytes, folder});
}

Result<Model> read(const Container& container) {
  Index index = TRY(read_index(*container.bytes));
  if (container.folder == nullptr) return failure(Code::unsupported, "nothing beside it, its shards are needed");
  Merger merger(index);
  std::optional<Error> first_error;
  bool any = index.shards.empty();
  for (Shard& shard : index.shards) {
    auto model = read_shard(shard.name, container.folder);
    if (model) {
      merger.add(shard, std::move(*model));
      any = true;
    } else {
      merger.miss(shard, model.error());
      if (!first_error) first_error = model.error();
    }
  }
  if (any) return merger.finish(container);
  return failure(first_error->code, str("none of ", index.shards.size(), " shards can be read, the first: ",
                                        quoted(index.shards.front().name), ": ", first_error->message));
}

}  // namespace

// Any JSON object may be an index; one that is short is looked through at once.
Match matches_safetensors_index(std::string_view head, uint64_t size) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || head[first] != '{' || size > kLongestIndex) return Match::no;
  const bool whole = head.size() == size;
  return whole && head.find("\"weight_map\"") == std::string_view::npos ? Match::no : Match::maybe;
}

Result<Model> read_safetensors_index(const Container& container) {
  return read(container).map_error([](const Error& e) { return Error{e.code, "safetensors index: " + e.message}; });
}

}  // namespace weightfs
