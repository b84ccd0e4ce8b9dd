// Builds FlatBuffers from tables with numbered slots, without a schema compiler. Any part can be shared, omitted, or
// given a wrong number.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weightfs::test::flatbuffer {

template <class T>
std::string bytes_of(T number) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &number, sizeof(T));
  return out;
}

/// A table, a list or a string of a FlatBuffer.
struct Thing;
using Ref = std::shared_ptr<const Thing>;

/// The content of a slot: the bytes of a number, or the target of an offset.
using Slot = std::variant<std::string, Ref>;

struct Thing {
  std::map<int, Slot> slots = {};  ///< of a table
  std::string flat = {};           ///< of a list or string: its length, and its bytes if they are flat
  std::vector<Ref> tables = {};    ///< of a list of tables
  uint64_t hole = 0;               ///< virtual zeros after `flat`
  bool is_table = false;
};

template <class T>
Slot scalar(T number) {
  return bytes_of(number);
}

inline Ref table(std::map<int, Slot> slots) {
  return std::make_shared<Thing>(Thing{.slots = std::move(slots), .is_table = true});
}

template <class T>
Ref list(const std::vector<T>& numbers) {
  Thing thing{.flat = bytes_of(static_cast<uint32_t>(numbers.size()))};
  for (const T number : numbers) thing.flat += bytes_of(number);
  return std::make_shared<Thing>(thing);
}

inline Ref tables(std::vector<Ref> of) {
  const auto length = static_cast<uint32_t>(of.size());
  return std::make_shared<Thing>(Thing{.flat = bytes_of(length), .tables = std::move(of)});
}

inline Ref text(std::string_view text) {
  Thing thing{.flat = bytes_of(static_cast<uint32_t>(text.size()))};
  thing.flat.append(text).append(1, '\0');
  return std::make_shared<Thing>(thing);
}

/// A list of `length` zeroes of `width` bytes that takes no memory.
inline Ref hole(uint32_t length, uint64_t width) {
  return std::make_shared<Thing>(Thing{.flat = bytes_of(length), .hole = length * width});
}

/// Bytes with holes: ranges by offset, and the total size.
struct Pieces {
  std::map<uint64_t, std::string> at;
  uint64_t size = 0;

  std::string bytes() const {
    std::string out(size, '\0');
    for (const auto& [offset, piece] : at) out.replace(offset, piece.size(), piece);
    return out;
  }
};

/// Lays out a FlatBuffer: the root offset, then every object before its targets.
class FlatBufferLayout {
 public:
  explicit FlatBufferLayout(const Ref& root) {
    visit(root);
    for (auto thing = order_.rbegin(); thing != order_.rend(); ++thing) place(**thing);
    for (const Thing* thing : order_) write(*thing);
    pieces_.at[0] = bytes_of(static_cast<uint32_t>(at(*root)));
    pieces_.size = next_;
  }

  Pieces take() { return std::move(pieces_); }

 private:
  void visit(const Ref& thing) {
    if (!seen_.insert(thing.get()).second) return;
    for (const auto& [slot, value] : thing->slots)
      if (const auto* ref = std::get_if<Ref>(&value)) visit(*ref);
    for (const Ref& element : thing->tables) visit(element);
    order_.push_back(thing.get());
  }

  static uint64_t round_up(uint64_t n) { return (n + 7) / 8 * 8; }
  static int slot_count(const Thing& thing) { return thing.slots.empty() ? 0 : thing.slots.rbegin()->first + 1; }

  // A table follows its vtable, with eight bytes per slot. The length of a list is placed so that its elements are
  // aligned.
  void place(const Thing& thing) {
    const auto slots = static_cast<uint64_t>(slot_count(thing));
    const uint64_t before = thing.is_table ? round_up(4 + 2 * slots) : 4;
    places_[&thing] = next_ + before;
    const uint64_t size = thing.is_table ? 8 + 8 * slots : thing.flat.size() + 4 * thing.tables.size() + thing.hole;
    next_ = round_up(next_ + before + size);
  }

  uint64_t at(const Thing& thing) const { return places_.at(&thing); }
  std::string offset(uint64_t from, const Ref& to) const { return bytes_of(static_cast<uint32_t>(at(*to) - from)); }

  void write(const Thing& thing) {
    if (thing.is_table) return write_table(thing);
    std::string out = thing.flat;
    for (const Ref& element : thing.tables) out += offset(at(thing) + out.size(), element);
    pieces_.at[at(thing)] = std::move(out);
  }

  void write_table(const Thing& thing) {
    const auto slots = static_cast<uint64_t>(slot_count(thing));
    const uint64_t vtable = round_up(4 + 2 * slots);
    std::string entries =
        bytes_of(static_cast<uint16_t>(4 + 2 * slots)) + bytes_of(static_cast<uint16_t>(8 + 8 * slots));
    std::string out = bytes_of(static_cast<int32_t>(vtable)) + std::string(4 + 8 * slots, '\0');
    for (uint64_t slot = 0; slot < slots; ++slot) {
      const auto value = thing.slots.find(static_cast<int>(slot));
      const uint64_t where = 8 + 8 * slot;
      entries += bytes_of(static_cast<uint16_t>(value == thing.slots.end() ? 0 : where));
      if (value == thing.slots.end()) continue;
      const auto* ref = std::get_if<Ref>(&value->second);
      const std::string stored = ref ? offset(at(thing) + where, *ref) : std::get<std::string>(value->second);
      out.replace(where, stored.size(), stored);
    }
    pieces_.at[at(thing) - vtable] = entries;
    pieces_.at[at(thing)] = out;
  }

  std::set<const Thing*> seen_;
  std::vector<const Thing*> order_;
  std::map<const Thing*, uint64_t> places_;
  uint64_t next_ = 8;
  Pieces pieces_;
};

}  // namespace weightfs::test::flatbuffer
