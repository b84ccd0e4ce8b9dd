#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "formats/hdf5/btree.h"
#include "formats/hdf5/contents.h"

namespace weightfs::hdf5 {
namespace {

// A stored chunk takes 32 bytes of memory, and some more of the file with its entry in an index.
constexpr uint64_t kFreeChunks = 1 << 16;
constexpr uint64_t kMinBytesOfChunk = 8;

constexpr uint8_t kPlainChunks = 10, kFilteredChunks = 11;  // types of B-trees of version 2

uint64_t chunks_along(uint64_t dimension, uint64_t chunk) { return dimension / chunk + (dimension % chunk != 0); }

// Collects the chunks of a dataset.
class ChunkCollector {
 public:
  ChunkCollector(const Dataset& dataset, uint64_t most)
      : dataset_(dataset),
        grid_(grid_of(dataset.space.dimensions, dataset.layout.chunk)),
        bytes_(chunk_bytes(dataset).value_or(0)),
        most_(most) {
    order_arrays();
  }

  uint64_t bytes() const { return bytes_; }

  /// A chunk by its place along each dimension. One outside of the extent is left out.
  Result<void> add(const Shape& place, uint64_t address, uint64_t size, uint32_t mask) {
    uint64_t number = 0;
    for (size_t i = 0; i < grid_.size(); ++i) {
      if (place[i] >= grid_[i]) return {};
      number = number * grid_[i] + place[i];
    }
    if (address == kUndefined) return {};
    if (chunks_.size() == most_) return failure(Code::corrupt, fmt::format("more than {} stored chunks", most_));
    chunks_.push_back({number, address, size == 0 ? bytes_ : size, mask});
    return {};
  }

  /// A chunk by its index in an array, which counts those of the maximum extent; the unlimited dimension is outermost.
  Result<void> add_in_array(uint64_t index, uint64_t address, uint64_t size, uint32_t mask) {
    Shape place(grid_.size());
    for (size_t i = order_.size(); i-- > 1;) {
      const uint64_t along = max_grid_[order_[i]];
      if (along == 0) return failure(Code::corrupt, "a chunk of a dataset without room for one");
      place[order_[i]] = index % along;
      index /= along;
    }
    place[order_[0]] = index;
    return add(place, address, size, mask);
  }

  Result<std::vector<Chunk>> take() {
    std::ranges::sort(chunks_, {}, &Chunk::number);
    const auto same = std::ranges::adjacent_find(chunks_, {}, &Chunk::number);
    if (same != chunks_.end()) return failure(Code::corrupt, fmt::format("chunk {} is stored twice", same->number));
    TRY_VOID(check_overlaps());
    std::ranges::sort(chunks_, {}, &Chunk::number);
    return std::move(chunks_);
  }

 private:
  // Sorts by address. If chunks shared bytes, a small file could have any number of large ones.
  Result<void> check_overlaps() {
    std::ranges::sort(chunks_, {}, &Chunk::address);
    const auto overlap = [](const Chunk& a, const Chunk& b) { return a.size > b.address - a.address; };
    const auto first = std::ranges::adjacent_find(chunks_, overlap);
    if (first == chunks_.end()) return {};
    return failure(Code::corrupt, fmt::format("chunks {} and {} overlap", first->number, (first + 1)->number));
  }

  void order_arrays() {
    const Shape& most = dataset_.space.max_dimensions;
    order_.resize(most.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    const auto unlimited = std::ranges::find(most, kUndefined) - most.begin();
    if (static_cast<size_t>(unlimited) < most.size())
      std::rotate(order_.begin(), order_.begin() + unlimited, order_.begin() + unlimited + 1);
    max_grid_ = grid_of(most, dataset_.layout.chunk);
  }

  const Dataset& dataset_;
  Shape grid_, max_grid_;
  uint64_t bytes_;
  uint64_t most_;              // chunks
  std::vector<size_t> order_;  // the dimensions of an array, outermost first
  std::vector<Chunk> chunks_;
};

// The key of a B-tree of version 1: stored size, mask, and the offset of the chunk in elements.
Result<void> read_btree1(Metadata& metadata, const Dataset& dataset, ChunkCollector& chunks) {
  const Shape& chunk = dataset.layout.chunk;
  const uint64_t key_size = 8 + 8 * (chunk.size() + 1);
  const auto add = [&](std::string_view key, uint64_t address) -> Result<void> {
    Fields fields(key, metadata.sizes());
    const uint64_t size = TRY(fields.number(4));
    const auto mask = static_cast<uint32_t>(TRY(fields.number(4)));
    Shape place;
    for (const uint64_t along : chunk) {
      place.push_back(TRY(fields.number(8)));
      if (place.back() % along != 0)
        return failure(Code::corrupt, fmt::format("a chunk at {} where chunks are {} long", place.back(), along));
      place.back() /= along;
    }
    return chunks.add(place, address, size, mask);
  };
  return for_each_child(metadata, dataset.layout.address, TreeType::chunks, key_size, 0, add);
}

Result<void> read_btree2(Metadata& metadata, const Dataset& dataset, ChunkCollector& chunks) {
  const size_t rank = dataset.layout.chunk.size();
  const bool filtered = !dataset.filters.empty();
  const uint64_t plain = metadata.sizes().address + 8 * rank;
  const auto add = [&](std::string_view record) -> Result<void> {
    Fields fields(record, metadata.sizes());
    const uint64_t address = TRY(fields.address());
    uint64_t size = 0, mask = 0;
    if (filtered) {
      if (record.size() < plain + 5 || record.size() > plain + 12)
        return failure(Code::corrupt, fmt::format("a record of {} bytes for a chunk", record.size()));
      size = TRY(fields.number(record.size() - plain - 4));
      mask = TRY(fields.number(4));
    }
    Shape place;
    for (size_t i = 0; i < rank; ++i) place.push_back(TRY(fields.number(8)));
    return chunks.add(place, address, size, static_cast<uint32_t>(mask));
  };
  return for_each_record(metadata, dataset.layout.address, filtered ? kFilteredChunks : kPlainChunks, add);
}

Result<void> read_index(Metadata& metadata, const Dataset& dataset, ChunkCollector& chunks) {
  const Layout& layout = dataset.layout;
  const auto add = [&](uint64_t index, uint64_t address, uint64_t size, uint32_t mask) {
    return chunks.add_in_array(index, address, size, mask);
  };
  switch (layout.index) {
    case ChunkIndex::btree1:
      return read_btree1(metadata, dataset, chunks);
    case ChunkIndex::single:
    case ChunkIndex::implicit:
      return chunks.add_in_array(0, layout.address, layout.single_size, layout.single_mask);
    case ChunkIndex::fixed_array:
      return for_each_in_fixed_array(metadata, layout.address, add);
    case ChunkIndex::extensible_array:
      return for_each_in_extensible_array(metadata, layout.address, add);
    case ChunkIndex::btree2:
      return read_btree2(metadata, dataset, chunks);
  }
  return {};
}

}  // namespace

Shape grid_of(const Shape& dimensions, const Shape& chunk) {
  Shape grid;
  for (size_t i = 0; i < dimensions.size(); ++i) grid.push_back(chunks_along(dimensions[i], chunk[i]));
  return grid;
}

std::optional<uint64_t> chunk_bytes(const Dataset& dataset) {
  return elements_of(dataset.layout.chunk, dataset.type.size);
}

uint64_t row_of_chunks(const Dataset& dataset) {
  const Shape& dimensions = dataset.space.dimensions;
  uint64_t row = dataset.type.size * std::min(dimensions[0], dataset.layout.chunk[0]);
  for (size_t i = 1; i < dimensions.size(); ++i) row *= dimensions[i];
  return row;
}

Result<Chunks> Chunks::read(Metadata& metadata, const Origin& origin, const Dataset& dataset) {
  Chunks chunks;
  if (dataset.layout.address == kUndefined) return chunks;
  ChunkCollector collector(dataset, kFreeChunks + stored_bytes(origin) / kMinBytesOfChunk);
  TRY_VOID(read_index(metadata, dataset, collector));
  chunks.stored_ = TRY(collector.take());
  if (dataset.layout.index == ChunkIndex::implicit && !chunks.stored_.empty())
    chunks.first_of_implicit_ = chunks.stored_[0];
  return chunks;
}

uint32_t Chunks::skipped_by_all() const {
  uint32_t mask = stored_.empty() ? 0 : ~uint32_t{0};
  for (const Chunk& chunk : stored_) mask &= chunk.mask;
  return mask;
}

std::optional<Chunk> Chunks::find(uint64_t number) const {
  if (first_of_implicit_) {
    Chunk chunk = *first_of_implicit_;
    uint64_t before = 0;
    if (__builtin_mul_overflow(number, chunk.size, &before) ||
        __builtin_add_overflow(chunk.address, before, &chunk.address))
      chunk.address = kUndefined - 1;  // outside of every file
    return chunk;
  }
  const auto found = std::ranges::lower_bound(stored_, number, {}, &Chunk::number);
  return found == stored_.end() || found->number != number ? std::nullopt : std::optional(*found);
}

}  // namespace weightfs::hdf5
