// Weights in several files: NAME.weights.json maps the groups of variables to HDF5 files beside it, which Keras writes
// with max_shard_size.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/common/flat.h"
#include "formats/common/missing_shards.h"
#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/keras/keras.h"

namespace weightfs::keras {
namespace {

constexpr uint64_t kMaxIndexSize = 64 << 20;
constexpr size_t kMaxShards = 10'000;
constexpr std::string_view kSuffix = ".weights.json";

// The names of the files in a weight map, each once, in its order. A value is a name or a list of names.
std::vector<std::string> files_of(const Map& weight_map) {
  std::vector<std::string> files;
  std::set<std::string> known;
  const auto add = [&](const Value& value) {
    const auto* const name = std::get_if<std::string>(&value);
    if (name != nullptr && known.insert(*name).second) files.push_back(*name);
  };
  for (const auto& [group, value] : weight_map) {
    add(value);
    if (const auto* const list = std::get_if<List>(&value)) std::ranges::for_each(*list, add);
  }
  return files;
}

// Reads a shard into the model. What is wrong with its bytes becomes a warning.
Result<void> add_shard(Model& model, const Container& container, const std::string& name, Map& weights,
                       Warnings& warnings, MissingShards& missing) {
  const auto bytes = open_beside(container, name);
  if (!bytes && is_fatal(container, bytes.error())) return tl::unexpected(bytes.error());
  if (!bytes && bytes.error().code == Code::not_found) {
    missing.add(name, "; its tensors are missing");
    return {};
  }
  if (!bytes) {
    warnings.miss_file(bytes.error().code, "{}: {}; its tensors are missing", quoted(name), bytes.error().message);
    return {};
  }
  TRY_VOID(container.budget->charge(Cost::member));
  model.parts.push_back({name, Later<SourcePtr>::of(*bytes)});
  auto shard = read_as("hdf5", Container{.name = name,
                                         .bytes = *bytes,
                                         .folder = nullptr,
                                         .blobs = container.blobs,
                                         .depth = container.depth,
                                         .budget = container.budget});
  if (!shard && is_fatal(container, shard.error())) return tl::unexpected(shard.error());
  if (!shard) {
    warnings.miss_file(shard.error().code, "{}: {}; its tensors are missing", quoted(name), shard.error().message);
    return {};
  }
  Map metadata;
  add_weights(model, std::move(*shard), name, metadata, warnings);
  weights.append(name, std::move(metadata));
  return {};
}

Result<Model> read_sharded(const Container& container) {
  if (container.bytes->size() > kMaxIndexSize)
    return failure(Code::unsupported,
                   fmt::format("{} bytes, at most {} are read", container.bytes->size(), kMaxIndexSize));
  Value json = TRY(parse_json(*container.bytes, 0, container.bytes->size(), *container.budget));
  Map* const root = std::get_if<Map>(&json);
  const Value* const found = root == nullptr ? nullptr : root->find("weight_map");
  const Map* const weight_map = found == nullptr ? nullptr : std::get_if<Map>(found);
  if (weight_map == nullptr) return failure(Code::unsupported, "no weight_map");
  if (container.folder == nullptr) return failure(Code::unsupported, "no other files in its directory");
  const auto files = files_of(*weight_map);
  if (files.size() > kMaxShards)
    return failure(Code::unsupported, fmt::format("{} shards, at most {} are read", files.size(), kMaxShards));
  const auto is_shard = [](const std::string& name) { return name.ends_with(".h5"); };
  if (files.empty() || !std::ranges::all_of(files, is_shard))
    return failure(Code::unsupported, "no HDF5 files in the weight_map");
  Model model;
  model.format = "keras-sharded";
  Map weights;
  Warnings warnings;
  MissingShards missing;
  model.parts.push_back(
      {.path = container.name, .source = Later<SourcePtr>::of(container.bytes), .is_structure = true});
  for (const std::string& name : files) TRY_VOID(add_shard(model, container, name, weights, warnings, missing));
  missing.report(files.size(), warnings);
  if (const Value* const metadata = root->find("metadata")) model.metadata.append("metadata", *metadata);
  Map facts;
  facts.append("shards", files.size());
  facts.append("weights", std::move(weights));
  model.metadata.append("keras", std::move(facts));
  std::move(warnings).move_to(model);
  return model;
}

}  // namespace
}  // namespace weightfs::keras

namespace weightfs {

Match matches_keras_sharded(const Probe& probe) {
  const bool could_be = probe.name.ends_with(keras::kSuffix) && probe.begins_json_object();
  return could_be && (probe.head_contains("weight_map") || probe.size > probe.head.size()) ? Match::maybe : Match::no;
}

Result<Model> read_keras_sharded(const Container& container) { return keras::read_sharded(container); }

}  // namespace weightfs
