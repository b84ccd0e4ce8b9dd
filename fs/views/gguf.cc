// model.gguf: GGUF version 3 (ggml's docs/gguf.md). The metadata of a GGUF is copied where it is stored; that of other
// containers is made from their fields.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "formats/format.h"
#include "formats/gguf_keys.h"
#include "formats/output.h"
#include "fs/views/model_file.h"
#include "fs/views/records.h"
#include "fs/views/sequence.h"

namespace weightfs::views {
namespace {

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;  // of a hostile file: each tensor is padded to it
constexpr size_t kMaxGgmlName = 63;                    // GGML_MAX_NAME, less its NUL
constexpr size_t kMaxGgmlDimensions = 4;               // GGML_MAX_DIMS
constexpr size_t kMaxGgufKey = 65'535;                 // bytes, by the specification

// gguf_type (gguf.h) of the values that are made here.
enum class GgufValue : uint32_t {
  uint16 = 2,
  uint32 = 4,
  int32 = 5,
  boolean = 7,
  string = 8,
  uint64 = 10,
  int64 = 11,
  float64 = 12
};

// Appends numbers in one byte order.
class GgufWriter {
 public:
  explicit GgufWriter(std::endian order) : order_(order) {}

  template <class Number>
  void number(Number value) {
    std::string bytes(sizeof(Number), '\0');
    std::memcpy(bytes.data(), &value, sizeof(Number));
    if (order_ != std::endian::native) std::reverse(bytes.begin(), bytes.end());
    out_ += bytes;
  }
  void text(std::string_view text) {
    number(uint64_t{text.size()});
    out_ += text;
  }
  void bytes(std::string_view bytes) { out_ += bytes; }
  void key(std::string_view key, GgufValue type) {
    text(key);
    number(static_cast<uint32_t>(type));
  }
  std::string take() { return std::move(out_); }

 private:
  std::endian order_;
  std::string out_;
};

// The metadata of a file: as stored, or made from the fields of the model.
struct GgufMetadata {
  std::vector<SourcePtr> bytes;
  uint64_t count = 0;
  std::endian order = std::endian::little;
  uint64_t alignment = kDefaultAlignment;
};

// A text, a number or a bool.
bool is_written(const Value& value) {
  return !std::holds_alternative<Map>(value) && !std::holds_alternative<List>(value) &&
         !std::holds_alternative<std::nullptr_t>(value);
}

// Whether the value was written.
bool write_value(GgufWriter& out, const std::string& key, const Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) {
    out.key(key, GgufValue::string);
    out.text(*text);
  } else if (const auto* const flag = std::get_if<bool>(&value)) {
    out.key(key, GgufValue::boolean);
    out.number(static_cast<uint8_t>(*flag ? 1 : 0));
  } else if (const auto* const whole = std::get_if<int64_t>(&value)) {
    out.key(key, GgufValue::int64);
    out.number(*whole);
  } else if (const auto* const natural = std::get_if<uint64_t>(&value)) {
    out.key(key, GgufValue::uint64);
    out.number(*natural);
  } else if (const auto* const real = std::get_if<double>(&value)) {
    out.key(key, GgufValue::float64);
    out.number(*real);
  } else {
    return false;
  }
  return true;
}

// The common fields that GGUF has keys for, and the container's own under the name of its format. The architecture of
// ggml is not among the fields of other formats.
std::string made_key(const Model& model, std::string_view field) { return fmt::format("{}.{}", model.format, field); }

GgufMetadata made_metadata(const Model& model) {
  GgufWriter out(std::endian::little);
  GgufMetadata metadata;
  for (const auto& [field, value] : model.common) {
    const std::string key(gguf_key_of(field));
    if (key.empty() || key == "general.architecture") continue;
    if (write_value(out, key, value)) ++metadata.count;
  }
  for (const auto& [field, value] : model.metadata) {
    const std::string key = made_key(model, field);
    if (key.size() <= kMaxGgufKey && write_value(out, key, value)) ++metadata.count;
  }
  metadata.bytes.push_back(in_memory(out.take()));
  return metadata;
}

// Whether the types of the tensors are those of the container.
enum class Types { stored, others };

// The keys of a GGUF, as stored. Those about its quantisation are false of other types.
GgufMetadata copied_metadata(const GgufKeys& keys, Types types) {
  GgufMetadata metadata{{}, 0, keys.order, keys.alignment};
  for (const GgufKeys::Entries& entries : keys.entries) {
    if (types == Types::others && entries.are_about_quantisation) continue;
    metadata.bytes.push_back(std::make_shared<Slice>(entries.bytes));
    metadata.count += entries.count;
  }
  return metadata;
}

// general.file_type of llama.cpp for a file of which all tensors have one type: LLAMA_FTYPE_ALL_F32, _MOSTLY_F16 and
// _MOSTLY_BF16.
std::optional<uint32_t> file_type(FileTypes types) {
  if (types == FileTypes::float32) return 0;
  if (types == FileTypes::float16) return 1;
  return types == FileTypes::bfloat16 ? std::optional<uint32_t>(32) : std::nullopt;
}

void add_file_type(GgufMetadata& metadata, uint32_t type) {
  GgufWriter out(metadata.order);
  out.key("general.file_type", GgufValue::uint32);
  out.number(type);
  metadata.bytes.push_back(in_memory(out.take()));
  ++metadata.count;
}

Result<GgufMetadata> metadata_as_stored(const Model& model, Types types) {
  if (model.gguf_keys == nullptr) {
    if (traits_of(model.format).has_gguf_keys)
      return failure(Code::unsupported, "the metadata of GGUF version 1 has another form");
    return made_metadata(model);
  }
  const GgufKeys& keys = *model.gguf_keys;
  if (keys.alignment > kMaxAlignment)
    return failure(Code::unsupported,
                   fmt::format("general.alignment is {}, {} at most", keys.alignment, kMaxAlignment));
  return copied_metadata(keys, types);
}

Result<GgufMetadata> gguf_metadata(const FileLayout& layout) {
  const auto is_other = [&](uint32_t tensor) {
    return layout.types.conversion(layout.model->tensors[tensor]) != nullptr;
  };
  const std::optional<uint32_t> type = file_type(layout.types.types);
  const bool has_others = type || std::ranges::any_of(layout.tensors, is_other);
  GgufMetadata metadata = TRY(metadata_as_stored(*layout.model, has_others ? Types::others : Types::stored));
  if (type) add_file_type(metadata, *type);
  return metadata;
}

std::endian order_of(const Model& model) {
  return model.gguf_keys == nullptr ? std::endian::little : model.gguf_keys->order;
}

LeftOutKeys keys_not_in_gguf(const Model& model) {
  if (model.gguf_keys != nullptr) return {};
  return left_out_keys(model, "GGUF gets texts, numbers and bools only", [&](std::string_view key, const Value& value) {
    return is_written(value) && made_key(model, key).size() <= kMaxGgufKey;
  });
}

// The number of a type that is not known here, which a tensor of a GGUF has as its name.
std::optional<uint32_t> number_of_unknown_type(const TensorView& tensor) {
  constexpr std::string_view kNumbered = "ggml-";
  if (tensor.dtype != &kUnknownDType || !tensor.stored_dtype.starts_with(kNumbered)) return std::nullopt;
  return parse_number<uint32_t>(tensor.stored_dtype.substr(kNumbered.size()));
}

// The types of the tensors in a GGUF.
class GgmlTypes {
 public:
  GgmlTypes(const Model& model, FileTypes types, std::endian order)
      : order_(order),
        is_copied_(model.gguf_keys != nullptr &&
                   (types == FileTypes::stored || types == FileTypes::stored_or_float32)) {}

  // The type of the bytes as they are stored. A copy also has types that are not known here.
  std::optional<uint32_t> stored(const TensorView& tensor) const {
    if (const auto number = is_copied_ ? number_of_unknown_type(tensor) : std::nullopt) return number;
    return gguf_type(tensor, order_);
  }

  // The converted numbers are little-endian.
  std::optional<uint32_t> in_file(const TypesInFile& types, const TensorView& tensor) const {
    const DType* const type = types.conversion(tensor);
    if (type == nullptr) return stored(tensor);
    Tensor one;
    one.dtype = type;
    return gguf_type(one, order_);
  }

 private:
  std::endian order_;
  bool is_copied_;
};

std::string why_not_in_gguf(const TypesInFile& types, const GgmlTypes& ggml_types, const TensorView& tensor) {
  constexpr size_t kMaxShown = 255;  // bytes of a scope, which all its tensors show
  if (!tensor.scope.empty())
    return fmt::format("of the part {}, GGUF has none", quoted(tensor.scope.substr(0, kMaxShown)));
  if (tensor.name.size() > kMaxGgmlName)
    return fmt::format("a name of {} bytes, ggml accepts {}", tensor.name.size(), kMaxGgmlName);
  if (tensor.shape.size() > kMaxGgmlDimensions)
    return fmt::format("{} dimensions, ggml accepts {}", tensor.shape.size(), kMaxGgmlDimensions);
  if (!ggml_types.in_file(types, tensor))
    return fmt::format("GGUF has no type for {}",
                       tensor.dtype == &kUnknownDType ? printable(tensor.stored_dtype) : tensor.dtype->name);
  return "";
}

uint64_t aligned(uint64_t size, uint64_t alignment) { return (size + alignment - 1) / alignment * alignment; }

// Places the tensors in the order of the container, each padded to the alignment.
void place_aligned(FileLayout& layout, uint64_t alignment, Warnings& left_out) {
  std::vector<uint32_t> kept;
  kept.reserve(layout.tensors.size());
  for (const uint32_t index : layout.tensors) {
    const TensorView tensor = layout.model->tensors[index];
    const uint64_t end = aligned(layout.size() + size_in_file(layout.types, tensor), alignment);
    if (end > kMaxFileOffset) {
      left_out.add("tensor {}: would end beyond 2^53 bytes", quoted(tensor.name));
      continue;
    }
    kept.push_back(index);
    layout.ends.push_back(end);
  }
  layout.tensors = std::move(kept);
}

// An entry of the list of tensors; dimensions innermost first.
std::string tensor_entry(const FileLayout& layout, size_t position, std::endian order, const GgmlTypes& ggml_types) {
  const TensorView tensor = layout.tensor(position);
  GgufWriter out(order);
  out.text(tensor.name);
  out.number(static_cast<uint32_t>(tensor.shape.size()));
  for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) out.number(*size);
  out.number(ggml_types.in_file(layout.types, tensor).value_or(kGgufFloat32));
  out.number(layout.begin(position));
  return out.take();
}

// A file of the placed tensors of the layout.
Result<SourcePtr> file_of(const FileLayoutPtr& layout, const GgufMetadata& metadata, const GgmlTypes& ggml_types) {
  GgufWriter head(metadata.order);
  head.bytes("GGUF");
  head.number(uint32_t{3});
  head.number(uint64_t{layout->tensors.size()});
  head.number(metadata.count);
  std::vector<SourcePtr> parts = {in_memory(head.take())};
  parts.insert(parts.end(), metadata.bytes.begin(), metadata.bytes.end());
  const auto append = [layout, order = metadata.order, ggml_types](std::string& out, size_t position) -> Result<void> {
    out += tensor_entry(*layout, position, order, ggml_types);
    return {};
  };
  parts.push_back(TRY(records(layout->tensors.size(), append, layout->budget)));
  uint64_t size = 0;
  for (const SourcePtr& part : parts) size += part->size();
  if (!layout->tensors.empty()) {
    parts.push_back(in_memory(std::string(static_cast<size_t>(aligned(size, metadata.alignment) - size), '\0')));
    parts.push_back(sequence(layout));
  }
  return concat(std::move(parts));
}

// The keys of a split file (gguf-py, Keys.Split).
SourcePtr split_keys(size_t number, size_t count, size_t tensors, std::endian order) {
  GgufWriter out(order);
  out.key("split.no", GgufValue::uint16);
  out.number(static_cast<uint16_t>(number));
  out.key("split.count", GgufValue::uint16);
  out.number(static_cast<uint16_t>(count));
  out.key("split.tensors.count", GgufValue::int32);
  out.number(static_cast<int32_t>(tensors));
  return in_memory(out.take());
}

// The tensors in files of at most `shard_size` bytes, as gguf-py splits them.
std::vector<std::vector<uint32_t>> split_tensors(const FileLayout& layout, uint64_t shard_size) {
  std::vector<std::vector<uint32_t>> shards(1);
  uint64_t size = 0;
  for (const uint32_t tensor : layout.tensors) {
    const uint64_t bytes = size_in_file(layout.types, layout.model->tensors[tensor]);
    if (!shards.back().empty() && size + bytes > shard_size) {
      shards.emplace_back();
      size = 0;
    }
    shards.back().push_back(tensor);
    size += bytes;
  }
  return shards;
}

// Appends the files of a split model. The first one has the metadata.
Result<void> add_split(std::vector<ModelFile>& files, const FileLayout& whole, const GgufMetadata& metadata,
                       const GgmlTypes& ggml_types, uint64_t shard_size) {
  constexpr size_t kMaxFiles = 65'535;  // split.count has 16 bits
  constexpr uint64_t kKeys = 3;
  constexpr uint64_t kFileMemory = 2048;
  const auto shards = split_tensors(whole, shard_size);
  if (shards.size() > kMaxFiles)
    return failure(Code::unsupported, fmt::format("more than {} files of {}", kMaxFiles, human_size(shard_size)));
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto shard = std::make_shared<FileLayout>(whole.model, whole.types);
    TRY_VOID(shard->charges.charge(Cost::kept, kFileMemory + shards[i].size() * sizeof(uint64_t) * 2));
    shard->tensors = shards[i];
    Warnings none;  // the whole file, which is larger, has the same tensors
    place_aligned(*shard, metadata.alignment, none);
    GgufMetadata own = i == 0 ? metadata : GgufMetadata{{}, 0, metadata.order, metadata.alignment};
    own.bytes.push_back(split_keys(i, shards.size(), whole.tensors.size(), metadata.order));
    own.count += kKeys;
    SourcePtr file = TRY(file_of(shard, own, ggml_types));
    files.push_back({fmt::format("model-{:05}-of-{:05}.gguf", i + 1, shards.size()), std::move(file), {}});
  }
  return {};
}

}  // namespace

Result<std::vector<ModelFile>> gguf_files(const ModelPtr& model, const Selection& selection, uint64_t shard_size) {
  const std::endian order = order_of(*model);
  const GgmlTypes ggml_types(*model, selection.types, order);
  const auto has_type = [ggml_types](const TensorView& tensor) { return ggml_types.stored(tensor).has_value(); };
  const TypesInFile types{selection.types, has_type, selection.overflows};
  Warnings left_out;
  const auto why = [&](size_t, const TensorView& tensor) { return why_not_in_gguf(types, ggml_types, tensor); };
  const auto layout = TRY(choose_tensors(model, selection, types, why, RepeatedNames::left_out, left_out));
  const GgufMetadata metadata = TRY(gguf_metadata(*layout));
  place_aligned(*layout, metadata.alignment, left_out);
  if (layout->tensors.empty() && !model->tensors.empty()) return failure(no_tensors("GGUF", left_out));

  SourcePtr file = TRY(file_of(layout, metadata, ggml_types));
  std::vector<ModelFile> files;
  files.push_back({"model.gguf", std::move(file), std::move(left_out), keys_not_in_gguf(*model)});
  if (shard_size > 0 && layout->size() > shard_size)
    TRY_VOID(add_split(files, *layout, metadata, ggml_types, shard_size));
  return files;
}

Result<ModelFile> gguf_file(const ModelPtr& model, const Selection& selection) {
  return std::move(TRY(gguf_files(model, selection, 0)).front());
}

Result<std::vector<ModelFile>> hub_gguf_files(const ModelPtr& model, const std::string& name,
                                              std::span<const mapping::GgufType> types) {
  std::vector<ModelFile> files;
  for (const ModelPtr& mapped : TRY(mapping::as_gguf(model, name, types))) {
    files.push_back(TRY(gguf_file(mapped, {})));
    if (files.back().left_out.size() > 0) return failure(Code::unsupported, files.back().left_out.lines().front());
  }
  return files;
}

}  // namespace weightfs::views
