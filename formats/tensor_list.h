// A tensor, and the list of a model's tensors, which may have a million: it stores each name once, equal shapes and
// types once, and 40 bytes per tensor.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "base/string_arena.h"
#include "formats/dtype.h"

namespace weightfs {

/// Sizes of the dimensions, outermost first (C order); empty for a scalar.
using Shape = std::vector<uint64_t>;

/// The maximum number of dimensions of a Tensor; readers refuse or leave out tensors with more. Frameworks stop at 64
/// or fewer, but the formats set no limit and their own test files have up to 300. The limit bounds the memory of a
/// shape.
inline constexpr size_t kMaxDimensions = 1024;

/// A Shape of another owner.
class ShapeView : public std::span<const uint64_t> {
 public:
  using const_iterator = iterator;

  ShapeView() = default;
  ShapeView(const Shape& shape) : span(shape) {}
  operator Shape() const { return {begin(), end()}; }

  friend bool operator==(ShapeView a, ShapeView b) { return std::ranges::equal(a, b); }
};

/// A tensor: little-endian bytes in C order exactly as stored (big-endian GGUF excepted: as stored there too).
struct Tensor {
  std::string name;               ///< as in the container; any bytes
  const DType* dtype = nullptr;   ///< never null in a Model; &kUnknownDType for an unknown type
  std::string_view stored_dtype;  ///< as in the container ("F32", "Q4_0"); a literal, or in the Model's string_pool
  std::string_view scope;  ///< the graph or module of the tensor, a prefix of its path; "" for the container itself
  Shape shape;
  Slice source;  ///< its bytes; refused() if the container describes them wrongly (a warning has the reason)

  uint64_t nbytes() const { return source.size(); }
};

/// A Tensor whose name and shape belong to another owner: the TensorList, which keeps them as long as it exists.
struct TensorView {
  TensorView() = default;
  TensorView(const Tensor& t)
      : name(t.name), dtype(t.dtype), stored_dtype(t.stored_dtype), scope(t.scope), shape(t.shape), source(t.source) {}

  std::string_view name;
  const DType* dtype = nullptr;
  std::string_view stored_dtype;
  std::string_view scope;
  ShapeView shape;
  Slice source;

  uint64_t nbytes() const { return source.size(); }
};

/// Tensors in a fixed order. An element is returned as a value, which is const because a change of it would be lost.
/// May be read by any number of threads at once.
class TensorList {
 public:
  class Iterator;
  using value_type = TensorView;
  using const_iterator = Iterator;

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const TensorView operator[](size_t i) const;
  const TensorView at(size_t i) const;  ///< throws std::out_of_range
  // Each cheaper than operator[], which makes a Slice.
  std::string_view name(size_t i) const { return {entries_[i].name, entries_[i].name_size}; }
  std::string_view scope(size_t i) const { return kinds_[entries_[i].kind].scope; }
  const DType* dtype(size_t i) const { return kinds_[entries_[i].kind].dtype; }
  ShapeView shape(size_t i) const { return kinds_[entries_[i].kind].shape; }
  bool is_refused(size_t i) const { return entries_[i].source == kRefused; }
  uint64_t nbytes(size_t i) const { return entries_[i].size; }
  uint64_t offset(size_t i) const { return entries_[i].offset; }  ///< of its bytes in their source
  const TensorView front() const { return (*this)[0]; }
  const TensorView back() const { return (*this)[size() - 1]; }
  Iterator begin() const;
  Iterator end() const;

  void push_back(const TensorView& tensor);  ///< copies the name and the shape
  /// Adds a tensor that has no bytes before set_source(); until then, offset() and nbytes() are these.
  void push_back(const TensorView& tensor, uint64_t offset, uint64_t nbytes);
  void append(const TensorList& other);  ///< `other` must be another list
  /// Replaces a tensor. The list keeps the memory of its former name if the name differs.
  void replace(size_t i, const TensorView& tensor);
  void set_source(size_t i, const Slice& source);
  /// Sets a range of `source`; fails with corrupt if it is not inside. Cheaper than to make a Slice.
  Result<void> set_source(size_t i, const SourcePtr& source, ByteRange range);
  /// Makes every tensor the same range of another source. Fails with corrupt if it is too short for one.
  Result<void> move_to(const SourcePtr& source);
  /// Removes the tensors at these places, which ascend.
  void erase(std::span<const size_t> places);

  void reserve(size_t count) { entries_.reserve(count); }
  void shrink_to_fit();

 private:
  // What tensors have in common.
  struct Kind {
    const DType* dtype;
    std::string_view stored_dtype;
    std::string_view scope;
    Shape shape;
  };
  struct Entry {
    const char* name;
    uint32_t name_size;
    uint32_t kind;    // in kinds_
    uint32_t source;  // in sources_; kRefused
    uint64_t offset;  // in the source
    uint64_t size;
  };
  static constexpr uint32_t kRefused = UINT32_MAX;

  // Finds a value that was added before, by its hash. Of too many different values it forgets some.
  class Recent {
   public:
    /// The index of the value in `values`, at the end of which the result of `make` is added if it is not found.
    template <class T, class IsEqual, class Make>
    uint32_t find_or_add(std::vector<T>& values, size_t hash, const IsEqual& is_equal, const Make& make);

   private:
    static constexpr size_t kSlots = 256;
    static constexpr size_t kSearched = 4;  // values at the front that need no slot: most lists have no more
    std::unique_ptr<std::array<uint32_t, kSlots>> slots_;  // null until it is needed
  };

  TensorView view(const Entry& entry) const;
  Entry entry_of(const TensorView& tensor);
  uint32_t kind_of(const TensorView& tensor);
  uint32_t source_of(const SourcePtr& source);
  void place(size_t i, const SourcePtr& source, uint64_t offset, uint64_t size);

  std::vector<Entry> entries_;
  std::vector<Kind> kinds_;
  std::vector<SourcePtr> sources_;
  StringArena names_;
  Recent recent_kinds_;
  Recent recent_sources_;
};

/// Reads a TensorList in order.
class TensorList::Iterator {
 public:
  using value_type = TensorView;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::forward_iterator_tag;
  using iterator_category = std::input_iterator_tag;
  using reference = TensorView;
  using pointer = void;

  Iterator() = default;
  Iterator(const TensorList& list, size_t i) : list_(&list), i_(i) {}

  TensorView operator*() const { return (*list_)[i_]; }
  Iterator& operator++() {
    ++i_;
    return *this;
  }
  Iterator operator++(int) { return {*list_, i_++}; }
  bool operator==(const Iterator&) const = default;

 private:
  const TensorList* list_ = nullptr;
  size_t i_ = 0;
};

inline TensorList::Iterator TensorList::begin() const { return {*this, 0}; }
inline TensorList::Iterator TensorList::end() const { return {*this, size()}; }

/// The number of elements of a tensor of this shape, times `factor`; nothing on overflow, even if a later
/// dimension is 0.
std::optional<uint64_t> elements_of(ShapeView shape, uint64_t factor = 1);

/// The size in bytes of a tensor of this type and shape. Nothing on overflow, for an unknown type, and if the elements
/// (for a block type: of the innermost dimension; for a sub-byte type: all) do not fill whole blocks; the size of a
/// packed type is rounded up instead.
std::optional<uint64_t> size_in_bytes(const DType& dtype, ShapeView shape);

/// The size of a tensor, also if it is refused: then by its type and shape, and 0 if these do not give one.
uint64_t listed_bytes(const TensorList& tensors, size_t i);

}  // namespace weightfs
