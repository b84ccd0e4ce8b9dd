#include "formats/safetensors/weight_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/safetensors/unlisted_shards.h"

namespace weightfs::safetensors {
namespace {

// Each is opened.
constexpr size_t kMaxShards = 10'000;

// A short line of the weight map takes many times its bytes.
constexpr size_t kMaxWeights = 1'000'000;

// Values of `metadata`, which has few: total_size, a format.
constexpr uint64_t kMaxMetadataValues = 1'000;

// Builds an index from the events of read_json, or rejects other JSON: keeps the weight map and the metadata, skips the
// rest, and stops at once if the value is not an object.
class IndexReader final : public JsonEvents {
 public:
  explicit IndexReader(Budget& budget) : budget_(budget) {}

  bool scalar(Value value) override {
    return pass([&] { return metadata_.scalar(std::move(value)); });
  }
  bool unsigned_integer(uint64_t n) override {
    return pass([&] { return metadata_.unsigned_integer(n); });
  }
  bool string(std::string& text) override {
    if (in_ == In::weight_map && depth_ == 2) return add(text);
    return pass([&] { return metadata_.string(text); });
  }
  bool key(std::string& text) override {
    if (depth_ == 1) return enter(text);
    if (in_ != In::weight_map) return pass([&] { return metadata_.key(text); });
    tensor_ = text;
    return true;
  }
  bool begin_object() override {
    if (++depth_ == 1) return true;
    if (in_ == In::weight_map && depth_ == 2) return has_weight_map_ = true;
    return pass([&] { return metadata_.begin_object(); });
  }
  bool end_object() override {
    if (--depth_ == 0 || in_ == In::weight_map) return true;
    return pass([&] { return metadata_.end_object(); });
  }
  bool begin_array() override {
    return pass([&] { return metadata_.begin_array(); }) && ++depth_ > 0;
  }
  bool end_array() override {
    --depth_;
    return pass([&] { return metadata_.end_array(); });
  }

  // The result; `whole` is the result of read_json.
  Result<Index> take(const Result<void>& whole);

 private:
  enum class In { weight_map, metadata, other };

  // An event of any value but the object that the weight map is and the strings in it.
  template <class Event>
  bool pass(Event event) {
    if (depth_ == 0) return refuse(Code::unsupported, kNoIndex);
    if (in_ == In::weight_map && depth_ > 1)
      return refuse(Code::corrupt, fmt::format("weight_map: tensor {}: no string", quoted(tensor_)));
    if (in_ == In::metadata && event()) return true;
    if (in_ == In::metadata) {
      index_.warnings.add("the index has metadata of more than {} values: omitted", kMaxMetadataValues);
      has_metadata_ = false;
    }
    in_ = In::other;
    return true;
  }

  bool enter(std::string_view key);
  bool add(const std::string& shard);
  bool refuse(Code code, std::string reason) {
    problem_ = Error{code, std::move(reason)};
    return false;
  }
  bool charge(Cost cost, uint64_t count) {
    const auto room = budget_.charge(cost, count);
    return room || refuse(room.error().code, "weight_map: " + room.error().message);
  }

  Budget& budget_;

  static constexpr const char* kNoIndex = "JSON without an object \"weight_map\"";

  Index index_;
  std::optional<Error> problem_;
  int depth_ = 0;
  In in_ = In::other;  // the key of the whole that is being read
  bool has_weight_map_ = false;
  std::string tensor_;  // in the weight map: the key; its shard is the next value
  bool has_metadata_ = false;
  ValueBuilder metadata_{kMaxMetadataValues};
};

// The second of two equal keys is used.
bool IndexReader::enter(std::string_view key) {
  in_ = In::other;
  if (key == "weight_map") {
    in_ = In::weight_map;
    has_weight_map_ = false;
    index_.weights.clear();
    index_.shards.clear();
  } else if (key == "metadata") {
    in_ = In::metadata;
    metadata_ = ValueBuilder(kMaxMetadataValues);
    has_metadata_ = true;
  }
  return true;
}

bool IndexReader::add(const std::string& name) {
  if (index_.weights.size() == kMaxWeights)
    return refuse(Code::unsupported, fmt::format("weight_map: more than {} tensors", kMaxWeights));
  if (!charge(Cost::value, 1) || !charge(Cost::kept, tensor_.size() + name.size())) return false;
  const auto shard = index_.shards.try_emplace(name).first;
  if (index_.shards.size() > kMaxShards)
    return refuse(Code::unsupported, fmt::format("weight_map: more than {} shards", kMaxShards));
  shard->second.name = shard->first;
  index_.weights.push_back({std::move(tensor_), &shard->second});
  return true;
}

Result<Index> IndexReader::take(const Result<void>& whole) {
  if (problem_) return tl::unexpected(*problem_);
  TRY_VOID(whole);
  if (!has_weight_map_) return failure(Code::unsupported, kNoIndex);
  if (has_metadata_) index_.metadata = metadata_.take();
  // The second of two lines for a tensor is used, as with equal keys everywhere.
  auto& weights = index_.weights;
  std::stable_sort(weights.begin(), weights.end(),
                   [](const Weight& a, const Weight& b) { return a.tensor < b.tensor; });
  const auto first = std::unique(weights.rbegin(), weights.rend(),
                                 [](const Weight& a, const Weight& b) { return a.tensor == b.tensor; });
  weights.erase(weights.begin(), first.base());
  for (const Weight& weight : weights) ++weight.shard->weights;
  std::erase_if(index_.shards, [](const auto& shard) { return shard.second.weights == 0; });
  return std::move(index_);
}

}  // namespace

Weight* Index::find(std::string_view tensor) {
  const auto found = std::lower_bound(weights.begin(), weights.end(), tensor,
                                      [](const Weight& weight, std::string_view name) { return weight.tensor < name; });
  return found == weights.end() || found->tensor != tensor ? nullptr : &*found;
}

bool Index::choose_shards(const std::vector<std::string>& tensors) {
  std::set<const Shard*> needed;
  for (const std::string& tensor : tensors) {
    const Weight* const weight = find(tensor);
    if (weight == nullptr) return false;
    for (size_t slash = tensor.find('/'); slash != tensor.npos; slash = tensor.find('/', slash + 1))
      if (find(std::string_view(tensor).substr(0, slash)) != nullptr) return false;
    needed.insert(weight->shard);
  }
  for (auto& [name, shard] : shards) shard.is_needed = needed.contains(&shard);
  return true;
}

std::vector<std::string> Index::replace_shards(const std::vector<std::string>& names) {
  std::vector<std::string> listed;
  listed.reserve(weights.size());
  for (Weight& weight : weights) listed.push_back(std::move(weight.tensor));
  const std::string more = shards.size() == 1 ? "" : fmt::format(" and {} more", shards.size() - 1);
  const std::string read = names.size() == 1 ? quoted(names.front()) : fmt::format("{} other shards", names.size());
  warnings.add("{}it names other files, {}{}, and none of them exists; reading {} instead", kStaleIndex,
               quoted(shards.begin()->first), more, read);
  weights.clear();
  shards.clear();
  metadata.reset();
  is_stale = true;
  for (const std::string& name : names) {
    Shard& shard = shards[name];
    shard.name = shards.find(name)->first;
  }
  return listed;
}

Result<Index> read_index(const Source& bytes, Budget& budget) {
  if (bytes.size() > kMaxIndexSize)
    return failure(Code::unsupported, fmt::format("an index of {} bytes, {} at most", bytes.size(), kMaxIndexSize));
  TRY_VOID(budget.charge(Cost::input, bytes.size()));
  IndexReader reader(budget);
  return reader.take(read_json(bytes, 0, bytes.size(), reader));
}

}  // namespace weightfs::safetensors
