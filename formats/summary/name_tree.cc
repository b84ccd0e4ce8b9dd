#include "formats/summary/name_tree.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

namespace weightfs::summary {
namespace {

constexpr size_t kMinSiblings = 3;        // that share a stem before their numbers
constexpr uint8_t kFew = 8;               // children that are compared one by one
constexpr size_t kMinSlots = 256;         // a power of two
constexpr size_t kMaxDigits = 18;         // of a number; fits uint64_t
constexpr uint64_t kNumbered = 0x4E756D;  // hashed in place of a number

struct Keys {
  uint64_t a, b, c;
};

const Keys& keys() {
  static const Keys keys = [] {
    std::random_device random;
    const auto next = [&random] { return uint64_t{random()} << 32 | random() | 1; };
    return Keys{next(), next(), next()};
  }();
  return keys;
}

__extension__ using Wide = unsigned __int128;

// Both halves of the product, as in wyhash: a difference in any bit of a factor changes bits that depend on the other.
uint64_t folded_product(uint64_t a, uint64_t b) {
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The length of `text` without its digits at the end.
size_t stem_of(std::string_view text) {
  size_t stem = text.size();
  while (stem > 0 && is_digit(text[stem - 1])) --stem;
  return stem;
}

// The end of the component that begins at `begin`: before a '.' or a '/', or after the number in `blocks_1_attn`.
size_t end_of_component(std::string_view text, size_t begin) {
  size_t digits = text.npos;  // where those after the last '_' begin
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' || c == '/') return i;
    if (c == '_') {
      const bool is_last = i + 1 == text.size() || text[i + 1] == '.' || text[i + 1] == '/';
      if (digits != text.npos && digits < i && !is_last) return i;
      digits = i > begin ? i + 1 : text.npos;
    } else if (!is_digit(c)) {
      digits = text.npos;
    }
  }
  return text.size();
}

// Counts the logical elements of a packed tensor, because modules of one kind may be packed with a different number of
// bits.
uint64_t hash_of_shape(ShapeView shape, const Counted& counted) {
  uint64_t product = 1;
  uint64_t hash = keyed_hash(shape.size(), 0);
  for (const uint64_t size : shape) {
    product *= size;  // wraps for a refused tensor, like the elements
    hash = keyed_hash(hash, size);
  }
  const bool is_packed = counted.role == Role::parameter && counted.elements != product;
  return is_packed ? keyed_hash(shape.size(), counted.elements) : hash;
}

}  // namespace

uint64_t keyed_hash(uint64_t a, uint64_t b) {
  return folded_product(folded_product(a ^ keys().a, b ^ keys().b) ^ keys().c, keys().b);
}

uint64_t keyed_hash(uint64_t seed, std::string_view bytes) {
  uint64_t hash = seed ^ keys().a ^ bytes.size();
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    hash = folded_product(hash ^ word, keys().b) ^ keys().c;
  }
  return folded_product(hash, keys().c);
}

std::optional<NameTree> NameTree::build(const TensorList& tensors, std::span<const Counted> counted,
                                        std::span<const uint64_t> bytes, size_t max_nodes) {
  NameTree tree(max_nodes);
  tree.nodes_.emplace_back();
  tree.leaves_.reserve(tensors.size());
  const size_t expected = std::min(max_nodes, kNodesPerTensor * tensors.size()) + 1;
  tree.nodes_.reserve(expected);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tree.add(tensors.scope(i), tensors.name(i))) return std::nullopt;
    Node& leaf = tree.nodes_[tree.leaves_[i]];
    leaf.shape += hash_of_shape(tensors.shape(i), counted[i]);
    leaf.bytes += bytes[i];
    leaf.is_tensor = true;
  }
  tree.slots_ = {};
  tree.move_own_tensors();
  tree.close();
  return tree;
}

NameTree::Index NameTree::node_of(size_t tensor) const {
  const Index leaf = leaves_[tensor];
  const Index first = nodes_[leaf].first_child;
  return first != kNone && nodes_[first].is_own ? first : leaf;
}

bool NameTree::add(std::string_view scope, std::string_view name) {
  depth_ = 0;
  if (!scope.empty() && !add_components(scope, 0)) return false;
  if (!add_components(name, scope.empty() ? '\0' : '/')) return false;
  leaves_.push_back(last_path_[depth_ - 1]);
  return true;
}

// `separator`: before the text.
bool NameTree::add_components(std::string_view text, char separator) {
  size_t begin = 0;
  while (true) {
    const bool is_last = depth_ + 1 >= kMaxComponents;
    const size_t end = is_last ? text.size() : end_of_component(text, begin);
    const std::string_view name = text.substr(begin, end - begin);
    const Index parent = depth_ == 0 ? kRoot : last_path_[depth_ - 1];
    const bool is_known = depth_ < last_path_.size() && nodes_[last_path_[depth_]].parent == parent &&
                          nodes_[last_path_[depth_]].name == name;
    if (!is_known) {
      if (nodes_.size() > max_nodes_) return false;
      last_path_.resize(depth_);
      last_path_.push_back(find_or_add(parent, name, separator));
    }
    ++depth_;
    if (end == text.size() || depth_ >= kMaxComponents) return true;
    separator = text[end];
    begin = end + 1;
  }
}

// The slot of the node, or the free one for it.
NameTree::Slot& NameTree::slot_of(uint64_t hash, Index parent, std::string_view name) {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.node == kNone) return slot;
    if (slot.hash != hash >> 32) continue;
    if (const Node& node = nodes_[slot.node]; node.parent == parent && node.name == name) return slot;
  }
}

// kNone if it is not there.
NameTree::Index NameTree::find_among_few(Index parent, std::string_view name) const {
  Index child = nodes_[parent].first_child;
  while (child != kNone && nodes_[child].name != name) child = nodes_[child].next;
  return child;
}

NameTree::Index NameTree::find_or_add(Index parent, std::string_view name, char separator) {
  const bool has_few = nodes_[parent].few <= kFew;
  const Index known = has_few ? find_among_few(parent, name) : slot_of(keyed_hash(parent, name), parent, name).node;
  if (known != kNone) return known;
  const auto added = static_cast<Index>(nodes_.size());
  nodes_.push_back({.name = name, .parent = parent, .separator = separator});
  link(added);
  if (!has_few) {
    add_slot(added);
  } else if (++nodes_[parent].few > kFew) {
    for (Index child = nodes_[parent].first_child; child != kNone; child = nodes_[child].next) add_slot(child);
  }
  return added;
}

void NameTree::add_slot(Index node) {
  if (2 * (used_slots_ + 1) >= slots_.size()) grow_slots();
  const uint64_t hash = keyed_hash(nodes_[node].parent, nodes_[node].name);
  Slot& slot = slot_of(hash, nodes_[node].parent, nodes_[node].name);
  slot = {node, static_cast<uint32_t>(hash >> 32)};
  ++used_slots_;
}

void NameTree::grow_slots() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(std::max(kMinSlots, 2 * slots_.size())));
  used_slots_ = 0;
  for (const Slot& slot : old)
    if (slot.node != kNone) add_slot(slot.node);
}

void NameTree::link(Index child) {
  Node& parent = nodes_[nodes_[child].parent];
  if (parent.first_child == kNone)
    parent.first_child = child;
  else
    nodes_[parent.last_child].next = child;
  parent.last_child = child;
}

// A tensor `a` beside a tensor `a.b` becomes the first child of the node `a`.
void NameTree::move_own_tensors() {
  for (size_t i = 0, count = nodes_.size(); i < count; ++i) {
    if (!nodes_[i].is_tensor || nodes_[i].first_child == kNone) continue;
    const auto own = static_cast<Index>(nodes_.size());
    Node& node = nodes_[i];
    Node moved;
    moved.shape = node.shape;
    moved.bytes = node.bytes;
    moved.parent = static_cast<Index>(i);
    moved.next = node.first_child;
    moved.is_tensor = true;
    moved.is_own = true;
    node.first_child = own;
    node.shape = 0;
    node.bytes = 0;
    node.is_tensor = false;
    nodes_.push_back(moved);
  }
}

// Finds the children with numbers: names of digits, and names with a stem that enough siblings share.
void NameTree::number_children(Index parent) {
  stems_.clear();
  for (Index child = nodes_[parent].first_child; child != kNone; child = nodes_[child].next) {
    Node& node = nodes_[child];
    const size_t stem = stem_of(node.name);
    const size_t digits = node.name.size() - stem;
    if (digits == 0 || digits > kMaxDigits) continue;
    if (stem == 0)
      node.is_numbered = true;
    else
      stems_.emplace_back(node.name.substr(0, stem), child);
  }
  if (stems_.size() < kMinSiblings) return;
  std::sort(stems_.begin(), stems_.end());
  for (size_t i = 0; i < stems_.size();) {
    size_t end = i;
    while (end < stems_.size() && stems_[end].first == stems_[i].first) ++end;
    for (size_t k = i; k < end && end - i >= kMinSiblings; ++k) {
      Node& node = nodes_[stems_[k].second];
      node.is_numbered = true;
      node.stem = static_cast<uint32_t>(stems_[k].first.size());
    }
    i = end;
  }
}

// From the leaves up: a child has a higher index than its parent.
void NameTree::close() {
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (nodes_[i].first_child == kNone) continue;
    number_children(static_cast<Index>(i));
    Node& node = nodes_[i];
    node.is_module = node.is_flat = true;
    for (Index child = node.first_child; child != kNone; child = nodes_[child].next) {
      const Node& one = nodes_[child];
      const uint64_t label =
          one.is_numbered ? keyed_hash(kNumbered, one.name.substr(0, one.stem)) : keyed_hash(0, one.name);
      node.shape += keyed_hash(label, one.shape);  // a sum: blocks may store their tensors in another order
      node.bytes += one.bytes;
      node.is_module = node.is_module && one.is_tensor;
      node.is_flat = node.is_flat && (one.is_tensor || one.is_module);
    }
  }
}

}  // namespace weightfs::summary
