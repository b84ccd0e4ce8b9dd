// The weights of MLC-LLM and WebLLM: shards of raw bytes, and an index, `tensor-cache.json` (before 2025
// `ndarray-cache.json`), with the place of each tensor. As python/tvm/contrib/tvmjs.py writes it and
// src/runtime/vm/ndarray_cache_support.cc reads it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/common/flat.h"
#include "formats/common/json_outline.h"
#include "formats/common/limits.h"
#include "formats/common/missing_shards.h"
#include "formats/grouped.h"
#include "formats/string_pool.h"

namespace weightfs::tvm {
namespace {

// A tensor takes some 250 bytes of the index and ten values: 100,000 tensors fit, of models that have up to 10,000.
constexpr uint64_t kMaxIndexSize = 32 << 20;
constexpr uint64_t kMaxIndexValues = 1'000'000;

// The maximum for values that are not about tensors, and so are shown as metadata; files have three.
constexpr uint64_t kMaxMetadataValues = flat::kMaxMetadataValues;

// Each stays an open file.
constexpr size_t kMaxShards = 10'000;

constexpr const char* kConfig = "mlc-chat-config.json";
constexpr uint64_t kMaxConfigSize = 1 << 20;

struct Shard {
  std::string name;
  SourcePtr bytes;    // null if it is unavailable
  uint64_t size = 0;  // from the index; bytes beyond it belong to no tensor
  uint64_t lost = 0;  // its tensors, if it is unavailable
  Error reason;       // the reason
  std::optional<Md5> md5;
};

template <class T>
Result<const T*> field(const Map& record, const char* key, const char* kind) {
  const Value* const value = record.find(key);
  if (value != nullptr && std::holds_alternative<T>(*value)) return &std::get<T>(*value);
  return failure(Code::corrupt, fmt::format("{} expected at {}", kind, quoted(key)));
}

Result<std::string> text(const Map& record, const char* key) { return *TRY(field<std::string>(record, key, "a text")); }

Result<uint64_t> size(const Value& value) {
  const int64_t* const number = std::get_if<int64_t>(&value);
  if (number == nullptr || *number < 0) return failure(Code::corrupt, "a size below 2^63 expected");
  return static_cast<uint64_t>(*number);
}

Result<uint64_t> size(const Map& record, const char* key) {
  const Value* const value = record.find(key);
  if (value != nullptr && size(*value)) return size(*value);
  return failure(Code::corrupt, fmt::format("a size expected at {}", quoted(key)));
}

Result<Shape> shape(const Map& record) {
  const List& list = *TRY(field<List>(record, "shape", "a list"));
  if (list.size() > kMaxDimensions)
    return failure(Code::corrupt, fmt::format("{} dimensions, at most {}", list.size(), kMaxDimensions));
  Shape shape;
  for (const Value& value : list) shape.push_back(TRY(size(value)));
  return shape;
}

Result<const Map*> as_record(const Value& value) {
  if (const Map* const map = std::get_if<Map>(&value)) return map;
  return failure(Code::corrupt, "an object expected");
}

// As TVM has spelled them; most as NumPy and ml_dtypes do.
const DType* dtype_spelled(std::string_view name) {
  if (name == "e4m3_float8") return dtype_named("float8_e4m3fn");
  if (name == "e5m2_float8") return dtype_named("float8_e5m2");
  const DType* const dtype = dtype_named(name);
  return dtype == nullptr || dtype->block_bytes == 0 || is_quantised(*dtype) ? nullptr : dtype;
}

// The keys of the index besides the records, and the fields of its `metadata`; of equal keys those are kept.
Map beside_records(Map index) {
  Map all;
  const Map* metadata = nullptr;
  for (const auto& [key, value] : index) {
    const Map* const map = std::get_if<Map>(&value);
    if (key == "metadata" && map != nullptr)
      metadata = map;
    else if (key != "records")
      all.append(key, value);
  }
  if (metadata != nullptr)
    for (const auto& [key, value] : *metadata) all.append(key, value);
  all.keep_last_of_each_key();
  return all;
}

bool has_more_values(const Map& map, uint64_t most) {
  std::vector<const Map*> maps = {&map};
  std::vector<const List*> lists;
  uint64_t values = 0;
  const auto enter = [&](const Value& value) {
    if (const Map* const inner = std::get_if<Map>(&value)) maps.push_back(inner);
    if (const List* const inner = std::get_if<List>(&value)) lists.push_back(inner);
  };
  while (!maps.empty() || !lists.empty()) {
    if (!maps.empty()) {
      const Map& next = *maps.back();
      maps.pop_back();
      values += next.size();
      for (const auto& [key, value] : next) enter(value);
    } else {
      const List& next = *lists.back();
      lists.pop_back();
      values += next.size();
      for (const Value& value : next) enter(value);
    }
  }
  return values > most;
}

// Merges the index and its shards.
class ModelAssembly {
 public:
  explicit ModelAssembly(const Container& container) : container_(container) {}

  Result<void> add(const List& records) {
    for (size_t i = 0; i < records.size(); ++i)
      if (const auto added = add_shard(records[i]); !added)
        return failure(added.error().code, fmt::format("shard record {}: {}", i, added.error().message));
    return {};
  }

  Result<Model> finish(Map index) {
    TRY_VOID(say_what_is_lost());
    for (const size_t i : flat::repeated_names(model_.tensors))
      warnings_.add("tensor {} appears twice; loaders use the last one", quoted(model_.tensors[i].name));
    model_.format = "tensor-cache";
    model_.common = common_fields();
    take_metadata(std::move(index));
    model_.parts.push_back(
        {.path = container_.name, .source = Later<SourcePtr>::of(container_.bytes), .is_structure = true});
    for (const Shard* const shard : order_) {
      if (shard->bytes == nullptr) continue;
      Part part{shard->name, Later<SourcePtr>::of(shard->bytes)};
      if (shard->md5) part.checksums.set(*shard->md5);
      model_.parts.push_back(std::move(part));
    }
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  Result<void> add_shard(const Value& value) {
    const Map& record = *TRY(as_record(value));
    if (const std::string format = TRY(text(record, "format")); format != "raw-shard")
      return failure(Code::unsupported, fmt::format("format {}, \"raw-shard\" expected", quoted(format)));
    const std::string name = TRY(text(record, "dataPath"));
    const uint64_t bytes = TRY(size(record, "nbytes"));
    const List& tensors = *TRY(field<List>(record, "records", "a list"));
    Shard& shard = TRY(shard_named(name)).get();
    shard.size = bytes;
    if (shard.bytes != nullptr && shard.bytes->size() != bytes) {
      warnings_.add("shard {}: {} bytes, {} expected", quoted(name), shard.bytes->size(), bytes);
      if (shard.bytes->size() < bytes) warnings_.add_short_by(bytes - shard.bytes->size());
    }
    if (const Value* const sum = record.find("md5sum")) set_md5(shard, *sum);
    for (size_t i = 0; i < tensors.size(); ++i)
      if (const auto added = add_tensor(tensors[i], shard); !added)
        return failure(added.error().code, fmt::format("tensor record {}: {}", i, added.error().message));
    return {};
  }

  // A shard may be in several records; it is opened once.
  Result<std::reference_wrapper<Shard>> shard_named(const std::string& name) {
    const auto [row, is_new] = shards_.try_emplace(name);
    if (!is_new) return row->second;
    if (shards_.size() > kMaxShards) return failure(Code::unsupported, fmt::format("more than {} shards", kMaxShards));
    Shard& shard = row->second;
    shard.name = name;
    order_.push_back(&shard);
    TRY_VOID(container_.budget->charge(Cost::member, 2));
    TRY_VOID(container_.budget->charge(Cost::kept, 3 * name.size()));
    auto bytes = is_file_name(name) && name != container_.name
                     ? container_.folder->open(name)
                     : failure(Code::corrupt, "not the name of another file beside the index");
    if (bytes) {
      shard.bytes = std::move(*bytes);
      container_.budget->add_file(*shard.bytes);
    } else if (is_fatal(container_, bytes.error())) {
      return tl::unexpected(bytes.error());
    } else {
      shard.reason = bytes.error();
    }
    return shard;
  }

  void set_md5(Shard& shard, const Value& sum) {
    const std::string* const hex = std::get_if<std::string>(&sum);
    shard.md5 = hex == nullptr ? std::nullopt : md5_of_hex(*hex);
    if (!shard.md5) warnings_.add("shard {}: its md5sum is not an MD5", quoted(shard.name));
  }

  Result<void> add_tensor(const Value& value, Shard& shard) {
    const Map& record = *TRY(as_record(value));
    Tensor tensor;
    tensor.name = TRY(text(record, "name"));
    if (tensor.name.size() > kMaxNameLength)
      return failure(Code::corrupt,
                     fmt::format("a name of {} bytes, more than {}", tensor.name.size(), kMaxNameLength));
    tensor.shape = TRY(shape(record));
    const std::string dtype = TRY(text(record, "dtype"));
    const std::string format = TRY(text(record, "format"));
    const uint64_t bytes = TRY(size(record, "nbytes"));
    const uint64_t offset = TRY(size(record, "byteOffset"));
    set_type(tensor, dtype, format, bytes);
    place(tensor, shard, offset, bytes);
    TRY_VOID(container_.budget->charge(Cost::tensor));
    TRY_VOID(container_.budget->charge(Cost::kept, tensor.name.size() + dtype.size() + 8 * tensor.shape.size()));
    model_.tensors.push_back(tensor);
    return {};
  }

  // An export to bfloat16 has that format at every tensor; it applies to the float32 tensors.
  void set_type(Tensor& tensor, const std::string& dtype, const std::string& format, uint64_t bytes) {
    const bool is_bf16 = format == "f32-to-bf16" && dtype == "float32";
    const DType* const known = is_bf16 ? dtype_named("bfloat16") : dtype_spelled(dtype);
    tensor.stored_dtype = spellings_.add(is_bf16 ? dtype + " (f32-to-bf16)" : dtype);
    tensor.dtype = &kUnknownDType;
    const auto warn = [&](const std::string& problem) { warnings_.add("tensor {}: {}", quoted(tensor.name), problem); };
    if (format != "raw" && format != "f32-to-bf16")
      return warn(fmt::format("format {}; shown as bytes", quoted(format)));
    if (known == nullptr) return warn(fmt::format("dtype {} is unknown; shown as bytes", quoted(dtype)));
    const auto needed = size_in_bytes(*known, tensor.shape);
    if (needed != bytes)
      return warn(
          fmt::format("{} bytes, but its shape and dtype {} {}; shown as bytes", bytes, tensor.stored_dtype,
                      needed ? fmt::format("need {}", *needed) : "overflow 64 bits or do not fill whole bytes"));
    tensor.dtype = known;
  }

  void place(Tensor& tensor, Shard& shard, uint64_t offset, uint64_t bytes) {
    if (shard.bytes == nullptr) {
      ++shard.lost;
      return;
    }
    const uint64_t there = std::min(shard.size, shard.bytes->size());
    auto source = offset <= there && bytes <= there - offset
                      ? slice(shard.bytes, offset, bytes)
                      : failure(Code::corrupt, fmt::format("{} bytes at offset {} are not inside the {} of shard {}",
                                                           bytes, offset, there, quoted(shard.name)));
    if (source)
      tensor.source = std::move(*source);
    else
      warnings_.refuse(source.error().code, "tensor {}: {}: refused", quoted(tensor.name), source.error().message);
  }

  Result<void> say_what_is_lost() {
    const auto is_there = [](const Shard* shard) { return shard->bytes != nullptr; };
    if (!order_.empty() && std::none_of(order_.begin(), order_.end(), is_there))
      return failure(order_.front()->reason.code,
                     fmt::format("none of {} shards can be read, the first: {}: {}", order_.size(),
                                 quoted(order_.front()->name), order_.front()->reason.message));
    MissingShards missing;
    for (const Shard* const shard : order_)
      if (shard->bytes == nullptr && shard->reason.code == Code::not_found)
        missing.add(shard->name, "; " + lost_tensors(shard->lost, "refused"));
      else if (shard->bytes == nullptr)
        warnings_.miss_file(shard->reason.code, "shard {}: {}; {}", quoted(shard->name), shard->reason.message,
                            lost_tensors(shard->lost, "refused"));
    missing.report(order_.size(), warnings_);
    for (const Shard* const shard : order_)
      if (shard->bytes == nullptr) warnings_.lose(shard->reason, {});
    return {};
  }

  void take_metadata(Map index) {
    Map& all = model_.metadata;
    all = beside_records(std::move(index));
    if (has_more_values(all, kMaxMetadataValues)) {
      warnings_.add("the index has metadata of more than {} values: omitted", kMaxMetadataValues);
      all = {};
    }
    if (const auto room = charge(footprint(all), *container_.budget); !room) {
      warnings_.add("the metadata of the index: {}: omitted", room.error().message);
      all = {};
    }
    Map facts;
    facts.append("shards", order_.size());
    flat::add_facts(all, model_.format, std::move(facts));
  }

  Map common_fields() const {
    constexpr std::array kCommon = {
        std::pair{"model_type", "architecture"},
        std::pair{"quantization", "quantization"},
        std::pair{"context_window_size", "context_window_size"},
    };
    Map common;
    const auto config = container_.folder->open(kConfig);
    const auto keys = config ? outline(**config, kMaxConfigSize) : Map{};
    if (!keys) return common;
    for (const auto& [key, name] : kCommon)
      if (holds<std::string>(*keys, key) || holds<int64_t>(*keys, key)) common.append(name, *keys->find(key));
    return common;
  }

  const Container& container_;
  Model model_;
  Warnings warnings_;
  std::map<std::string, Shard> shards_;  // by name
  std::vector<const Shard*> order_;      // in which the index has them
  StringPool spellings_{model_.string_pool};
};

Result<Map> read_index(const Source& bytes, Budget& budget) {
  if (bytes.size() > kMaxIndexSize)
    return failure(Code::unsupported, fmt::format("an index of {} bytes, at most {}", bytes.size(), kMaxIndexSize));
  Value root = TRY(parse_json(bytes, 0, bytes.size(), budget, kMaxIndexValues));
  if (Map* const index = std::get_if<Map>(&root)) return std::move(*index);
  return failure(Code::unsupported, "JSON, but not an object");
}

Result<Model> read(const Container& container) {
  Map index = TRY(read_index(*container.bytes, *container.budget));
  const Footprint size = footprint(index);
  const List& records = *TRY(field<List>(index, "records", "a list"));
  if (container.folder == nullptr)
    return failure(Code::unsupported, "no other files in its directory; its shards are needed");
  ModelAssembly assembly(container);
  TRY_VOID(assembly.add(records));
  auto model = assembly.finish(std::move(index));
  release(size, *container.budget);  // the index has been destroyed
  return model;
}

}  // namespace
}  // namespace weightfs::tvm

namespace weightfs {

Match matches_tensor_cache(const Probe& probe) {
  if (!probe.begins_json_object() || probe.size > tvm::kMaxIndexSize || !probe.head_contains("\"records\""))
    return Match::no;
  constexpr std::array<std::string_view, 4> kNames = {"tensor-cache.json", "ndarray-cache.json",
                                                      "tensor-cache-b16.json", "ndarray-cache-b16.json"};
  if (std::find(kNames.begin(), kNames.end(), probe.name) != kNames.end()) return Match::yes;
  return probe.head_contains("\"dataPath\"") ? Match::maybe : Match::no;
}

Result<Model> read_tensor_cache(const Container& container) { return tvm::read(container); }

}  // namespace weightfs
