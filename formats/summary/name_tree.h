// The names of a model's tensors as a tree of their components, with a hash of what is below each node: names and
// shapes, without the numbers of repeated blocks. Equal blocks have equal hashes, so they are found without comparing
// them. Built in one pass over the names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/summary/counts.h"
#include "formats/tensor_list.h"

namespace weightfs::summary {

class NameTree {
 public:
  using Index = uint32_t;
  static constexpr Index kRoot = 0;
  static constexpr Index kNone = UINT32_MAX;
  static constexpr size_t kNodesPerTensor = 3;  ///< of most models; more if names are unusual
  static constexpr size_t kMaxComponents = 16;  ///< the last one has the rest of a longer name

  struct Node {
    std::string_view name;  ///< the component; refers to the TensorList
    uint64_t shape = 0;     ///< hash of what is below
    uint64_t bytes = 0;     ///< of all tensors below
    Index parent = kNone;
    Index first_child = kNone, last_child = kNone;  ///< in stored order
    Index next = kNone;                             ///< sibling
    uint32_t stem = 0;                              ///< the bytes of `name` before its number, if it is numbered
    uint8_t few = 0;                                ///< its children, as long as they are few and not in the table
    char separator = 0;                             ///< the byte before the name; 0 if there is none
    bool is_numbered = false;                       ///< "12", or "dense_12" of three siblings or more
    bool is_tensor = false;                         ///< has no children
    bool is_own = false;     ///< the tensor that has the name of its parent, which has children, too
    bool is_module = false;  ///< its children are tensors
    bool is_flat = false;    ///< its children are tensors and modules
  };

  /// Nothing if there would be more than `max_nodes`, besides the root. `bytes` and `counted` have an element per
  /// tensor.
  static std::optional<NameTree> build(const TensorList& tensors, std::span<const Counted> counted,
                                       std::span<const uint64_t> bytes, size_t max_nodes);

  const Node& operator[](Index node) const { return nodes_[node]; }
  size_t size() const { return nodes_.size(); }
  Index node_of(size_t tensor) const;  ///< a node that is a tensor
  bool has_one_child(Index node) const { return nodes_[node].first_child == nodes_[node].last_child; }

 private:
  // A place of a node in the table of nodes by the hash of their parent and name. Most nodes have few children, which
  // are compared one by one and are not in the table: it stays small enough for the processor's cache.
  struct Slot {
    Index node = kNone;
    uint32_t hash = 0;  // its upper half: most other nodes differ in it
  };

  explicit NameTree(size_t max_nodes) : max_nodes_(max_nodes) {}
  bool add(std::string_view scope, std::string_view name);
  bool add_components(std::string_view text, char separator);
  Index find_or_add(Index parent, std::string_view name, char separator);
  Index find_among_few(Index parent, std::string_view name) const;
  Slot& slot_of(uint64_t hash, Index parent, std::string_view name);
  void add_slot(Index node);
  void grow_slots();
  void link(Index child);
  void move_own_tensors();
  void number_children(Index parent);
  void close();

  size_t max_nodes_;
  std::vector<Node> nodes_;    // a parent before its children
  std::vector<Index> leaves_;  // by the index of the tensor
  std::vector<Slot> slots_;    // a power of two of them, of which at most half are used
  size_t used_slots_ = 0;
  std::vector<Index> last_path_;  // nodes of the tensor that was added last, from the first component on
  size_t depth_ = 0;              // components of the name that is being added
  std::vector<std::pair<std::string_view, Index>> stems_;  // of number_children
};

/// A hash of two numbers, and of bytes. Its key is chosen when the process starts: names cannot be made to collide.
uint64_t keyed_hash(uint64_t a, uint64_t b);
uint64_t keyed_hash(uint64_t seed, std::string_view bytes);

}  // namespace weightfs::summary
