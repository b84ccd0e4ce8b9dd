#include "formats/pytorch/storage.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs::pytorch {
namespace {

// The maximum length of a key, which many tensors may share. Writers use numbers.
constexpr uint64_t kMaxKey = 1024;

Result<uint64_t> count_at(const Pickle& pickle, const std::vector<Index>& items, size_t place) {
  const auto count = place < items.size() ? pickle.integer(items[place]) : std::nullopt;
  if (!count || *count < 0) return failure(Code::corrupt, "an identifier of a storage without its size");
  return static_cast<uint64_t>(*count);
}

// A key is text; writers before torch 0.4 may have had numbers.
Result<std::string> key_of(const Pickle& pickle, Index value) {
  if (pickle.kind(value) == Kind::text && pickle.length(value) > kMaxKey)
    return failure(Code::unsupported, fmt::format("a key of a storage of {} bytes", pickle.length(value)));
  if (pickle.kind(value) == Kind::text) return std::string(pickle.text(value));
  if (pickle.kind(value) == Kind::integer) return std::to_string(*pickle.integer(value));
  return failure(Code::corrupt, "a key of a storage that is not a text");
}

Result<void> read_view(const Pickle& pickle, Index value, StorageId& id) {
  if (pickle.kind(value) != Kind::tuple) return {};
  const std::vector<Index> view = pickle.items(value, 3);
  id.is_view = true;
  id.offset = TRY(count_at(pickle, view, 1));
  id.view_elements = TRY(count_at(pickle, view, 2));
  return {};
}

}  // namespace

Result<StorageId> parse_storage_id(const Pickle& pickle, Index persistent) {
  const std::vector<Index> items = pickle.items(pickle.identifier(persistent), 6);
  if (items.size() < 5 || pickle.text(items[0]) != "storage")
    return failure(Code::corrupt, "a persistent identifier that is not one of a storage");
  StorageId id;
  const std::string_view type = pickle.global(items[1]);
  id.type = type_of_storage(type);
  if (id.type == nullptr && !is_untyped_storage(type))
    return failure(Code::unsupported, fmt::format("the class of storages {} is unknown", quoted(type)));
  id.key = TRY(key_of(pickle, items[2]));
  id.elements = TRY(count_at(pickle, items, 4));
  if (items.size() > 5) TRY_VOID(read_view(pickle, items[5], id));
  return id;
}

std::optional<uint64_t> storage_size(const TorchType* type, uint64_t elements) {
  const bool counts_bytes = type == nullptr || type->layout.block > 1;
  return counts_bytes ? elements : size_in_bytes(type->layout, Shape{elements});
}

Result<Slice> storage_bytes(const StorageId& id, const StorageBytes& bytes) {
  const auto size = storage_size(id.type, id.elements);
  const auto offset = storage_size(id.type, id.offset);
  const auto view_size = storage_size(id.type, id.view_elements);
  if (!size || !offset || !view_size) return failure(Code::corrupt, "the size of its storage overflows 64 bits");
  const Slice all = TRY(bytes.find(id.key));
  const uint64_t there = std::min(*size, all.size());
  if (!id.is_view) return slice(all.whole(), all.offset(), there);
  if (*offset > there || *view_size > there - *offset) return failure(Code::corrupt, "a view outside of its storage");
  return slice(all.whole(), all.offset() + *offset, *view_size);
}

}  // namespace weightfs::pytorch
