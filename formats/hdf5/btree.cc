#include "formats/hdf5/btree.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace weightfs::hdf5 {
namespace {

struct OldNode {
  uint64_t address;
  int level;  // that it must have; -1 for any
};

// Walks a B-tree of version 1.
class OldTree {
 public:
  OldTree(Metadata& metadata, TreeType type, uint64_t key_size, uint64_t max_entries)
      : metadata_(metadata), type_(type), key_size_(key_size), max_entries_(max_entries) {}

  Result<void> walk(uint64_t root, const std::function<Result<void>(std::string_view, uint64_t)>& entry) {
    left_.push_back({root, -1});
    while (!left_.empty()) {
      const OldNode node = left_.back();
      left_.pop_back();
      TRY_VOID(enter(node, entry));
    }
    return {};
  }

 private:
  Result<void> enter(const OldNode& node, const std::function<Result<void>(std::string_view, uint64_t)>& entry) {
    const uint64_t address_size = metadata_.sizes().address;
    const uint64_t prefix = 8 + 2 * address_size;
    const std::string head = TRY(metadata_.block(node.address, prefix));
    const auto level = static_cast<uint8_t>(head[5]);
    const uint64_t entries = little_endian(std::string_view(head).substr(6, 2));
    if (!head.starts_with("TREE") || static_cast<uint8_t>(head[4]) != static_cast<uint8_t>(type_))
      return failure(Code::corrupt, fmt::format("no B-tree node of type {} at {}", int(type_), node.address));
    if (node.level >= 0 && level != node.level)
      return failure(Code::corrupt, fmt::format("a B-tree node of level {}, not {}", level, node.level));
    if (max_entries_ > 0 && entries > max_entries_)
      return failure(Code::corrupt, fmt::format("a B-tree node of {} entries, at most {}", entries, max_entries_));
    const uint64_t size = prefix + entries * (key_size_ + address_size) + key_size_;
    const std::string block = TRY(metadata_.block(node.address, size, visited_));
    Fields fields(block, metadata_.sizes());
    TRY_VOID(fields.skip(prefix));
    const size_t first = left_.size();
    for (uint64_t i = 0; i < entries; ++i) {
      const auto key = TRY(fields.text(key_size_));
      const uint64_t child = TRY(fields.address());
      if (level == 0)
        TRY_VOID(entry(key, child));
      else
        left_.push_back({child, level - 1});
    }
    std::reverse(left_.begin() + static_cast<std::ptrdiff_t>(first), left_.end());
    return {};
  }

  Metadata& metadata_;
  TreeType type_;
  uint64_t key_size_, max_entries_;
  std::vector<OldNode> left_;
  Visited visited_;
};

constexpr uint64_t kNodePrefix = 6;  // signature, version, type
constexpr uint64_t kMaxDepthOfTree = 32;

struct NewNode {
  uint64_t address, records, depth;
};

// Walks a B-tree of version 2.
class NewTree {
 public:
  NewTree(Metadata& metadata, uint8_t type, const std::function<Result<void>(std::string_view)>& record)
      : metadata_(metadata), type_(type), record_(record) {}

  Result<void> walk(uint64_t address) {
    TRY_VOID(read_header(address));
    while (!left_.empty()) {
      const NewNode node = left_.back();
      left_.pop_back();
      TRY_VOID(enter(node));
    }
    return {};
  }

 private:
  // The sizes of what a node of each depth holds.
  struct Level {
    uint64_t max_records;
    uint64_t all_records;  // of it and all nodes below
    uint32_t all_size;     // bytes of such a number; 0 for leaves
  };

  Result<void> read_header(uint64_t address) {
    const uint64_t size = 22 + metadata_.sizes().address + metadata_.sizes().length;
    const std::string block = TRY(metadata_.block(address, size, visited_));
    Fields fields(block, metadata_.sizes());
    TRY_VOID(fields.expect("BTHD", 0));
    TRY_VOID(check_sum(block, "B-tree header"));
    if (const auto type = TRY(fields.number(1)); type != type_)
      return failure(Code::corrupt, fmt::format("a B-tree of type {}, not {}", type, type_));
    const uint64_t node_size = TRY(fields.number(4));
    record_size_ = TRY(fields.number(2));
    const uint64_t depth = TRY(fields.number(2));
    TRY_VOID(fields.skip(2));
    const uint64_t root = TRY(fields.address());
    const uint64_t records = TRY(fields.number(2));
    TRY_VOID(set_levels(node_size, depth));
    if (root != kUndefined) left_.push_back({root, records, depth});
    return {};
  }

  Result<void> set_levels(uint64_t node_size, uint64_t depth) {
    const uint64_t overhead = kNodePrefix + kChecksum;
    if (record_size_ == 0 || node_size < overhead + record_size_ || depth > kMaxDepthOfTree)
      return failure(Code::corrupt, fmt::format("a B-tree of depth {} with records of {} bytes in nodes of {}", depth,
                                                record_size_, node_size));
    const uint64_t in_leaf = (node_size - overhead) / record_size_;
    count_size_ = bytes_for(in_leaf);
    levels_.push_back({in_leaf, in_leaf, 0});
    for (uint64_t level = 1; level <= depth; ++level) {
      const uint64_t pointer = pointer_size(level);
      const uint64_t room = node_size - overhead;
      const uint64_t most = room < pointer ? 0 : (room - pointer) / (record_size_ + pointer);
      uint64_t all = 0;
      if (__builtin_mul_overflow(most + 1, levels_.back().all_records, &all) || __builtin_add_overflow(all, most, &all))
        return failure(Code::corrupt, fmt::format("a B-tree of depth {}", depth));
      levels_.push_back({most, all, bytes_for(all)});
    }
    return {};
  }

  // The bytes of a pointer in a node of this depth, at least 1, to one below.
  uint64_t pointer_size(uint64_t depth) const {
    return metadata_.sizes().address + count_size_ + levels_[depth - 1].all_size;
  }

  Result<void> enter(const NewNode& node) {
    if (node.records > levels_[node.depth].max_records)
      return failure(Code::corrupt, fmt::format("a B-tree node of {} records", node.records));
    const uint64_t pointers = node.depth == 0 ? 0 : (node.records + 1) * pointer_size(node.depth);
    const uint64_t size = kNodePrefix + node.records * record_size_ + pointers + kChecksum;
    const std::string block = TRY(metadata_.block(node.address, size, visited_));
    Fields fields(block, metadata_.sizes());
    TRY_VOID(fields.expect(node.depth == 0 ? "BTLF" : "BTIN", 0));
    TRY_VOID(check_sum(block, "B-tree node"));
    TRY_VOID(fields.skip(1));
    for (uint64_t i = 0; i < node.records; ++i) {
      const auto record = TRY(fields.text(record_size_));
      TRY_VOID(record_(record));
    }
    for (uint64_t i = 0; node.depth > 0 && i <= node.records; ++i) {
      const uint64_t child = TRY(fields.address());
      const uint64_t records = TRY(fields.number(count_size_));
      TRY_VOID(fields.skip(levels_[node.depth - 1].all_size));
      left_.push_back({child, records, node.depth - 1});
    }
    return {};
  }

  Metadata& metadata_;
  uint8_t type_;
  const std::function<Result<void>(std::string_view)>& record_;
  uint64_t record_size_ = 0;
  uint32_t count_size_ = 0;
  std::vector<Level> levels_;
  std::vector<NewNode> left_;
  Visited visited_;
};

}  // namespace

Result<void> for_each_child(Metadata& metadata, uint64_t root, TreeType type, uint64_t key_size, uint64_t max_entries,
                            const std::function<Result<void>(std::string_view key, uint64_t child)>& entry) {
  return OldTree(metadata, type, key_size, max_entries).walk(root, entry);
}

Result<void> for_each_record(Metadata& metadata, uint64_t address, uint8_t type,
                             const std::function<Result<void>(std::string_view record)>& record) {
  return NewTree(metadata, type, record).walk(address);
}

}  // namespace weightfs::hdf5
