#include "formats/hdf5/heap.h"

#include <fmt/core.h>

#include "formats/hdf5/btree.h"

namespace weightfs::hdf5 {
namespace {

constexpr uint8_t kHugeByKey = 1;  // the type of the B-tree of huge objects

// The maximum size of an object that is kept in memory.
constexpr uint64_t kMaxObject = 16 << 20;

}  // namespace

Result<LocalHeap> read_local_heap(Metadata& metadata, uint64_t address) {
  const std::string block = TRY(metadata.block(address, 8 + 2 * metadata.sizes().length + metadata.sizes().address));
  Fields fields(block, metadata.sizes());
  TRY_VOID(fields.expect("HEAP", 0));
  TRY_VOID(fields.skip(3));
  const uint64_t size = TRY(fields.length());
  TRY_VOID(fields.length());  // of the free list
  const uint64_t begin = TRY(fields.address());
  if (begin > metadata.size() || size > metadata.size() - begin)
    return failure(Code::corrupt, fmt::format("a local heap of {} bytes at {} of {}", size, begin, metadata.size()));
  return LocalHeap{begin, begin + size};
}

Result<FractalHeap> FractalHeap::open(Metadata& metadata, uint64_t address) {
  FractalHeap heap(metadata);
  TRY_VOID(heap.read_header(address).map_error([](const Error& error) {
    return Error{error.code, fmt::format("fractal heap: {}", error.message)};
  }));
  return heap;
}

Result<void> FractalHeap::read_header(uint64_t address) {
  const Sizes sizes = metadata_->sizes();
  const std::string block = TRY(metadata_->block(address, 26 + 12 * sizes.length + 3 * sizes.address, visited_));
  Fields fields(block, sizes);
  TRY_VOID(fields.expect("FRHP", 0));
  id_size_ = TRY(fields.number(2));
  if (TRY(fields.number(2)) != 0) return failure(Code::unsupported, "blocks with filters");
  TRY_VOID(check_sum(block, "header"));
  has_checksums_ = (TRY(fields.number(1)) & 2) != 0;
  const uint64_t max_object = TRY(fields.number(4));
  TRY_VOID(fields.length());  // the next ID of a huge object
  huge_tree_ = TRY(fields.address());
  TRY_VOID(fields.length());   // free space
  TRY_VOID(fields.address());  // of its manager
  TRY_VOID(fields.skip(8 * sizes.length));
  width_ = TRY(fields.number(2));
  start_size_ = TRY(fields.length());
  max_direct_ = TRY(fields.length());
  const uint64_t bits = TRY(fields.number(2));
  TRY_VOID(fields.number(2));  // the first number of rows
  root_ = TRY(fields.address());
  root_rows_ = TRY(fields.number(2));
  if (width_ == 0 || !std::has_single_bit(width_) || !std::has_single_bit(start_size_) ||
      !std::has_single_bit(max_direct_) || max_direct_ < start_size_ || bits > 64 || root_rows_ > 64)
    return failure(Code::corrupt,
                   fmt::format("a table {} wide of blocks of {} to {} bytes", width_, start_size_, max_direct_));
  offset_size_ = (bits + 7) / 8;
  length_size_ = std::min<uint64_t>((log2_of(max_direct_) + 7) / 8, bytes_for(max_object));
  return {};
}

Result<HeapObject> FractalHeap::object(std::string_view id) {
  if (id.size() < id_size_ || id.empty())
    return failure(Code::corrupt, fmt::format("a heap ID of {} bytes", id.size()));
  Fields fields(id.substr(0, id_size_), metadata_->sizes());
  const uint64_t first = TRY(fields.number(1));
  constexpr uint64_t kManaged = 0, kHuge = 1, kTiny = 2, kLongIds = 18;
  switch (first >> 4) {
    case kManaged: {
      const uint64_t offset = TRY(fields.number(offset_size_));
      return managed(offset, TRY(fields.number(length_size_)));
    }
    case kHuge:
      return huge(TRY(fields.text(fields.left())));
    case kTiny: {
      const uint64_t more = id_size_ >= kLongIds ? TRY(fields.number(1)) : 0;
      const uint64_t size = (id_size_ >= kLongIds ? (first & 15) << 8 | more : first & 15) + 1;
      const auto bytes = TRY(fields.text(size));
      return HeapObject{0, std::string(bytes)};
    }
    default:
      return failure(Code::corrupt, fmt::format("a heap ID of type {}", first >> 4));
  }
}

Result<HeapObject> FractalHeap::read_at(uint64_t address, uint64_t size) {
  if (size > kMaxObject) return failure(Code::unsupported, fmt::format("a heap object of {} bytes", size));
  auto bytes = TRY(metadata_->block(address, size));
  return HeapObject{address, std::move(bytes)};
}

Result<HeapObject> FractalHeap::huge(std::string_view key) {
  const Sizes sizes = metadata_->sizes();
  if (key.size() >= sizes.address + sizes.length) {
    Fields fields(key, sizes);
    const uint64_t address = TRY(fields.address());
    return read_at(address, TRY(fields.length()));
  }
  if (!huge_) {
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> all;
    const auto add = [&](std::string_view record) -> Result<void> {
      Fields fields(record, sizes);
      const uint64_t address = TRY(fields.address());
      const uint64_t size = TRY(fields.length());
      all.try_emplace(TRY(fields.length()), address, size);
      return {};
    };
    TRY_VOID(for_each_record(*metadata_, huge_tree_, kHugeByKey, add));
    huge_ = std::move(all);
  }
  const auto found = huge_->find(little_endian(key.substr(0, std::min<size_t>(key.size(), sizes.length))));
  if (found == huge_->end()) return failure(Code::corrupt, "a huge heap object that is not there");
  return read_at(found->second.first, found->second.second);
}

// The size of a block in this row of the doubling table.
uint64_t FractalHeap::row_size(uint64_t row) const {
  const uint64_t doubled = row < 2 ? 0 : row - 1;
  return log2_of(start_size_) + doubled > 62 ? uint64_t{1} << 62 : start_size_ << doubled;
}

uint64_t FractalHeap::direct_rows() const { return log2_of(max_direct_) - log2_of(start_size_) + 2; }

Result<HeapObject> FractalHeap::managed(uint64_t offset, uint64_t size) {
  const Block block = TRY(find_block(offset));
  const std::string& bytes = *TRY(direct(block));
  const uint64_t within = offset - block.offset;
  if (within > bytes.size() || size > bytes.size() - within)
    return failure(Code::corrupt, fmt::format("a heap object of {} bytes at {}", size, offset));
  return HeapObject{block.address + within, bytes.substr(within, size)};
}

Result<FractalHeap::Block> FractalHeap::find_block(uint64_t offset) {
  if (root_rows_ == 0) return Block{root_, 0, start_size_};
  Block block{root_, 0, 0};
  uint64_t rows = root_rows_;
  for (int depth = 0; depth < 64; ++depth) {
    bool is_direct = false;
    block = TRY(child(block, rows, offset, is_direct));
    if (is_direct) return block;
    const uint64_t first_row = start_size_ * width_;
    rows = block.size < first_row ? 0 : log2_of(block.size) - log2_of(first_row) + 1;
  }
  return failure(Code::corrupt, "a heap nested too deep");
}

// The block with `offset` below an indirect block of so many rows.
Result<FractalHeap::Block> FractalHeap::child(const Block& parent, uint64_t rows, uint64_t offset, bool& is_direct) {
  uint64_t row_begin = parent.offset;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t size = row_size(row);
    uint64_t whole = 0;
    if (__builtin_mul_overflow(size, width_, &whole)) break;
    if (offset - row_begin >= whole) {
      row_begin += whole;
      continue;
    }
    const uint64_t column = (offset - row_begin) / size;
    const std::string& table = *TRY(indirect(parent, rows));
    Fields fields(table, metadata_->sizes());
    TRY_VOID(fields.skip(5 + metadata_->sizes().address + offset_size_));
    TRY_VOID(fields.skip((row * width_ + column) * metadata_->sizes().address));
    const uint64_t address = TRY(fields.address());
    is_direct = row < direct_rows();
    return Block{address, row_begin + column * size, size};
  }
  return failure(Code::corrupt, fmt::format("a heap offset of {} that is in no block", offset));
}

Result<const std::string*> FractalHeap::direct(const Block& block) {
  const auto known = blocks_.find(block.address);
  if (known != blocks_.end()) return &known->second;
  std::string bytes = TRY(metadata_->block(block.address, block.size, visited_));
  Fields fields(bytes, metadata_->sizes());
  TRY_VOID(fields.expect("FHDB", 0));
  const uint64_t at = 5 + metadata_->sizes().address + offset_size_;
  if (has_checksums_ && bytes.size() >= at + 4) {
    // The checksum is of the block with zeros in its place.
    const auto stored = static_cast<uint32_t>(little_endian(std::string_view(bytes).substr(at, 4)));
    bytes.replace(at, 4, 4, '\0');
    if (lookup3(bytes) != stored) return failure(Code::corrupt, "a block of a fractal heap has a wrong checksum");
  }
  return &blocks_.emplace(block.address, std::move(bytes)).first->second;
}

Result<const std::string*> FractalHeap::indirect(const Block& block, uint64_t rows) {
  const auto known = blocks_.find(block.address);
  if (known != blocks_.end()) return &known->second;
  const uint64_t addresses = rows * width_ * metadata_->sizes().address;
  const uint64_t size = 5 + metadata_->sizes().address + offset_size_ + addresses + 4;
  std::string bytes = TRY(metadata_->block(block.address, size, visited_));
  Fields fields(bytes, metadata_->sizes());
  TRY_VOID(fields.expect("FHIB", 0));
  TRY_VOID(check_sum(bytes, "indirect block of a fractal heap"));
  return &blocks_.emplace(block.address, std::move(bytes)).first->second;
}

Result<HeapObject> GlobalHeap::object(uint64_t address, uint64_t index) {
  auto known = collections_.find(address);
  if (known == collections_.end()) known = collections_.emplace(address, TRY(read(address))).first;
  const auto found = known->second.find(index);
  if (found == known->second.end())
    return failure(Code::corrupt, fmt::format("no object {} in the global heap at {}", index, address));
  const auto [begin, size] = found->second;
  if (size > kMaxObject) return failure(Code::unsupported, fmt::format("a heap object of {} bytes", size));
  auto bytes = TRY(metadata_.block(begin, size));
  return HeapObject{begin, std::move(bytes)};
}

Result<GlobalHeap::Collection> GlobalHeap::read(uint64_t address) {
  const uint64_t prefix = 8 + metadata_.sizes().length;  // of the collection and of each object
  const std::string head = TRY(metadata_.block(address, prefix));
  Fields fields(head, metadata_.sizes());
  TRY_VOID(fields.expect("GCOL", 1));
  TRY_VOID(fields.skip(3));
  const uint64_t size = TRY(fields.length());
  TRY_VOID(visited_.enter(address, size, metadata_.size()));
  Collection objects;
  uint64_t at = prefix;
  while (size >= prefix && at <= size - prefix) {
    const std::string block = TRY(metadata_.block(address + at, prefix));
    Fields object(block, metadata_.sizes());
    const uint64_t index = TRY(object.number(2));
    TRY_VOID(object.skip(6));
    const uint64_t bytes = TRY(object.length());
    if (index == 0) break;  // free space
    if (bytes > size - at - prefix)
      return failure(Code::corrupt, fmt::format("an object of {} bytes in a global heap of {}", bytes, size));
    TRY_VOID(metadata_.charge(Cost::value));
    objects.try_emplace(index, address + at + prefix, bytes);
    at += prefix + (bytes + 7) / 8 * 8;
  }
  return objects;
}

}  // namespace weightfs::hdf5
