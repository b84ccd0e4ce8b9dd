#include "formats/tensor_list.h"

#include <fmt/core.h>

#include <functional>

namespace weightfs {
namespace {

size_t mixed(size_t hash, uint64_t value) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  hash = (hash ^ value) * kMultiplier;
  return hash ^ hash >> 32;
}

// The slots in which a value may be. Bounded, because values may be made to collide.
constexpr size_t kProbes = 8;

}  // namespace

template <class T, class IsEqual, class Make>
uint32_t TensorList::Recent::find_or_add(std::vector<T>& values, size_t hash, const IsEqual& is_equal,
                                         const Make& make) {
  const auto added = static_cast<uint32_t>(values.size());
  for (uint32_t i = 0; i < std::min<size_t>(added, kSearched); ++i)
    if (is_equal(values[i])) return i;
  if (added >= kSearched) {
    if (slots_ == nullptr)
      slots_ = std::make_unique<std::array<uint32_t, kSlots>>();  // 0 is a free slot: the first value needs none
    size_t free = hash % kSlots;
    for (size_t i = 0; i < kProbes; ++i) {
      const size_t at = (hash + i) % kSlots;
      const uint32_t known = slots_->at(at);
      if (known == 0) {
        free = at;
        break;
      }
      if (is_equal(values[known])) return known;
    }
    slots_->at(free) = added;
  }
  values.push_back(make());
  return added;
}

const TensorView TensorList::at(size_t i) const { return view(entries_.at(i)); }

const TensorView TensorList::operator[](size_t i) const { return view(entries_[i]); }

TensorView TensorList::view(const Entry& entry) const {
  const Kind& kind = kinds_[entry.kind];
  TensorView tensor;
  tensor.name = {entry.name, entry.name_size};
  tensor.dtype = kind.dtype;
  tensor.stored_dtype = kind.stored_dtype;
  tensor.scope = kind.scope;
  tensor.shape = kind.shape;
  if (entry.source != kRefused) tensor.source = *slice(sources_[entry.source], entry.offset, entry.size);
  return tensor;
}

void TensorList::push_back(const TensorView& tensor) {
  Entry entry = entry_of(tensor);
  entry.name = names_.add(tensor.name).data();
  entries_.push_back(entry);
}

void TensorList::push_back(const TensorView& tensor, uint64_t offset, uint64_t nbytes) {
  push_back(tensor);
  entries_.back().offset = offset;
  entries_.back().size = nbytes;
}

void TensorList::append(const TensorList& other) {
  for (size_t i = 0; i < other.size(); ++i) push_back(other[i], other.offset(i), other.nbytes(i));
}

void TensorList::replace(size_t i, const TensorView& tensor) {
  const TensorView& before = (*this)[i];
  Entry entry = entry_of(tensor);
  entry.name = (tensor.name == before.name ? before.name : names_.add(tensor.name)).data();
  entries_[i] = entry;
}

void TensorList::set_source(size_t i, const Slice& source) { place(i, source.whole(), source.offset(), source.size()); }

Result<void> TensorList::set_source(size_t i, const SourcePtr& source, ByteRange range) {
  if (range.from > range.to || range.to > source->size())
    return failure(Code::corrupt, fmt::format("bytes [{}, {}) of {}", range.from, range.to, source->size()));
  place(i, source, range.from, range.to - range.from);
  return {};
}

void TensorList::place(size_t i, const SourcePtr& source, uint64_t offset, uint64_t size) {
  Entry& entry = entries_[i];
  entry.source = source_of(source);
  entry.offset = offset;
  entry.size = size;
}

Result<void> TensorList::move_to(const SourcePtr& source) {
  for (size_t i = 0; i < size(); ++i)
    if (!is_refused(i)) set_source(i, TRY(slice(source, offset(i), nbytes(i))));
  return {};
}

void TensorList::erase(std::span<const size_t> places) {
  size_t kept = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!places.empty() && places.front() == i)
      places = places.subspan(1);
    else
      entries_[kept++] = entries_[i];
  }
  entries_.resize(kept);
}

void TensorList::shrink_to_fit() {
  entries_.shrink_to_fit();
  kinds_.shrink_to_fit();
  sources_.shrink_to_fit();
  recent_kinds_ = {};
  recent_sources_ = {};
}

TensorList::Entry TensorList::entry_of(const TensorView& tensor) {
  return {.name = nullptr,
          .name_size = static_cast<uint32_t>(tensor.name.size()),
          .kind = kind_of(tensor),
          .source = source_of(tensor.source.whole()),
          .offset = tensor.source.offset(),
          .size = tensor.nbytes()};
}

uint32_t TensorList::kind_of(const TensorView& tensor) {
  // By its place: a reader keeps each scope once, and it may be long.
  const auto is_same = [](std::string_view a, std::string_view b) {
    return a.data() == b.data() && a.size() == b.size();
  };
  const auto is_equal = [&](const Kind& kind) {
    return kind.dtype == tensor.dtype && kind.stored_dtype == tensor.stored_dtype &&
           is_same(kind.scope, tensor.scope) && tensor.shape == kind.shape;
  };
  size_t hash = mixed(std::hash<const char*>()(tensor.scope.data()), std::hash<const DType*>()(tensor.dtype));
  for (const uint64_t dimension : tensor.shape) hash = mixed(hash, dimension);
  const auto make = [&] { return Kind{tensor.dtype, tensor.stored_dtype, tensor.scope, tensor.shape}; };
  return recent_kinds_.find_or_add(kinds_, hash, is_equal, make);
}

uint32_t TensorList::source_of(const SourcePtr& source) {
  if (source == nullptr) return kRefused;
  const auto is_equal = [&](const SourcePtr& known) { return known == source; };
  return recent_sources_.find_or_add(sources_, mixed(0, std::hash<SourcePtr>()(source)), is_equal,
                                     [&] { return source; });
}

std::optional<uint64_t> elements_of(ShapeView shape, uint64_t factor) {
  uint64_t out = 1;
  for (const uint64_t dimension : shape)
    if (__builtin_mul_overflow(out, dimension, &out)) return std::nullopt;
  return __builtin_mul_overflow(out, factor, &out) ? std::nullopt : std::optional(out);
}

std::optional<uint64_t> size_in_bytes(const DType& dtype, ShapeView shape) {
  if (dtype.block_bytes == 0) return std::nullopt;
  if (dtype.packed_bits > 0) {
    const auto bits = elements_of(shape, dtype.packed_bits);
    return bits ? std::optional(*bits / 8 + (*bits % 8 == 0 ? 0 : 1)) : std::nullopt;
  }
  const auto elements = elements_of(shape);
  if (!elements) return std::nullopt;
  const uint64_t row = dtype.spans_rows || shape.empty() ? *elements : shape.back();
  if (row % dtype.block != 0) return std::nullopt;
  uint64_t size = 0;
  return __builtin_mul_overflow(*elements / dtype.block, dtype.block_bytes, &size) ? std::nullopt : std::optional(size);
}

uint64_t listed_bytes(const TensorList& tensors, size_t i) {
  if (!tensors.is_refused(i)) return tensors.nbytes(i);
  return size_in_bytes(*tensors.dtype(i), tensors.shape(i)).value_or(0);
}

}  // namespace weightfs
