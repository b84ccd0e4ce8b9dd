// model.safetensors: the header as the reference writes it (safetensors/src/tensor.rs, prepare), then the tensors. Its
// shards and their index as huggingface_hub writes them (serialization/_base.py).
#include "fs/views/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/output.h"
#include "fs/views/records.h"
#include "fs/views/sequence.h"

namespace weightfs::views {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

bool is_text(std::string_view /*key*/, const Value& value) { return std::holds_alternative<std::string>(value); }

// A member "key":"value" of a JSON object.
void append_member(std::string& out, std::string_view key, std::string_view value) {
  append_json_string(out, key);
  out += ':';
  append_json_string(out, value);
}

// The texts of the container's metadata, as the value of __metadata__; empty if there are none. transformers insists
// on "format" where there is metadata.
std::string metadata_object(const Model& model) {
  std::string members;
  for (const auto& [key, value] : model.metadata) {
    const auto* const text = std::get_if<std::string>(&value);
    if (text == nullptr) continue;
    if (!members.empty()) members += ',';
    append_member(members, to_utf8_key(key), *text);
  }
  if (members.empty()) return "";
  if (model.metadata.find_as<std::string>("format") == nullptr) {
    members += ',';
    append_member(members, "format", "pt");
  }
  return fmt::format("{{{}}}", members);
}

// The dtype of a tensor in the file.
std::optional<SafetensorsType> type_in_file(const TypesInFile& types, const TensorView& tensor) {
  const DType* const type = types.conversion(tensor);
  if (type == nullptr) return safetensors_type(tensor);
  Tensor one;  // of no elements: its size must fit its shape
  one.dtype = type;
  one.shape = {0};
  return safetensors_type(one);
}

std::string why_left_out(const TypesInFile& types, const TensorView& tensor, const SafetensorsLimits& limits) {
  const std::string name = name_in_file(tensor);
  if (name == kMetadataKey) return "safetensors reserves this name";
  if (!is_utf8(name)) return "the name is not UTF-8";
  if (tensor.shape.size() > limits.max_dimensions)
    return fmt::format("{} dimensions, readers accept {}", tensor.shape.size(), limits.max_dimensions);
  if (!type_in_file(types, tensor))
    return fmt::format("safetensors has no dtype for {}",
                       tensor.dtype == &kUnknownDType ? printable(tensor.stored_dtype) : tensor.dtype->name);
  return "";
}

// Sorts the tensors as the reference does, by their dtype and then by their name, and places them without gaps. Those
// that would end beyond kMaxFileOffset are left out.
Result<void> place_sorted(FileLayout& layout, Warnings& left_out) {
  struct Key {
    int rank;
    NamedTensor named;
  };
  const TensorList& tensors = layout.model->tensors;
  StringArena texts;
  std::vector<Key> keys;
  keys.reserve(layout.tensors.size());
  for (const NamedTensor& each : TRY(named_tensors(layout, texts)))
    keys.push_back({type_in_file(layout.types, tensors[each.tensor])->rank, each});
  std::stable_sort(keys.begin(), keys.end(),
                   [](const Key& a, const Key& b) { return a.rank != b.rank ? a.rank > b.rank : a.named < b.named; });
  layout.tensors.clear();
  layout.ends.reserve(keys.size());
  for (const Key& key : keys) {
    const uint64_t end = layout.size() + size_in_file(layout.types, tensors[key.named.tensor]);
    if (end > kMaxFileOffset) {
      left_out.add("tensor {}: would end beyond 2^53 bytes", quoted(key.named.name));
      continue;
    }
    layout.tensors.push_back(key.named.tensor);
    layout.ends.push_back(end);
  }
  return {};
}

// An entry of the header, with the comma after it unless it is the last one.
void append_entry(const FileLayout& layout, std::string& out, size_t position) {
  const TensorView tensor = layout.tensor(position);
  append_json_string(out, name_in_file(tensor));
  out += R"(:{"dtype":")";
  out += type_in_file(layout.types, tensor)->name;
  out += R"(","shape":[)";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(tensor.shape[i]);
  }
  out += R"(],"data_offsets":[)" + std::to_string(layout.begin(position)) + ',' +
         std::to_string(layout.ends[position]) + "]}";
  if (position + 1 < layout.tensors.size()) out += ',';
}

// Eight little-endian bytes.
std::string length_of_header(uint64_t length) {
  std::string bytes;
  append_little_endian(bytes, length, sizeof length);
  return bytes;
}

// A file of the placed tensors of the layout.
Result<SourcePtr> file_of(const FileLayoutPtr& layout, const std::string& metadata, const SafetensorsLimits& limits) {
  std::string head = "{";
  if (!metadata.empty()) head += fmt::format("\"{}\":{}{}", kMetadataKey, metadata, layout->tensors.empty() ? "" : ",");
  const auto append = [layout](std::string& out, size_t position) -> Result<void> {
    append_entry(*layout, out, position);
    return {};
  };
  const SourcePtr entries = TRY(records(layout->tensors.size(), append, layout->budget));
  std::string tail = "}";
  constexpr uint64_t kMultiple = 8;
  const uint64_t unpadded = head.size() + entries->size() + tail.size();
  tail.append(static_cast<size_t>((kMultiple - unpadded % kMultiple) % kMultiple), ' ');
  const uint64_t length = head.size() + entries->size() + tail.size();
  if (length > limits.max_header)
    return failure(Code::unsupported, fmt::format("a header of {} bytes, {} at most", length, limits.max_header));
  return concat({in_memory(length_of_header(length) + head), entries, in_memory(tail), sequence(layout)});
}

using Group = std::vector<uint32_t>;

// split_torch_state_dict_into_shards: a tensor that is larger than a shard has one of its own; the others are put into
// shards in their order.
std::vector<Group> shards_of(const FileLayout& layout, uint64_t shard_size) {
  std::vector<Group> shards;
  Group current;
  uint64_t size = 0;
  for (const uint32_t tensor : layout.tensors) {
    const uint64_t bytes = size_in_file(layout.types, layout.model->tensors[tensor]);
    if (bytes > shard_size) {
      shards.push_back({tensor});
      continue;
    }
    if (size + bytes > shard_size) {
      shards.push_back(std::exchange(current, {}));
      size = 0;
    }
    current.push_back(tensor);
    size += bytes;
  }
  if (!current.empty()) shards.push_back(std::move(current));
  return shards;
}

std::string shard_name(std::string_view stem, size_t number, size_t count) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, number, count);
}

// STEM.safetensors.index.json: in which shard each tensor is.
Result<SourcePtr> index_of(const FileLayout& layout, const std::vector<Group>& shards, std::string_view stem,
                           const BudgetPtr& budget) {
  struct Entry {
    uint32_t tensor;
    uint32_t shard;
  };
  struct Index {
    explicit Index(const FileLayout& all) : model(all.model), budget(all.budget), charges(*budget) {}
    ModelPtr model;
    BudgetPtr budget;
    Charges charges;
    std::vector<Entry> entries;
  };
  const auto index = std::make_shared<Index>(layout);
  TRY_VOID(index->charges.charge(Cost::kept, layout.tensors.size() * sizeof(Entry)));
  std::vector<uint32_t> shard_of(layout.model->tensors.size());
  uint64_t total = 0;
  for (size_t shard = 0; shard < shards.size(); ++shard)
    for (const uint32_t tensor : shards[shard]) {
      shard_of[tensor] = static_cast<uint32_t>(shard);
      total += size_in_file(layout.types, layout.model->tensors[tensor]);
    }
  StringArena texts;
  std::vector<NamedTensor> by_name = TRY(named_tensors(layout, texts));
  std::sort(by_name.begin(), by_name.end());
  for (const NamedTensor& each : by_name) index->entries.push_back({each.tensor, shard_of[each.tensor]});
  const auto append = [index, stem = std::string(stem), count = shards.size()](std::string& out,
                                                                               size_t i) -> Result<void> {
    const Entry& entry = index->entries[i];
    out += "    ";
    append_json_string(out, name_in_file(index->model->tensors[entry.tensor]));
    out +=
        fmt::format(": \"{}\"{}\n", shard_name(stem, entry.shard + 1, count), i + 1 < index->entries.size() ? "," : "");
    return {};
  };
  const std::string head =
      fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{\n", total);
  const SourcePtr entries = TRY(records(index->entries.size(), append, budget));
  return concat({in_memory(head), entries, in_memory("  }\n}\n")});
}

// The memory of the sources of a shard, without its tensors.
constexpr uint64_t kShardMemory = 2048;

Result<void> add_shards(std::vector<ModelFile>& files, const FileLayout& layout, uint64_t shard_size,
                        const std::string& metadata, const SafetensorsLimits& limits) {
  constexpr std::string_view stem = "model";
  const std::vector<Group> shards = shards_of(layout, shard_size);
  if (shards.size() > limits.max_shards)
    return failure(Code::unsupported,
                   fmt::format("more than {} shards of {}", limits.max_shards, human_size(shard_size)));
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto shard = std::make_shared<FileLayout>(layout.model, layout.types);
    TRY_VOID(shard->charges.charge(Cost::kept, kShardMemory));
    TRY_VOID(shard->charges.charge(Cost::kept, shards[i].size() * (sizeof(uint32_t) + sizeof(uint64_t))));
    shard->tensors = shards[i];
    Warnings none;  // the whole file, which is larger, has the same tensors
    TRY_VOID(place_sorted(*shard, none));
    SourcePtr file = TRY(file_of(shard, metadata, limits));
    files.push_back({"sharded/" + shard_name(stem, i + 1, shards.size()), std::move(file), {}});
  }
  SourcePtr index = TRY(index_of(layout, shards, stem, layout.budget));
  files.push_back({fmt::format("sharded/{}.safetensors.index.json", stem), std::move(index), {}});
  return {};
}

}  // namespace

Result<std::vector<ModelFile>> safetensors_files(const ModelPtr& model, const Selection& selection, uint64_t shard_size,
                                                 const SafetensorsLimits& limits) {
  Warnings left_out;
  const auto has_type = [](const TensorView& tensor) { return safetensors_type(tensor).has_value(); };
  const TypesInFile types{selection.types, has_type, selection.overflows};
  const auto why = [&](size_t, const TensorView& tensor) { return why_left_out(types, tensor, limits); };
  const auto layout = TRY(choose_tensors(model, selection, types, why, RepeatedNames::left_out, left_out));
  const auto whole = std::make_shared<FileLayout>(model, types);
  TRY_VOID(whole->charges.charge(Cost::kept, layout->tensors.size() * (sizeof(uint32_t) + sizeof(uint64_t))));
  whole->tensors = layout->tensors;
  TRY_VOID(place_sorted(*whole, left_out));
  if (whole->tensors.empty()) return failure(no_tensors("safetensors", left_out));
  const std::string metadata = metadata_object(*model);
  SourcePtr file = TRY(file_of(whole, metadata, limits));
  std::vector<ModelFile> files;
  files.push_back({"model.safetensors", std::move(file), std::move(left_out),
                   left_out_keys(*model, "safetensors holds strings only", is_text)});
  if (shard_size > 0 && whole->size() > shard_size) TRY_VOID(add_shards(files, *layout, shard_size, metadata, limits));
  return files;
}

Result<std::vector<ModelFile>> safetensors_files(const ModelPtr& model, const Selection& selection,
                                                 uint64_t shard_size) {
  return safetensors_files(model, selection, shard_size, SafetensorsLimits{});
}

}  // namespace weightfs::views
