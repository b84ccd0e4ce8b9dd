// Builds HDF5 files for tests, right or wrong, block by block: the layout of h5py's default (superblock 0) and of its
// libver="latest" (superblock 3).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/hdf5/fields.h"
#include "tests/support/compressed.h"

namespace weightfs::test {

/// The checksum of a metadata block, as it is stored.
inline std::string summed(std::string block) {
  const uint32_t sum = hdf5::lookup3(block);
  return std::move(block) + le(sum, 4);
}

inline std::string aligned(std::string bytes, size_t to = 8) {
  bytes.resize((bytes.size() + to - 1) / to * to);
  return bytes;
}

/// A zlib stream of these bytes, in stored blocks.
inline std::string zlib_stored(std::string_view bytes) {
  uint32_t a = 1, b = 0;
  for (const char c : bytes) b = (b + (a = (a + static_cast<uint8_t>(c)) % 65521)) % 65521;
  const std::string sum = le(b << 16 | a, 4);
  return "\x78\x01" + deflate_stored(bytes) + std::string(sum.rbegin(), sum.rend());
}

/// The bytes of elements, the first bytes of all before the second ones.
inline std::string shuffled(std::string_view bytes, size_t element) {
  std::string out;
  for (size_t i = 0; i < element; ++i)
    for (size_t at = i; at < bytes.size(); at += element) out += bytes[at];
  return out;
}

/// Datatype messages.
struct Hdf5Type {
  static std::string head(int type_class, uint32_t flags, uint32_t size, int version = 1) {
    return le(static_cast<uint64_t>(type_class | version << 4), 1) + le(flags, 3) + le(size, 4);
  }
  static std::string integer(uint32_t size, bool has_sign = true, bool big_endian = false) {
    return head(0, (has_sign ? 8U : 0U) | (big_endian ? 1U : 0U), size) + le(0, 2) + le(8 * size, 2);
  }
  static std::string floating(uint32_t size, int exponent, int mantissa, uint32_t bias, bool big_endian = false) {
    const uint32_t bits = 8 * size;
    return head(1, 0x20U | (bits - 1) << 8 | (big_endian ? 1U : 0U), size) + le(0, 2) + le(bits, 2) +
           le(static_cast<uint64_t>(mantissa), 1) + le(static_cast<uint64_t>(exponent), 1) + le(0, 1) +
           le(static_cast<uint64_t>(mantissa), 1) + le(bias, 4);
  }
  static std::string f16() { return floating(2, 5, 10, 15); }
  static std::string f32(bool big_endian = false) { return floating(4, 8, 23, 127, big_endian); }
  static std::string f64(bool big_endian = false) { return floating(8, 11, 52, 1023, big_endian); }
  static std::string text(uint32_t size, uint32_t padding = 0) { return head(3, padding, size); }
  static std::string opaque(uint32_t size) { return head(5, 0, size); }
  static std::string reference() { return head(7, 0, 8); }
  static std::string bits(uint32_t size, bool big_endian = false, uint32_t precision = 0) {
    return head(4, big_endian ? 1 : 0, size) + le(0, 2) + le(precision == 0 ? 8 * size : precision, 2);
  }
  static std::string variable(const std::string& base) { return head(9, 0, 16) + base; }
  static std::string variable_text() { return head(9, 1, 16) + text(1); }
  static std::string array(const std::string& base, uint32_t base_size, uint32_t count) {
    return array(base, base_size, std::vector<uint32_t>{count});
  }
  static std::string array(const std::string& base, uint32_t base_size, const std::vector<uint32_t>& dimensions) {
    std::string shape;
    uint32_t size = base_size;
    for (const uint32_t dimension : dimensions) {
      size *= dimension;
      shape += le(dimension, 4);
    }
    return head(10, 0, size, 3) + le(dimensions.size(), 1) + shape + base;
  }
  /// Members one after the other, each with the given size.
  static std::string compound(const std::vector<std::pair<std::string, std::string>>& members, uint32_t member_size) {
    const auto count = static_cast<uint32_t>(members.size());
    std::string out = head(6, count, count * member_size, 3);
    uint64_t offset = 0;
    for (const auto& [name, type] : members) {
      out += name + '\0' + le(offset, 1) + type;
      offset += member_size;
    }
    return out;
  }
  static std::string enumeration(const std::vector<std::string>& names) {
    std::string out = head(8, static_cast<uint32_t>(names.size()), 1, 3) + integer(1);
    for (const std::string& name : names) out += name + '\0';
    for (size_t i = 0; i < names.size(); ++i) out += static_cast<char>(i);
    return out;
  }
};

/// A message of an object header.
struct Hdf5Message {
  uint16_t type;
  std::string data;
  uint8_t flags = 0;
};
using Hdf5Messages = std::vector<Hdf5Message>;

/// A stored chunk: its address and size, and its offset in the dataset.
struct Hdf5Chunk {
  uint64_t address;
  uint64_t size;
  std::vector<uint64_t> offset;
  uint32_t mask = 0;
};

inline constexpr uint64_t kNoAddress = ~uint64_t{0};

class Hdf5Builder {
 public:
  using Dimensions = std::vector<uint64_t>;
  using Links = std::vector<std::pair<std::string, uint64_t>>;

  /// `user_block`: bytes before the superblock.
  explicit Hdf5Builder(int superblock = 0, size_t user_block = 0)
      : superblock_(superblock), user_block_(user_block), image_(superblock < 2 ? 96 : 48, '\0') {}

  bool is_new() const { return superblock_ >= 2; }

  /// Appends a block and returns its address.
  uint64_t put(std::string_view block) {
    image_ = aligned(std::move(image_));
    const uint64_t address = image_.size();
    image_ += block;
    return address;
  }

  /// The address of the next block.
  uint64_t next() const { return aligned(image_).size(); }

  // Messages.
  static Hdf5Message dataspace(const Dimensions& dimensions, const Dimensions& most = {}) {
    std::string data = le(1, 1) + le(dimensions.size(), 1) + le(most.empty() ? 0 : 1, 1) + std::string(5, '\0');
    for (const uint64_t dimension : dimensions) data += le(dimension, 8);
    for (const uint64_t dimension : most) data += le(dimension, 8);
    return {1, data};
  }
  static Hdf5Message datatype(std::string type) { return {3, std::move(type)}; }
  static Hdf5Message fill(const std::string& element) {
    return {5, std::string("\2\2\0\1", 4) + le(element.size(), 4) + element};
  }
  static Hdf5Message contiguous_at(uint64_t address, uint64_t size) {
    return {8, std::string("\3\1") + le(address, 8) + le(size, 8)};
  }
  Hdf5Message contiguous(std::string_view bytes) { return contiguous_at(put(bytes), bytes.size()); }
  static Hdf5Message compact(const std::string& bytes) {
    return {8, std::string("\3\0", 2) + le(bytes.size(), 2) + bytes};
  }
  /// Chunks that the B-tree at `tree` has; `element`: bytes of an element.
  static Hdf5Message chunked(uint64_t tree, const Dimensions& chunk, uint32_t element) {
    std::string data = std::string("\3\2") + le(chunk.size() + 1, 1) + le(tree, 8);
    for (const uint64_t along : chunk) data += le(along, 4);
    return {8, data + le(element, 4)};
  }
  /// A layout of version 1 or 2; `place`: the address, unless the bytes are behind the dimensions.
  static Hdf5Message first_layout(uint64_t version, uint64_t storage, const std::string& place,
                                  const std::vector<uint32_t>& dimensions, const std::string& behind = "") {
    std::string data = le(version, 1) + le(dimensions.size(), 1) + le(storage, 1) + std::string(5, '\0') + place;
    for (const uint32_t along : dimensions) data += le(along, 4);
    return {8, data + behind};
  }
  /// A layout of version 4; `index`: the type of the index with its parameters.
  static Hdf5Message chunked_by(const std::string& index, uint64_t address, const Dimensions& chunk, uint32_t element,
                                char flags = 0) {
    std::string data = std::string("\4\2") + flags + le(chunk.size() + 1, 1) + le(4, 1);
    for (const uint64_t along : chunk) data += le(along, 4);
    return {8, data + le(element, 4) + index + le(address, 8)};
  }
  static Hdf5Message filters(const std::vector<std::pair<uint16_t, std::vector<uint32_t>>>& all) {
    std::string data = le(1, 1) + le(all.size(), 1) + std::string(6, '\0');
    for (const auto& [id, values] : all) {
      data += le(id, 2) + le(0, 2) + le(0, 2) + le(values.size(), 2);
      for (const uint32_t value : values) data += le(value, 4);
      if (values.size() % 2 != 0) data += le(0, 4);
    }
    return {11, data};
  }
  static Hdf5Message attribute(const std::string& name, const std::string& type, const Dimensions& dimensions,
                               const std::string& bytes) {
    const std::string space = dataspace(dimensions).data;
    return {12, std::string("\1\0", 2) + le(name.size() + 1, 2) + le(type.size(), 2) + le(space.size(), 2) +
                    aligned(name + '\0') + aligned(type) + aligned(space) + bytes};
  }
  static Hdf5Message text_attribute(const std::string& name, const std::string& text) {
    return attribute(name, Hdf5Type::text(static_cast<uint32_t>(text.size())), {}, text);
  }
  static Hdf5Message continuation(uint64_t address, uint64_t size) { return {16, le(address, 8) + le(size, 8)}; }
  static Hdf5Message hard_link(const std::string& name, uint64_t address) {
    return {6, std::string("\1\0", 2) + le(name.size(), 1) + name + le(address, 8)};
  }
  static Hdf5Message soft_link(const std::string& name, const std::string& target) {
    return {6, std::string("\1\x08\1", 3) + le(name.size(), 1) + name + le(target.size(), 2) + target};
  }
  static Hdf5Message external_link(const std::string& name, const std::string& file, const std::string& path) {
    const std::string target = '\0' + file + '\0' + path + '\0';
    return {6, std::string("\1\x08\x40", 3) + le(name.size(), 1) + name + le(target.size(), 2) + target};
  }

  // Structures; each method returns the address.

  /// An object header.
  uint64_t object(const Hdf5Messages& messages) { return put(is_new() ? new_header(messages) : old_header(messages)); }

  uint64_t dataset(const std::string& type, const Dimensions& dimensions, Hdf5Message layout, Hdf5Messages more = {}) {
    more.insert(more.begin(), {dataspace(dimensions), datatype(type), std::move(layout)});
    return object(more);
  }

  /// A group; links are sorted by name.
  uint64_t group(const Links& links, Hdf5Messages more = {}) {
    if (is_new()) {
      more.push_back({10, std::string(2, '\0')});
      for (const auto& [name, address] : links) more.push_back(hard_link(name, address));
    } else {
      more.push_back(symbol_table(links));
    }
    return object(more);
  }

  /// The B-tree, the symbol nodes and the heap of an old group.
  Hdf5Message symbol_table(const Links& links) {
    constexpr size_t kEntries = 8;
    std::string names(8, '\0');
    std::vector<uint64_t> nodes, keys{0};
    for (size_t at = 0; at < links.size(); at += kEntries) {
      const size_t count = std::min(kEntries, links.size() - at);
      std::string node = "SNOD" + le(1, 2) + le(count, 2);
      for (size_t i = at; i < at + count; ++i) {
        keys.back() = names.size();
        node += le(names.size(), 8) + le(links[i].second, 8) + std::string(24, '\0');
        names += aligned(links[i].first + '\0');
      }
      nodes.push_back(put(node));
      keys.push_back(keys.back());
    }
    const uint64_t texts = put(names);
    const uint64_t heap = put("HEAP" + le(0, 4) + le(names.size(), 8) + le(kNoAddress, 8) + le(texts, 8));
    return {17, le(put(group_node(nodes, keys)), 8) + le(heap, 8)};
  }
  static std::string group_node(const std::vector<uint64_t>& nodes, const std::vector<uint64_t>& keys, int level = 0) {
    std::string tree = "TREE" + le(0, 1) + le(static_cast<uint64_t>(level), 1) + le(nodes.size(), 2) +
                       le(kNoAddress, 8) + le(kNoAddress, 8) + le(0, 8);
    for (size_t i = 0; i < nodes.size(); ++i) tree += le(nodes[i], 8) + le(keys[i + 1], 8);
    return tree;
  }

  /// A B-tree node of chunks.
  uint64_t chunk_tree(const std::vector<Hdf5Chunk>& chunks, size_t rank, int level = 0) {
    std::string tree = "TREE" + le(1, 1) + le(static_cast<uint64_t>(level), 1) + le(chunks.size(), 2) +
                       le(kNoAddress, 8) + le(kNoAddress, 8);
    for (const Hdf5Chunk& chunk : chunks) {
      tree += le(chunk.size, 4) + le(chunk.mask, 4);
      for (const uint64_t offset : chunk.offset) tree += le(offset, 8);
      tree += le(0, 8) + le(chunk.address, 8);
    }
    return put(tree + std::string(8 + 8 * (rank + 1), '\0'));
  }

  /// A fixed array with elements of `element_size` bytes; with `page_bits` small enough, in pages.
  uint64_t fixed_array(const std::vector<std::string>& elements, bool filtered, int page_bits = 10) {
    const size_t page = size_t{1} << page_bits;
    const std::string client(1, filtered ? '\1' : '\0');
    const uint64_t header = put(std::string(28, '\0'));
    std::string block = "FADB" + le(0, 1) + client + le(header, 8);
    if (elements.size() > page) {
      block = summed(block + std::string(((elements.size() + page - 1) / page + 7) / 8, '\xFF'));
      for (size_t at = 0; at < elements.size(); at += page) block += summed(joined(elements, at, at + page));
    } else {
      block = summed(block + joined(elements, 0, elements.size()));
    }
    const uint64_t data = put(block);
    patch(header, summed("FAHD" + le(0, 1) + client + le(elements.at(0).size(), 1) +
                         le(static_cast<uint64_t>(page_bits), 1) + le(elements.size(), 8) + le(data, 8)));
    return header;
  }

  /// An extensible array: 2 elements in the index block, data blocks of 2 and more, super blocks of at least 2.
  uint64_t extensible_array(const std::vector<std::string>& elements, int page_bits) {
    constexpr uint64_t kBits = 8, kIn = 2, kSmallest = 2, kPointers = 2;
    const uint64_t header = put(std::string(72, '\0'));
    size_t at = kIn;
    const auto block_start = [&](const char* name) { return name + le(0, 2) + le(header, 8); };
    // One data block from `at` on.
    const auto data_block = [&](size_t count, bool paged) {
      const size_t page = size_t{1} << page_bits;
      std::string block = block_start("EADB") + le(at, 1);
      if (paged) block = summed(block);
      for (size_t i = 0; i < count; i += page) {
        std::string part;
        for (size_t j = i; j < std::min(i + (paged ? page : count), count); ++j)
          part += at + j < elements.size() ? elements[at + j] : le(kNoAddress, 8);
        block += paged ? summed(part) : part;
        if (!paged) break;
      }
      at += count;
      return put(paged ? block : summed(block));
    };
    std::string index = block_start("EAIB") + joined(elements, 0, kIn);
    index += le(data_block(kSmallest, false), 8);
    index += le(data_block(2 * kSmallest, false), 8);
    for (uint64_t super = 2; super < kBits; ++super) {
      const uint64_t blocks = uint64_t{1} << super / 2, count = (uint64_t{1} << (super + 1) / 2) * kSmallest;
      const bool paged = count > uint64_t{1} << page_bits;
      if (at >= elements.size()) {
        index += le(kNoAddress, 8);
        continue;
      }
      std::string block = block_start("EASB") + le(at, 1);
      if (paged) block += std::string(blocks * ((count >> page_bits) / 8 + ((count >> page_bits) % 8 != 0)), '\xFF');
      for (uint64_t i = 0; i < blocks; ++i)
        block += le(at < elements.size() ? data_block(count, paged) : kNoAddress, 8);
      index += le(put(summed(block)), 8);
    }
    const uint64_t index_block = put(summed(index));
    patch(header,
          summed("EAHD" + le(0, 2) + le(8, 1) + le(kBits, 1) + le(kIn, 1) + le(kSmallest, 1) + le(kPointers, 1) +
                 le(static_cast<uint64_t>(page_bits), 1) + std::string(48, '\0') + le(index_block, 8)));
    return header;
  }

  /// A B-tree of version 2 with one leaf.
  uint64_t record_tree(uint8_t type, const std::vector<std::string>& records) {
    const std::string node = "BTLF" + le(0, 1) + le(type, 1) + joined(records, 0, records.size());
    const uint64_t leaf = put(aligned(summed(node), 512));
    return put(summed("BTHD" + le(0, 1) + le(type, 1) + le(512, 4) + le(records.at(0).size(), 2) + le(0, 2) +
                      le(100, 1) + le(40, 1) + le(leaf, 8) + le(records.size(), 2) + le(records.size(), 8)));
  }

  /// A fractal heap of one direct block; the objects' IDs of `id_size` bytes go to `ids`.
  uint64_t fractal_heap(const std::vector<std::string>& objects, size_t id_size, std::vector<std::string>& ids) {
    constexpr uint64_t kPrefix = 5 + 8 + 4 + 4;  // with offsets of 32 bits and a checksum
    const uint64_t header = put(std::string(146, '\0'));
    std::string data;
    for (const std::string& object : objects) {
      std::string id = le(0, 1) + le(kPrefix + data.size(), 4) + le(object.size(), 2);
      id.resize(id_size);
      ids.push_back(id);
      data += object;
    }
    std::string block = "FHDB" + le(0, 1) + le(header, 8) + le(0, 4) + le(0, 4) + data;
    block.resize(512);
    block.replace(17, 4, le(hdf5::lookup3(block), 4));
    const uint64_t root = put(block);
    patch(header, summed("FRHP" + le(0, 1) + le(id_size, 2) + le(0, 2) + le(2, 1) + le(4096, 4) + le(0, 8) +
                         le(kNoAddress, 8) + le(0, 8) + le(kNoAddress, 8) + std::string(64, '\0') + le(4, 2) +
                         le(512, 8) + le(65536, 8) + le(32, 2) + le(1, 2) + le(root, 8) + le(0, 2)));
    return header;
  }

  /// A group whose links are in a fractal heap.
  uint64_t dense_group(const Links& links) {
    std::vector<std::string> objects, ids, records;
    for (const auto& [name, address] : links) objects.push_back(hard_link(name, address).data);
    const uint64_t heap = fractal_heap(objects, 7, ids);
    for (const std::string& id : ids) records.push_back(le(0, 4) + id);
    const uint64_t tree = record_tree(5, records);
    return object({{2, std::string(2, '\0') + le(heap, 8) + le(tree, 8)}});
  }

  /// A global heap collection with these objects, numbered from 1.
  uint64_t global_heap(const std::vector<std::string>& objects) {
    std::string data;
    for (size_t i = 0; i < objects.size(); ++i)
      data += le(i + 1, 2) + le(1, 2) + le(0, 4) + le(objects[i].size(), 8) + aligned(objects[i]);
    return put("GCOL" + le(1, 4) + le(16 + data.size(), 8) + data);
  }
  /// An element of variable length.
  static std::string variable(uint64_t size, uint64_t heap, uint32_t index) {
    return le(size, 4) + le(heap, 8) + le(index, 4);
  }

  /// Replaces bytes at `address`.
  void patch(uint64_t address, std::string_view bytes) { image_.replace(address, bytes.size(), bytes); }

  /// The file with this root group.
  std::string build(uint64_t root) const {
    std::string file = image_;
    const std::string head = is_new() ? new_superblock(root) : old_superblock(root);
    file.replace(0, head.size(), head);
    return std::string(user_block_, 'u') + file;
  }

 private:
  static constexpr std::string_view kMagic = "\x89HDF\r\n\x1A\n";

  std::string old_superblock(uint64_t root) const {
    return std::string(kMagic) + std::string(5, '\0') + std::string("\x08\x08\0", 3) + le(4, 2) + le(16, 2) + le(0, 4) +
           le(user_block_, 8) + le(kNoAddress, 8) + le(user_block_ + image_.size(), 8) + le(kNoAddress, 8) + le(0, 8) +
           le(root, 8) + std::string(24, '\0');
  }
  std::string new_superblock(uint64_t root) const {
    return summed(std::string(kMagic) + le(static_cast<uint64_t>(superblock_), 1) + std::string("\x08\x08\0", 3) +
                  le(user_block_, 8) + le(kNoAddress, 8) + le(user_block_ + image_.size(), 8) + le(root, 8));
  }
  static std::string old_header(const Hdf5Messages& messages) {
    std::string data;
    for (const Hdf5Message& message : messages)
      data += le(message.type, 2) + le(aligned(message.data).size(), 2) + le(message.flags, 1) + std::string(3, '\0') +
              aligned(message.data);
    return le(1, 2) + le(messages.size(), 2) + le(1, 4) + le(data.size(), 4) + le(0, 4) + data;
  }
  static std::string new_header(const Hdf5Messages& messages) {
    std::string data;
    for (const Hdf5Message& message : messages)
      data += le(message.type, 1) + le(message.data.size(), 2) + le(message.flags, 1) + message.data;
    return summed("OHDR" + le(2, 1) + le(2, 1) + le(data.size(), 4) + data);
  }
  static std::string joined(const std::vector<std::string>& parts, size_t begin, size_t end) {
    std::string all;
    for (size_t i = begin; i < std::min(end, parts.size()); ++i) all += parts[i];
    return all;
  }

  int superblock_;
  size_t user_block_;
  std::string image_;
};

/// A file with groups, attributes and datasets of each kind of storage, as h5py writes it by default.
inline std::string small_hdf5() {
  Hdf5Builder b;
  const std::string values = "0123456789abcdef0123";
  const std::string first = zlib_stored(shuffled(values.substr(0, 8), 4));
  const std::string second = zlib_stored(shuffled(values.substr(8, 8), 4));
  const std::vector<Hdf5Chunk> chunks = {{b.put(first), first.size(), {0}}, {b.put(second), second.size(), {2}}};
  const uint64_t tree = b.chunk_tree(chunks, 1);
  const uint64_t kernel = b.dataset(Hdf5Type::f32(), {1, 2}, b.contiguous("wwwwwwww"));
  const uint64_t bias = b.dataset(Hdf5Type::f32(true), {1}, Hdf5Builder::compact("bbbb"));
  const uint64_t deflated = b.dataset(Hdf5Type::f32(), {6}, Hdf5Builder::chunked(tree, {2}, 4),
                                      {Hdf5Builder::filters({{2, {4}}, {1, {6}}}), Hdf5Builder::fill("ffff")});
  const uint64_t heap = b.global_heap({"name"});
  const uint64_t text = b.dataset(Hdf5Type::variable_text(), {1}, b.contiguous(Hdf5Builder::variable(4, heap, 1)));
  const uint64_t layer = b.group({{"bias:0", bias}, {"kernel:0", kernel}},
                                 {Hdf5Builder::attribute("units", Hdf5Type::integer(8), {2}, le(1, 8) + le(2, 8))});
  return b.build(b.group({{"deflated", deflated}, {"dense", layer}, {"text", text}},
                         {Hdf5Builder::text_attribute("keras_version", "2.15.0")}));
}

/// That file in the layout of libver="latest", with a dense group and chunks in an array.
inline std::string small_new_hdf5() {
  Hdf5Builder b(3);
  const std::string chunk = zlib_stored("01234567");
  const auto stored = [&] { return le(b.put(chunk), 8) + le(chunk.size(), 2) + le(0, 4); };
  const std::string first = stored();
  const uint64_t array = b.fixed_array({first, stored()}, true);
  const uint64_t deflated =
      b.dataset(Hdf5Type::f32(), {4}, Hdf5Builder::chunked_by(le(3, 1) + le(10, 1), array, {2}, 4),
                {Hdf5Builder::filters({{1, {6}}})});
  const uint64_t half =
      b.dataset(Hdf5Type::opaque(2), {1}, b.contiguous("hh"), {Hdf5Builder::text_attribute("dtype", "bfloat16")});
  const uint64_t vars = b.dense_group({{"0", half}, {"1", deflated}});
  return b.build(b.group({{"vars", vars}}, {Hdf5Builder::soft_link("alias", "vars/0")}));
}

}  // namespace weightfs::test
