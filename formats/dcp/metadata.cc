#include "formats/dcp/metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/pytorch/rebuild.h"

namespace weightfs::dcp {
namespace {

using pickle::Call;
using pickle::Kind;
using pickle::kNoValue;

// The module of the classes in torch 2, and in torch 1.13.
constexpr std::array<std::string_view, 2> kModules = {"torch.distributed.checkpoint.metadata.",
                                                      "torch.distributed._shard.checkpoint.metadata."};

// The enumeration of memory formats; torch before 2.3 has that of sharded tensors.
constexpr std::array<std::string_view, 2> kMemoryFormats = {
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING"};

// The attributes of an object are few, whatever a file has.
constexpr size_t kMaxAttributes = 64;

// The memory of a place, besides its key's sizes, and of an entry, in bytes.
constexpr uint64_t kPlaceMemory = 200;
constexpr uint64_t kEntryMemory = 150;

bool is_class(const Pickle& pickle, Index value, std::string_view name) {
  if (pickle.kind(value) != Kind::call) return false;
  const std::string_view global = pickle.global(pickle.call(value).callable);
  return std::ranges::any_of(kModules, [&](std::string_view module) {
    return global.starts_with(module) && global.substr(module.size()) == name;
  });
}

// The value of an attribute of an object; kNoValue if there is none. Of equal ones the last counts.
Index attribute(const Pickle& pickle, Index object, std::string_view name) {
  if (pickle.kind(object) != Kind::call) return kNoValue;
  return pickle.value_of(pickle.call(object).state, name, 2 * kMaxAttributes);
}

// A text that the pickle keeps; nothing if it is too long, or another value.
std::optional<std::string_view> text_of(const Pickle& pickle, Index value) {
  if (value == kNoValue || pickle.kind(value) != Kind::text) return std::nullopt;
  if (pickle.length(value) > kMaxNameLength || pickle.text(value).size() != pickle.length(value)) return std::nullopt;
  return pickle.text(value);
}

Result<std::vector<uint64_t>> sizes_at(const Pickle& pickle, Index object, std::string_view name) {
  const Index value = attribute(pickle, object, name);
  if (value == kNoValue) return failure(Code::corrupt, fmt::format("no {}", name));
  return pytorch::sizes_in(pickle, value, name);
}

std::optional<uint64_t> number_at(const Pickle& pickle, Index object, std::string_view name) {
  const Index value = attribute(pickle, object, name);
  const auto number = value == kNoValue ? std::nullopt : pickle.integer(value);
  return number && *number >= 0 ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

// getattr(_MEM_FORMAT_ENCODING, "TORCH_CONTIGUOUS_FORMAT")
bool is_memory_format(const Pickle& pickle, Index call) {
  if (pickle.kind(call) != Kind::call) return false;
  const std::vector<Index> arguments = pickle.items(pickle.call(call).arguments, 3);
  return arguments.size() == 2 &&
         std::ranges::find(kMemoryFormats, pickle.global(arguments[0])) != kMemoryFormats.end() &&
         pickle.text(arguments[1]).starts_with("TORCH_");
}

}  // namespace

Result<Metadata> Metadata::of(const Pickle& pickle, Charges& charges) {
  if (!is_class(pickle, pickle.root(), "Metadata")) return failure(Code::corrupt, "not a pickle of a Metadata");
  const Index entries = attribute(pickle, pickle.root(), "state_dict_metadata");
  if (entries == kNoValue || pickle.kind(entries) != Kind::dict)
    return failure(Code::corrupt, "no state_dict_metadata");
  Metadata metadata(pickle);
  TRY_VOID(metadata.read_entries(entries, charges));
  TRY_VOID(metadata.read_places(attribute(pickle, pickle.root(), "storage_data"), charges));
  return metadata;
}

Result<void> Metadata::read_entries(Index entries, Charges& charges) {
  const std::vector<Index> items = pickle_->items(entries);
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    TRY_VOID(charges.charge(Cost::step, 2));
    TRY_VOID(charges.charge(Cost::kept, kEntryMemory));
    const auto name = text_of(*pickle_, items[i]);
    const Entry entry{name.value_or(""), items[i + 1], is_class(*pickle_, items[i + 1], "TensorStorageMetadata")};
    if (!name || (!entry.is_tensor && !is_class(*pickle_, entry.value, "BytesStorageMetadata"))) {
      ++unknown_;
      continue;
    }
    const auto [place, is_new] = known.emplace(*name, entries_.size());
    if (is_new)
      entries_.push_back(entry);
    else
      entries_[place->second] = entry;  // a dict keeps the place of the first and the value of the last
  }
  return {};
}

Result<void> Metadata::read_places(Index places, Charges& charges) {
  if (places == kNoValue) return {};
  const std::vector<Index> items = pickle_->items(places);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const auto name = text_of(*pickle_, attribute(*pickle_, items[i], "fqn"));
    const Index start = attribute(*pickle_, items[i], "offset");
    TRY_VOID(charges.charge(Cost::step, 3));
    if (!name || start == kNoValue) continue;
    Key key{*name, std::nullopt};
    if (pickle_->kind(start) != Kind::none) {
      auto sizes = pytorch::sizes_in(*pickle_, start, "offset");
      if (!sizes) continue;
      key.second = std::move(*sizes);
    }
    const uint64_t rank = key.second ? key.second->size() : 0;
    TRY_VOID(charges.charge(Cost::kept, kPlaceMemory + sizeof(uint64_t) * rank));
    places_.insert_or_assign(std::move(key), items[i + 1]);
  }
  return {};
}

Result<Shape> Metadata::shape_of(const Entry& tensor) const { return sizes_at(*pickle_, tensor.value, "size"); }

// The state of TensorProperties is a tuple: the type, the layout, requires_grad, the memory format, pin_memory.
Result<const pytorch::TorchType*> Metadata::type_of(const Entry& tensor) const {
  const Index properties = attribute(*pickle_, tensor.value, "properties");
  if (properties == kNoValue || pickle_->kind(properties) != Kind::call) return failure(Code::corrupt, "no properties");
  Index dtype = attribute(*pickle_, properties, "dtype");
  const Index state = pickle_->call(properties).state;
  if (state != kNoValue && pickle_->kind(state) == Kind::tuple)
    if (const std::vector<Index> items = pickle_->items(state, 1); !items.empty()) dtype = items[0];
  const auto* const type = dtype == kNoValue ? nullptr : pytorch::type_of_dtype(pickle_->global(dtype));
  if (type == nullptr) return failure(Code::unsupported, "its dtype is unknown");
  return type;
}

Result<std::vector<Box>> Metadata::chunks_of(const Entry& tensor, const Shape& shape, Charges& charges) const {
  const Index list = attribute(*pickle_, tensor.value, "chunks");
  if (list == kNoValue || pickle_->kind(list) != Kind::list) return failure(Code::corrupt, "no chunks");
  // Many tensors may have the same list.
  TRY_VOID(charges.charge(Cost::step, pickle_->item_count(list)));
  std::vector<Box> boxes;
  for (const Index chunk : pickle_->items(list)) {
    TRY_VOID(charges.charge(Cost::kept, sizeof(PlacedBox) + 2 * sizeof(uint64_t) * shape.size()));
    Box box;
    box.start = TRY(sizes_at(*pickle_, chunk, "offsets"));
    box.length = TRY(sizes_at(*pickle_, chunk, "sizes"));
    if (box.start.size() != shape.size() || box.length.size() != shape.size())
      return failure(Code::corrupt, "a chunk of another number of dimensions");
    for (size_t d = 0; d < shape.size(); ++d)
      if (box.start[d] > shape[d] || box.length[d] > shape[d] - box.start[d])
        return failure(Code::corrupt, fmt::format("a chunk of {} elements from {}, the dimension has {}", box.length[d],
                                                  box.start[d], shape[d]));
    boxes.push_back(std::move(box));
  }
  return boxes;
}

Result<Place> Metadata::place_of(const Entry& entry, const std::optional<Shape>& start) const {
  const auto found = places_.find(Key{entry.name, start});
  if (found == places_.end()) return failure(Code::corrupt, start ? "a chunk without a place" : "no place");
  const auto path = text_of(*pickle_, attribute(*pickle_, found->second, "relative_path"));
  const auto offset = number_at(*pickle_, found->second, "offset");
  const auto length = number_at(*pickle_, found->second, "length");
  if (!path || !offset || !length) return failure(Code::corrupt, "a place without path, offset or length");
  const Index transforms = attribute(*pickle_, found->second, "transform_descriptors");
  return Place{*path, *offset, *length, transforms != kNoValue && pickle_->item_count(transforms) > 0};
}

bool is_plain_name(std::string_view global) {
  constexpr auto kClasses =
      std::to_array<std::string_view>({"Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "TensorProperties",
                                       "ChunkStorageMetadata", "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING"});
  constexpr auto kOthers =
      std::to_array<std::string_view>({"torch.distributed.checkpoint.filesystem._StorageInfo",
                                       "torch.distributed._shard.checkpoint.filesystem._StorageInfo",
                                       "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
                                       "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING"});
  if (std::ranges::find(kOthers, global) != kOthers.end()) return true;
  return std::ranges::any_of(kModules, [&](std::string_view module) {
    return global.starts_with(module) && std::ranges::find(kClasses, global.substr(module.size())) != kClasses.end();
  });
}

bool is_only_memory_format(const Pickle& pickle, std::string_view global) {
  if (pickle::in_python_3(global) != "builtins.getattr") return false;
  return std::ranges::all_of(pickle.calls_of(global), [&](Index call) { return is_memory_format(pickle, call); });
}

}  // namespace weightfs::dcp
