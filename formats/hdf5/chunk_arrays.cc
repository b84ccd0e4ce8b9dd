// The arrays of chunks that newer files have for datasets of which at most one dimension is unlimited.
#include <fmt/core.h>

#include "formats/hdf5/contents.h"

namespace weightfs::hdf5 {
namespace {

// The maximum of the number of bits that a header may give for a count.
constexpr uint64_t kMaxBits = 40;

// Reads the elements of either array.
class ElementReader {
 public:
  ElementReader(Metadata& metadata, const ArrayElement& element) : metadata_(metadata), element_(element) {}

  /// Sets the size of an element and whether it has a size and a mask.
  Result<void> set(uint64_t client, uint64_t size) {
    const uint64_t address = metadata_.sizes().address;
    filtered_ = client == 1;
    size_ = size;
    if (client > 1 || size_ < address + (filtered_ ? 5 : 0) || size_ > address + (filtered_ ? 12 : 0))
      return failure(Code::corrupt, fmt::format("array elements of {} bytes", size_));
    return {};
  }

  uint64_t size() const { return size_; }

  /// The next `count` elements of `fields`; the first one has the index `first`.
  Result<void> elements(Fields& fields, uint64_t first, uint64_t count) const {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t address = TRY(fields.address());
      const uint64_t size = filtered_ ? TRY(fields.number(size_ - metadata_.sizes().address - 4)) : 0;
      const uint64_t mask = filtered_ ? TRY(fields.number(4)) : 0;
      if (address != kUndefined) TRY_VOID(element_(first + i, address, size, static_cast<uint32_t>(mask)));
    }
    return {};
  }

  /// Reads pages of elements from `address` on, those that `bitmap` marks as written; `total` elements in all.
  Result<void> pages(uint64_t address, std::string_view bitmap, uint64_t page, uint64_t first, uint64_t total,
                     Visited& visited) {
    const uint64_t page_bytes = page * size_ + kChecksum;
    for (uint64_t i = 0; i * page < total; ++i) {
      if ((static_cast<uint8_t>(bitmap[i / 8]) & 0x80U >> i % 8) == 0) continue;
      const uint64_t count = std::min(page, total - i * page);
      const std::string block = TRY(metadata_.block(address + i * page_bytes, count * size_ + kChecksum, visited));
      TRY_VOID(check_sum(block, "page of a chunk index"));
      Fields fields(block, metadata_.sizes());
      TRY_VOID(elements(fields, first + i * page, count));
    }
    return {};
  }

 private:
  Metadata& metadata_;
  const ArrayElement& element_;
  uint64_t size_ = 0;
  bool filtered_ = false;
};

uint64_t bitmap_bytes(uint64_t elements, uint64_t page) {
  const uint64_t pages = elements / page + (elements % page != 0);
  return pages / 8 + (pages % 8 != 0);
}

// Parameters of an extensible array, and what follows from them.
struct ExtensibleArray {
  uint64_t bits;          // of the largest index
  uint64_t in_index;      // elements in the index block
  uint64_t min_in_block;  // elements of the smallest data block
  uint64_t min_pointers;  // of a super block
  uint64_t page;          // elements of a page
  uint64_t header;        // its address

  uint64_t offset_size() const { return (bits + 7) / 8; }
  uint64_t blocks_of(uint64_t super) const { return uint64_t{1} << super / 2; }
  uint64_t elements_of_block(uint64_t super) const { return (uint64_t{1} << (super + 1) / 2) * min_in_block; }
};

bool is_power(uint64_t number) { return number != 0 && (number & (number - 1)) == 0; }

// Reads an extensible array: an index block, which has elements, data blocks and super blocks of data blocks.
class ExtensibleReader {
 public:
  ExtensibleReader(Metadata& metadata, const ArrayElement& element)
      : metadata_(metadata), elements_(metadata, element) {}

  Result<void> read(uint64_t address) {
    const Sizes sizes = metadata_.sizes();
    const std::string block =
        TRY(metadata_.block(address, 12 + 6 * sizes.length + sizes.address + kChecksum, visited_));
    Fields fields(block, sizes);
    TRY_VOID(fields.expect("EAHD", 0));
    TRY_VOID(check_sum(block, "extensible array"));
    const uint64_t client = TRY(fields.number(1));
    const uint64_t element_size = TRY(fields.number(1));
    TRY_VOID(elements_.set(client, element_size));
    array_.header = address;
    array_.bits = TRY(fields.number(1));
    array_.in_index = TRY(fields.number(1));
    array_.min_in_block = TRY(fields.number(1));
    array_.min_pointers = TRY(fields.number(1));
    const uint64_t page_bits = TRY(fields.number(1));
    if (array_.bits > kMaxBits || page_bits > kMaxBits || !is_power(array_.min_in_block) ||
        !is_power(array_.min_pointers) || array_.min_pointers < 2 || array_.bits < log2_of(array_.min_in_block))
      return failure(Code::corrupt, "an extensible array with impossible parameters");
    array_.page = uint64_t{1} << page_bits;
    TRY_VOID(fields.skip(6 * sizes.length));
    const uint64_t index = TRY(fields.address());
    return index == kUndefined ? Result<void>() : index_block(index);
  }

 private:
  Result<void> index_block(uint64_t address) {
    const uint64_t address_size = metadata_.sizes().address;
    const uint64_t supers = 1 + array_.bits - log2_of(array_.min_in_block);
    const uint64_t direct_supers = 2 * log2_of(array_.min_pointers);
    const uint64_t blocks = 2 * (array_.min_pointers - 1);
    const uint64_t super_addresses = supers > direct_supers ? supers - direct_supers : 0;
    const uint64_t size =
        6 + address_size + array_.in_index * elements_.size() + (blocks + super_addresses) * address_size + kChecksum;
    const std::string block = TRY(metadata_.block(address, size, visited_));
    TRY_VOID(check_sum(block, "index of an extensible array"));
    Fields fields(block, metadata_.sizes());
    TRY_VOID(fields.expect("EAIB", 0));
    TRY_VOID(fields.skip(1 + address_size));
    TRY_VOID(elements_.elements(fields, 0, array_.in_index));
    uint64_t first = array_.in_index;
    for (uint64_t super = 0; super < direct_supers && super < supers; ++super)
      for (uint64_t i = 0; i < array_.blocks_of(super); ++i, first += array_.elements_of_block(super)) {
        const uint64_t data = TRY(fields.address());
        TRY_VOID(data_block(data, first, array_.elements_of_block(super), std::nullopt));
      }
    for (uint64_t super = direct_supers; super < supers; ++super) {
      const uint64_t below = TRY(fields.address());
      TRY_VOID(super_block(below, super, first));
      first += array_.blocks_of(super) * array_.elements_of_block(super);
    }
    return {};
  }

  Result<void> super_block(uint64_t address, uint64_t super, uint64_t first) {
    if (address == kUndefined) return {};
    const uint64_t address_size = metadata_.sizes().address;
    const uint64_t blocks = array_.blocks_of(super);
    const uint64_t elements = array_.elements_of_block(super);
    const uint64_t bitmap = elements > array_.page ? bitmap_bytes(elements, array_.page) : 0;
    const uint64_t prefix = 6 + address_size + array_.offset_size();
    const uint64_t size = prefix + blocks * (bitmap + address_size) + kChecksum;
    const std::string block = TRY(metadata_.block(address, size, visited_));
    TRY_VOID(check_sum(block, "super block of an extensible array"));
    Fields fields(block, metadata_.sizes());
    TRY_VOID(fields.expect("EASB", 0));
    TRY_VOID(fields.skip(prefix - 5));
    const auto bitmaps = TRY(fields.text(blocks * bitmap));
    for (uint64_t i = 0; i < blocks; ++i, first += elements) {
      const auto own = bitmap == 0 ? std::nullopt : std::optional(bitmaps.substr(i * bitmap, bitmap));
      const uint64_t data = TRY(fields.address());
      TRY_VOID(data_block(data, first, elements, own));
    }
    return {};
  }

  // `bitmap`: of the pages, if the block has some.
  Result<void> data_block(uint64_t address, uint64_t first, uint64_t count, std::optional<std::string_view> bitmap) {
    if (address == kUndefined) return {};
    const uint64_t prefix = 6 + metadata_.sizes().address + array_.offset_size();
    const uint64_t size = prefix + (bitmap ? 0 : count * elements_.size()) + kChecksum;
    const std::string block = TRY(metadata_.block(address, size, visited_));
    TRY_VOID(check_sum(block, "data block of an extensible array"));
    Fields fields(block, metadata_.sizes());
    TRY_VOID(fields.expect("EADB", 0));
    TRY_VOID(fields.skip(prefix - 5));
    if (bitmap) return elements_.pages(address + size, *bitmap, array_.page, first, count, visited_);
    return elements_.elements(fields, first, count);
  }

  Metadata& metadata_;
  ElementReader elements_;
  ExtensibleArray array_{};
  Visited visited_;
};

}  // namespace

Result<void> for_each_in_fixed_array(Metadata& metadata, uint64_t address, const ArrayElement& element) {
  const Sizes sizes = metadata.sizes();
  ElementReader elements(metadata, element);
  Visited visited;
  const std::string header = TRY(metadata.block(address, 8 + sizes.length + sizes.address + kChecksum, visited));
  Fields fields(header, sizes);
  TRY_VOID(fields.expect("FAHD", 0));
  TRY_VOID(check_sum(header, "fixed array"));
  const uint64_t client = TRY(fields.number(1));
  const uint64_t element_size = TRY(fields.number(1));
  TRY_VOID(elements.set(client, element_size));
  const uint64_t page_bits = TRY(fields.number(1));
  const uint64_t count = TRY(fields.length());
  const uint64_t data = TRY(fields.address());
  if (data == kUndefined) return {};
  if (page_bits > kMaxBits || count > metadata.size())
    return failure(Code::corrupt, fmt::format("a fixed array of {} elements", count));
  const uint64_t page = uint64_t{1} << page_bits;
  const bool paged = count > page;
  const uint64_t prefix = 6 + sizes.address;
  const uint64_t size = prefix + (paged ? bitmap_bytes(count, page) : count * elements.size()) + kChecksum;
  const std::string block = TRY(metadata.block(data, size, visited));
  TRY_VOID(check_sum(block, "data block of a fixed array"));
  Fields in_block(block, sizes);
  TRY_VOID(in_block.expect("FADB", 0));
  TRY_VOID(in_block.skip(1 + sizes.address));
  if (!paged) return elements.elements(in_block, 0, count);
  return elements.pages(data + size, TRY(in_block.text(bitmap_bytes(count, page))), page, 0, count, visited);
}

Result<void> for_each_in_extensible_array(Metadata& metadata, uint64_t address, const ArrayElement& element) {
  return ExtensibleReader(metadata, element).read(address);
}

}  // namespace weightfs::hdf5
