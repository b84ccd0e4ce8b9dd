#include "formats/hdf5/contents.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/hdf5/filters.h"

namespace weightfs::hdf5 {
namespace {

// A dataset may be larger than this only if it is at most kMaxExpansion times as large as the file. Zeros shrink to a
// thousandth; Keras refuses more than a hundred times.
constexpr uint64_t kMaxFreeSize = 1 << 30;
constexpr uint64_t kMaxExpansion = 100;

// A chunk is decoded in memory.
constexpr uint64_t kMaxFreeChunk = 16 << 20;
constexpr uint64_t kMaxChunkExpansion = 2;
constexpr uint64_t kMaxChunk = 1 << 30;

// Each chunk takes time, also one that is not stored. A stored one takes more than a byte.
constexpr uint64_t kMaxFreeChunks = 1 << 20;

// An element repeated.
class FillSource final : public Source {
 public:
  FillSource(std::string element, uint64_t size) : element_(std::move(element)), size_(size) {}
  uint64_t size() const override { return size_; }
  uint64_t occupied() const override { return 0; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - std::min(offset, size_)));
    fill_with(element_, offset, out.first(count));
    return count;
  }

 private:
  std::string element_;
  uint64_t size_;
};

Result<Slice> filled(const Origin& origin, const Dataset& dataset, uint64_t size) {
  TRY_VOID(check_expansion(*origin.file, size));
  std::string element = dataset.fill;
  if (element.size() != dataset.type.size) element.clear();
  return slice(std::make_shared<FillSource>(std::move(element), size), 0, size);
}

Result<Slice> range_of(const Origin& origin, const Dataset& dataset, uint64_t size) {
  const Layout& layout = dataset.layout;
  if (layout.storage == Storage::compact && layout.size < size)
    return failure(Code::corrupt, fmt::format("{} bytes are stored, {} needed", layout.size, size));
  if (size == 0) return slice(origin.file->bytes, 0, 0);
  if (layout.address == kUndefined) return filled(origin, dataset, size);
  uint64_t offset = 0;
  if (__builtin_add_overflow(origin.file->base, layout.address, &offset))
    return failure(Code::corrupt, fmt::format("bytes at address {}", layout.address));
  return slice(origin.file->bytes, offset, size);
}

Result<void> check_memory(const Origin& origin, const Dataset& dataset, uint64_t chunk) {
  const uint64_t most = std::min(kMaxChunk, kMaxFreeChunk + kMaxChunkExpansion * stored_bytes(origin));
  if (chunk > most)
    return failure(Code::unsupported, fmt::format("chunks of {} bytes, at most {} in this file", chunk, most));
  const uint64_t row = row_of_chunks(dataset);
  if (row <= origin.budget->memory_limit()) return {};
  return failure(Code::unsupported, fmt::format("a row of chunks of {} bytes, at most {} for this container", row,
                                                origin.budget->memory_limit()));
}

Result<void> check_chunks(const Origin& origin, const Dataset& dataset) {
  const File& file = *origin.file;
  if (dataset.layout.chunk.size() != dataset.space.dimensions.size())
    return failure(Code::corrupt, fmt::format("chunks of rank {}", dataset.layout.chunk.size()));
  const auto bytes = chunk_bytes(dataset);
  const Shape grid = grid_of(dataset.space.dimensions, dataset.layout.chunk);
  const auto chunks = elements_of(grid);
  const auto all = bytes ? elements_of(grid, *bytes) : std::nullopt;
  if (!chunks || !all) return failure(Code::corrupt, "chunks of more than 2^64 bytes");
  if (*chunks > kMaxFreeChunks + file.bytes->size())
    return failure(Code::unsupported,
                   fmt::format("{} chunks, at most {} in this file", *chunks, kMaxFreeChunks + file.bytes->size()));
  TRY_VOID(check_expansion(file, *all));
  return check_memory(origin, dataset, *bytes);
}

// A filter that is not supported may be skipped by every chunk, as one is that does not make them smaller.
Result<void> check_filters(const Origin& origin, const Dataset& dataset) {
  if (!unsupported_filter(dataset)) return {};
  Metadata metadata(*origin.file, origin.budget.get());
  const Chunks chunks = TRY(Chunks::read(metadata, origin, dataset));
  if (auto problem = unsupported_filter(dataset, chunks.skipped_by_all())) return failure(*problem);
  return {};
}

Result<Slice> decoded(const Origin& origin, const Dataset& dataset, uint64_t size) {
  TRY_VOID(check_chunks(origin, dataset));
  TRY_VOID(check_filters(origin, dataset));
  if (size == 0) return slice(origin.file->bytes, 0, 0);
  if (dataset.layout.address == kUndefined) return filled(origin, dataset, size);
  const auto kept = std::make_shared<const Dataset>(dataset);
  const auto make = [origin, kept, size]() -> Result<SourcePtr> {
    const std::string identity = origin.file->bytes->identity();
    BlobProducer producer{.name = fmt::format("dataset at {}", kept->address), .size = size, .depth = origin.depth};
    if (!identity.empty())
      producer.key = fmt::format("{} hdf5 dataset {}+{}", identity, origin.file->base, kept->address);
    producer.costly_start = size / 4 <= std::max(row_of_chunks(*kept), *chunk_bytes(*kept));
    producer.start = [origin, kept] { return chunk_stream(origin, kept); };
    return origin.blobs->blob(std::move(producer));
  };
  return slice(lazy(size, Later<SourcePtr>(make)), 0, size);
}

}  // namespace

Result<void> check_expansion(const File& file, uint64_t size) {
  if (size <= kMaxFreeSize || size / kMaxExpansion <= file.bytes->size()) return {};
  return failure(Code::unsupported,
                 fmt::format("{} bytes to be made from a file of {}; over {} they may be {} times as many", size,
                             file.bytes->size(), kMaxFreeSize, kMaxExpansion));
}

void fill_with(std::string_view element, uint64_t offset, std::span<std::byte> out) {
  if (element.empty()) {
    std::ranges::fill(out, std::byte{0});
    return;
  }
  size_t at = static_cast<size_t>(offset % element.size());
  for (std::byte& byte : out) {
    byte = static_cast<std::byte>(element[at]);
    if (++at == element.size()) at = 0;
  }
}

uint64_t stored_bytes(const Origin& origin) {
  return std::min(origin.file->bytes->size(), origin.budget->container_bytes());
}

Result<Slice> contents_of(const Origin& origin, const Dataset& dataset, uint64_t size) {
  if (dataset.is_external) return failure(Code::unsupported, "its bytes are in other files, which are not opened");
  switch (dataset.layout.storage) {
    case Storage::compact:
    case Storage::contiguous:
      return range_of(origin, dataset, size);
    case Storage::chunked:
      return decoded(origin, dataset, size);
    case Storage::virtual_:
      break;
  }
  return failure(Code::unsupported, "a virtual dataset, whose sources are not opened");
}

}  // namespace weightfs::hdf5
