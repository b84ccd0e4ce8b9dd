// Reads FlatBuffers without a schema compiler: tables, lists and texts by the numbers of their slots. Every position
// from the file is checked before it is read. Only the pages with tables, texts and short lists are read, and a bounded
// number of them is in memory, so a FlatBuffer with gigabytes of weights costs no more than its structure.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/source.h"
#include "formats/tensor_list.h"

namespace weightfs::flatbuffer {

/// The index of a field in its table, as the schema numbers it.
using Slot = uint16_t;

/// The bytes of a FlatBuffer that begins with the source. Not thread-safe. Tables and lists refer to it.
class Buffer {
 public:
  /// `source` and `budget` outlive the buffer. Reading is charged to `budget`, for each use of a shared table.
  Buffer(const Source& source, Budget& budget);

  uint64_t size() const { return source_.size(); }

  /// Where the tables and lists end that were read so far.
  uint64_t end() const { return end_; }
  void extend_to(uint64_t end) { end_ = std::max(end_, end); }

  /// Copies the bytes from `at`. Fails with corrupt if they are not all inside.
  Result<void> copy(uint64_t at, std::span<std::byte> out);

  /// The number at `at`, which may be unaligned. Fails as copy() does.
  template <class T>
  Result<T> number(uint64_t at) {
    std::array<std::byte, sizeof(T)> bytes;
    // Most numbers are in a page that is in memory.
    const Page& page = pages_[at / kPage % kPages];
    const uint64_t skipped = at % kPage;
    if (page.begin == at - skipped && skipped + sizeof(T) <= page.bytes.size())
      std::memcpy(bytes.data(), page.bytes.data() + skipped, sizeof(T));
    else
      TRY_VOID(copy(at, bytes));
    return std::bit_cast<T>(bytes);
  }

  /// The position that the offset at `at` refers to: forward, and never itself.
  Result<uint64_t> target(uint64_t at);

  Result<void> charge(Cost cost, uint64_t count) { return budget_.charge(cost, count); }

 private:
  static constexpr uint64_t kPage = 4096;
  static constexpr size_t kPages = 64;  // 256 KiB

  struct Page {
    uint64_t begin = UINT64_MAX;  // offset in the source
    std::vector<std::byte> bytes;
  };

  Result<const Page*> page_at(uint64_t at);

  const Source& source_;
  Budget& budget_;
  std::array<Page, kPages> pages_;  // a page is at its number modulo kPages
  uint64_t end_ = 0;
};

class List;

/// A table, as a value. A default one has no fields.
class Table {
 public:
  Table() = default;

  /// The table that the offset at `where` refers to. Fails with corrupt if it or its vtable is not valid, or not
  /// all inside.
  static Result<Table> at(Buffer& buffer, uint64_t where);

  /// The table at the root of a FlatBuffer.
  static Result<Table> root(Buffer& buffer) { return at(buffer, 0); }

  /// The number in this slot, or `absent` if the table does not have it.
  template <class T>
  Result<T> number(Slot slot, T absent = {}) const {
    const uint64_t value = TRY(find(slot));
    return value == 0 ? absent : buffer_->number<T>(value);
  }

  /// The text in this slot; empty if the table does not have it. Fails with unsupported if it is longer than `most`,
  /// and with corrupt if the buffer ends before the NUL behind it.
  Result<std::string> text(Slot slot, uint64_t most) const;

  /// The table in this slot, or one without fields.
  Result<Table> table(Slot slot) const;

  /// The list in this slot, or an empty one. Its elements are `width` bytes large.
  Result<List> list(Slot slot, uint64_t width) const;

  /// The list of tables in this slot.
  Result<List> tables(Slot slot) const;

  /// Whether the table has this field.
  Result<bool> has(Slot slot) const { return TRY(find(slot)) != 0; }

  /// Whether this is a table of the file, not a default one.
  bool exists() const { return buffer_ != nullptr; }

 private:
  Table(Buffer& buffer, uint64_t at, uint64_t vtable, uint16_t size)
      : buffer_(&buffer), at_(at), vtable_(vtable), vtable_size_(size) {}

  Result<uint64_t> find(Slot slot) const;

  Buffer* buffer_ = nullptr;
  uint64_t at_ = 0;
  uint64_t vtable_ = 0;
  uint16_t vtable_size_ = 0;
};

/// A list of numbers or of tables, as a value. All its elements are inside the buffer.
class List {
 public:
  List() = default;

  /// The list that the offset at `where` refers to. Fails with corrupt if it is not all inside.
  static Result<List> at(Buffer& buffer, uint64_t where, uint64_t width);

  uint64_t size() const { return size_; }          ///< the number of its elements
  uint64_t position() const { return elements_; }  ///< of its first element in the buffer

  /// The number at `index`, which is less than size(), of as many bytes as the list's elements.
  template <class T>
  Result<T> number(uint64_t index) const {
    return buffer_->number<T>(elements_ + index * sizeof(T));
  }

  /// All numbers. Fails with unsupported if there are more than `most`.
  template <class T>
  Result<std::vector<T>> numbers(uint64_t most) const {
    TRY_VOID(check_size(most));
    TRY_VOID(charge());
    std::vector<T> out(size_);
    if (size_ > 0) TRY_VOID(buffer_->copy(elements_, std::as_writable_bytes(std::span(out))));
    return out;
  }

  /// The numbers, which are int32, as a shape. Fails with corrupt if one is negative, and with unsupported if there are
  /// more than kMaxDimensions.
  Result<Shape> shape() const;

  /// Charges for reading all elements one by one.
  Result<void> charge() const;

  /// The table at `index`, which is less than size().
  Result<Table> table(uint64_t index) const;

  /// The text at `index`, which is less than size(), of a list of texts. Fails as Table::text does.
  Result<std::string> text(uint64_t index, uint64_t most) const;

 private:
  Result<void> check_size(uint64_t most) const;

  Buffer* buffer_ = nullptr;
  uint64_t elements_ = 0;
  uint64_t size_ = 0;
};

}  // namespace weightfs::flatbuffer
