#include "formats/hdf5/dataset.h"

#include <fmt/core.h>

namespace weightfs::hdf5 {
namespace {

// The maximum number of filters of a dataset (H5Z_MAX_NFILTERS), and of the parameters of one.
constexpr uint64_t kMaxFilters = 32;
constexpr uint64_t kMaxFilterValues = 256;

// A chunk's dimensions; the last one of the message is the size of an element.
Result<Shape> read_chunk(Fields& fields, uint64_t count, size_t bytes) {
  if (count < 2 || count > kMaxRank + 1) return failure(Code::corrupt, fmt::format("a chunk of rank {}", count));
  Shape chunk;
  for (uint64_t i = 0; i < count; ++i) {
    chunk.push_back(TRY(fields.number(bytes)));
    if (chunk.back() == 0) return failure(Code::corrupt, "a chunk without elements");
  }
  chunk.pop_back();
  return chunk;
}

Result<void> read_old_chunked(Fields& fields, Layout& layout) {
  const uint64_t count = TRY(fields.number(1));
  layout.address = TRY(fields.address());
  layout.chunk = TRY(read_chunk(fields, count, 4));
  return {};
}

Result<void> read_new_chunked(Fields& fields, Layout& layout) {
  constexpr uint64_t kEdgesUnfiltered = 1, kSingleFiltered = 2;
  constexpr std::array<uint64_t, 6> kParameters = {0, 0, 0, 1, 5, 6};  // bytes, by index
  const uint64_t flags = TRY(fields.number(1));
  layout.edges_unfiltered = (flags & kEdgesUnfiltered) != 0;
  const uint64_t count = TRY(fields.number(1));
  const uint64_t bytes = TRY(fields.number(1));
  if (bytes < 1 || bytes > 8) return failure(Code::corrupt, fmt::format("chunk dimensions of {} bytes", bytes));
  layout.chunk = TRY(read_chunk(fields, count, bytes));
  const uint64_t index = TRY(fields.number(1));
  if (index < 1 || index > 5) return failure(Code::unsupported, fmt::format("a chunk index of type {}", index));
  layout.index = static_cast<ChunkIndex>(index);
  if (layout.index == ChunkIndex::single && (flags & kSingleFiltered) != 0) {
    layout.single_size = TRY(fields.length());
    layout.single_mask = static_cast<uint32_t>(TRY(fields.number(4)));
  }
  // The parameters of the index are repeated in its header.
  TRY_VOID(fields.skip(kParameters.at(index)));
  layout.address = TRY(fields.address());
  return {};
}

// Versions 1 and 2 (HDF5 before 1.6.3): the number of dimensions is in front for each kind of storage.
Result<Layout> read_first_layout(const Message& message, Fields& fields) {
  const uint64_t rank = TRY(fields.number(1));
  const uint64_t storage = TRY(fields.number(1));
  if (storage > 2) return failure(Code::unsupported, fmt::format("a layout of class {}", storage));
  Layout layout;
  layout.storage = static_cast<Storage>(storage);
  TRY_VOID(fields.skip(5));
  if (layout.storage != Storage::compact) layout.address = TRY(fields.address());
  if (layout.storage == Storage::chunked) layout.chunk = TRY(read_chunk(fields, rank, 4));
  if (layout.storage != Storage::compact) return layout;
  TRY_VOID(fields.skip(4 * rank));  // the dimensions of the dataset, which its dataspace has, too
  layout.size = TRY(fields.number(4));
  layout.address = message.address + fields.position();
  TRY_VOID(fields.skip(layout.size));
  return layout;
}

Result<Layout> read_layout(const Message& message, Sizes sizes) {
  Fields fields(message.data, sizes);
  const uint64_t version = TRY(fields.number(1));
  if (version < 1 || version > 4)
    return failure(Code::unsupported, fmt::format("a layout of version {}, at most 4 is supported", version));
  if (version < 3) return read_first_layout(message, fields);
  Layout layout;
  const uint64_t storage = TRY(fields.number(1));
  if (storage > 3) return failure(Code::unsupported, fmt::format("a layout of class {}", storage));
  layout.storage = static_cast<Storage>(storage);
  if (layout.storage == Storage::compact) {
    layout.size = TRY(fields.number(2));
    layout.address = message.address + fields.position();
    TRY_VOID(fields.skip(layout.size));
  } else if (layout.storage == Storage::contiguous) {
    layout.address = TRY(fields.address());
  } else if (layout.storage == Storage::chunked) {
    TRY_VOID(version == 3 ? read_old_chunked(fields, layout) : read_new_chunked(fields, layout));
  }
  return layout;
}

Result<Filter> read_filter(Fields& fields, uint64_t version) {
  constexpr uint64_t kFirstNamed = 256;
  Filter filter{static_cast<uint16_t>(TRY(fields.number(2))), {}};
  const uint64_t name = version == 1 || filter.id >= kFirstNamed ? TRY(fields.number(2)) : 0;
  TRY_VOID(fields.number(2));  // flags
  const uint64_t values = TRY(fields.number(2));
  if (values > kMaxFilterValues)
    return failure(Code::unsupported, fmt::format("filter {} with {} parameters", filter.id, values));
  TRY_VOID(fields.skip(version == 1 ? (name + 7) / 8 * 8 : name));
  for (uint64_t i = 0; i < values; ++i) filter.values.push_back(static_cast<uint32_t>(TRY(fields.number(4))));
  if (version == 1 && values % 2 != 0) TRY_VOID(fields.skip(4));
  return filter;
}

Result<std::vector<Filter>> read_filters(const Message& message, Sizes sizes) {
  Fields fields(message.data, sizes);
  const uint64_t version = TRY(fields.number(1));
  const uint64_t count = TRY(fields.number(1));
  if (version < 1 || version > 2 || count > kMaxFilters)
    return failure(Code::unsupported, fmt::format("{} filters, in a list of version {}", count, version));
  if (version == 1) TRY_VOID(fields.skip(6));
  std::vector<Filter> filters;
  for (uint64_t i = 0; i < count; ++i) filters.push_back(TRY(read_filter(fields, version)));
  return filters;
}

// The bytes of the fill value; empty if there is none.
Result<std::string> read_fill(const Message& message, Sizes sizes) {
  Fields fields(message.data, sizes);
  const uint64_t version = TRY(fields.number(1));
  bool defined = true;
  if (version < 3) {
    TRY_VOID(fields.skip(2));
    defined = TRY(fields.number(1)) != 0 || version == 1;
  } else {
    defined = (TRY(fields.number(1)) & 0x20) != 0;
  }
  if (!defined || fields.left() < 4) return std::string();
  const uint64_t size = TRY(fields.number(4));
  if (size > fields.left()) return std::string();  // -1 in version 1: not defined
  return std::string(TRY(fields.text(size)));
}

Result<void> read_storage(Metadata& metadata, const Object& object, Dataset& dataset) {
  const Sizes sizes = metadata.sizes();
  dataset.layout = TRY(read_layout(*object.find(MessageType::layout), sizes));
  dataset.is_external = object.find(MessageType::external_files) != nullptr;
  if (const Message* const filters = object.find(MessageType::filters)) {
    const Message own = TRY(resolve_shared(metadata, *filters));
    dataset.filters = TRY(read_filters(own, sizes));
  }
  if (const Message* const fill = object.find(MessageType::fill_value)) {
    const Message own = TRY(resolve_shared(metadata, *fill));
    dataset.fill = TRY(read_fill(own, sizes));
  }
  return {};
}

}  // namespace

Result<Dataspace> read_dataspace(Fields& fields) {
  constexpr uint64_t kHasMax = 1, kNull = 2;
  const uint64_t version = TRY(fields.number(1));
  const uint64_t rank = TRY(fields.number(1));
  const uint64_t flags = TRY(fields.number(1));
  if (version < 1 || version > 2) return failure(Code::unsupported, fmt::format("a dataspace of version {}", version));
  if (rank > kMaxRank) return failure(Code::corrupt, fmt::format("rank {}, at most {}", rank, kMaxRank));
  Dataspace space;
  if (version == 1)
    TRY_VOID(fields.skip(5));
  else
    space.is_null = TRY(fields.number(1)) == kNull;
  const auto all_ones = fields.sizes().length == 8 ? kUndefined : (uint64_t{1} << 8 * fields.sizes().length) - 1;
  for (uint64_t i = 0; i < rank; ++i) space.dimensions.push_back(TRY(fields.length()));
  space.max_dimensions = space.dimensions;
  for (uint64_t i = 0; i < rank && (flags & kHasMax) != 0; ++i) {
    const uint64_t most = TRY(fields.length());
    space.max_dimensions[i] = most == all_ones ? kUndefined : most;
  }
  return space;
}

Result<Type> read_type_of(Metadata& metadata, const Message& message) {
  const Message own = TRY(resolve_shared(metadata, message));
  Fields fields(own.data, metadata.sizes());
  return read_type(fields);
}

Result<Dataset> read_dataset(Metadata& metadata, const Object& object) {
  Dataset dataset;
  dataset.address = object.address;
  const Message* const space = object.find(MessageType::dataspace);
  const Message* const type = object.find(MessageType::datatype);
  if (space == nullptr || type == nullptr) return failure(Code::corrupt, "a dataset without a dataspace or a datatype");
  const Message own = TRY(resolve_shared(metadata, *space));
  Fields fields(own.data, metadata.sizes());
  dataset.space = TRY(read_dataspace(fields));
  dataset.type = TRY(read_type_of(metadata, *type));
  TRY_VOID(read_storage(metadata, object, dataset));
  return dataset;
}

}  // namespace weightfs::hdf5
