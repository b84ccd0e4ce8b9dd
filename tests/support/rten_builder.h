// Builds RTen files from tables with numbered slots, as in the format notes, without the schema compiler: so the tests
// also check the schema. Any part can be shared, omitted, or given a wrong number.
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

#include "base/source.h"

namespace weightfs::test::rten {

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

// The tables of the format, by slot.

enum Kind : uint8_t { kOperator = 1, kConstant = 2, kValue = 3 };
enum Data : uint8_t { kFloat = 1, kInt32 = 2, kInt8 = 3, kUInt8 = 4 };                     // of an inline vector
enum Type : uint16_t { kTypeInt32 = 0, kTypeFloat32 = 1, kTypeInt8 = 2, kTypeUInt8 = 3 };  // of an external constant

inline Ref node(std::map<int, Slot> name, uint8_t kind, Ref data) {
  name[1] = scalar(kind);
  name[2] = std::move(data);
  return table(std::move(name));
}
inline Ref node(std::string_view name, uint8_t kind, Ref data) {
  return node({{0, text(name)}}, kind, std::move(data));
}

inline Ref open_tmpfile(uint8_t kind, Ref data) { return node(std::map<int, Slot>{}, kind, std::move(data)); }

inline Ref inline_data(const std::vector<uint32_t>& shape, Data type, Ref numbers) {
  return table({{0, list(shape)}, {1, scalar(type)}, {2, table({{0, std::move(numbers)}})}});
}
inline Ref external_data(const std::vector<uint32_t>& shape, uint16_t type, uint64_t offset) {
  return table({{0, list(shape)}, {3, scalar(type)}, {4, scalar(offset)}});
}
inline Ref dim(uint32_t size) { return table({{0, scalar(size)}}); }
inline Ref dim(std::string_view name) { return table({{1, text(name)}}); }

inline Ref value(std::string_view name, std::vector<Ref> dims, uint8_t type) {
  return node(name, kValue, table({{0, tables(std::move(dims))}, {1, scalar(type)}}));
}

inline Ref op(std::string_view name, uint8_t type, const std::vector<int32_t>& inputs,
              const std::vector<int32_t>& outputs, uint8_t attrs_tag = 0, Ref attrs = nullptr) {
  std::map<int, Slot> slots{{0, scalar(type)}, {3, list(inputs)}, {4, list(outputs)}};
  if (attrs) slots.insert({{1, scalar(attrs_tag)}, {2, attrs}});
  return node(name, kOperator, table(std::move(slots)));
}

inline Ref graph(std::vector<Ref> nodes, const std::vector<uint32_t>& inputs = {},
                 const std::vector<uint32_t>& outputs = {}) {
  return table({{0, tables(std::move(nodes))}, {1, list(inputs)}, {2, list(outputs)}});
}

inline Ref model_of(Ref graph, std::map<int, Slot> more = {}) {
  more.insert({{0, scalar(int32_t{1})}, {1, std::move(graph)}});
  return table(std::move(more));
}

/// A version 1 file.
inline std::string version1(const Ref& model) { return FlatBufferLayout(model).take().bytes(); }

/// The header of a version 2 file.
inline std::string header(uint64_t model_offset, uint64_t model_size, uint64_t tensors, uint32_t version = 2) {
  return "RTEN" + bytes_of(version) + bytes_of(model_offset) + bytes_of(model_size) + bytes_of(tensors);
}

/// A version 2 file as the converter writes it: header, model, and the tensors from the next multiple of 64.
inline std::string version2(const Ref& model, std::string_view tensors = {}) {
  const std::string flat = version1(model);
  const uint64_t begin = (32 + flat.size() + 63) / 64 * 64;
  std::string file = header(32, flat.size(), begin) + flat;
  file.resize(begin, '\0');
  return file.append(tensors);
}

/// A small model with some of everything, for truncations, flipped bytes and fuzzing.
inline Ref small_model() {
  const Ref branch = graph({node("w", kConstant, external_data({2}, kTypeFloat32, 0))}, {}, {0});
  const Ref main = graph({node("w", kConstant, inline_data({3}, kInt8, list<int8_t>({1, 2, 3}))),
                          value("x", {dim("batch"), dim(4)}, 1), op("if", 104, {1, 0}, {1}, 39, table({{0, branch}})),
                          op("pad", 34, {0}, {1}, 40, table({{0, scalar(uint8_t{1})}}))},
                         {1}, {1});
  return model_of(main, {{2, table({{1, text("a model")}})}});
}

/// The same as a version 2 file; its external tensor is 1.0, 2.0.
inline std::string small_rten() { return version2(small_model(), std::string_view("\0\0\x80\x3f\0\0\0\x40", 8)); }

}  // namespace weightfs::test::rten
