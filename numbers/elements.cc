#include "numbers/elements.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "base/text.h"
#include "formats/float32.h"

namespace weightfs::numbers {

// A row of the table of types: how stored elements become those of a form.
struct Elements::Type {
  std::string_view descr;
  Form form;
  bool is_narrow;
  size_t width;  // bytes of a stored element
  Convert convert;
  double (*value_of)(uint16_t);
};

namespace {

template <class Stored>
void swap_patterns(const std::byte* from, std::byte* to, size_t count) {
  static_assert(sizeof(Stored) == 2);
  for (size_t i = 0; i < count; ++i) {
    Stored value = 0;
    std::memcpy(&value, from + 2 * i, 2);
    value = __builtin_bswap16(value);
    std::memcpy(to + 2 * i, &value, 2);
  }
}

template <class Number, std::endian order>
void to_doubles(const std::byte* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    std::array<std::byte, sizeof(Number)> bytes;
    std::memcpy(bytes.data(), from + i * sizeof(Number), sizeof(Number));
    if (order != std::endian::native) std::reverse(bytes.begin(), bytes.end());
    const auto value = static_cast<double>(std::bit_cast<Number>(bytes));
    std::memcpy(to + i * sizeof(double), &value, sizeof(double));
  }
}

double half_pattern(uint16_t pattern) { return half_to_float(pattern); }
double upper_half(uint16_t pattern) { return std::bit_cast<float>(uint32_t{pattern} << 16); }
double signed_pattern(uint16_t pattern) { return static_cast<int16_t>(pattern); }
double unsigned_pattern(uint16_t pattern) { return pattern; }

constexpr auto kLittle = std::endian::little;
constexpr auto kBig = std::endian::big;

}  // namespace

const Elements::Type* Elements::type_of(const DType& dtype) {
  constexpr auto kSwap = swap_patterns<uint16_t>;
  static constexpr Type kBfloat16 = {"", Form::patterns, true, 2, nullptr, upper_half};
  static constexpr Type kBigBfloat16 = {"", Form::patterns, true, 2, kSwap, upper_half};
  static constexpr std::array kTypes = {
      Type{"<f2", Form::patterns, true, 2, nullptr, half_pattern},
      Type{">f2", Form::patterns, true, 2, kSwap, half_pattern},
      Type{"<i2", Form::patterns, true, 2, nullptr, signed_pattern},
      Type{">i2", Form::patterns, true, 2, kSwap, signed_pattern},
      Type{"<u2", Form::patterns, true, 2, nullptr, unsigned_pattern},
      Type{"<f8", Form::doubles, false, 8, nullptr, nullptr},
      Type{">f8", Form::doubles, false, 8, to_doubles<double, kBig>, nullptr},
      Type{"<i4", Form::doubles, false, 4, to_doubles<int32_t, kLittle>, nullptr},
      Type{">i4", Form::doubles, false, 4, to_doubles<int32_t, kBig>, nullptr},
      Type{"<u4", Form::doubles, false, 4, to_doubles<uint32_t, kLittle>, nullptr},
      Type{"<i8", Form::doubles, false, 8, to_doubles<int64_t, kLittle>, nullptr},
      Type{">i8", Form::doubles, false, 8, to_doubles<int64_t, kBig>, nullptr},
      Type{"<u8", Form::doubles, false, 8, to_doubles<uint64_t, kLittle>, nullptr},
  };
  if (dtype.name == "bfloat16") return dtype.order == ByteOrder::big ? &kBigBfloat16 : &kBfloat16;
  for (const Type& type : kTypes)
    if (type.descr == dtype.npy_descr) return &type;
  return nullptr;
}

const Elements::Type& Elements::float32_type(bool is_narrow) {
  static constexpr Type kFloat32 = {"", Form::floats, false, sizeof(float), nullptr, upper_half};
  static constexpr Type kNarrow = {"", Form::floats, true, sizeof(float), nullptr, upper_half};
  return is_narrow ? kNarrow : kFloat32;
}

Elements::Elements(SourcePtr source, uint64_t count, const Type& type)
    : source_(std::move(source)),
      count_(count),
      form_(type.form),
      is_narrow_(type.is_narrow),
      stored_width_(type.width),
      convert_(type.convert),
      value_of_(type.value_of) {}

Result<Elements> Elements::of(const TensorView& tensor) {
  const DType& dtype = *tensor.dtype;
  if (tensor.source.refused())
    return failure(&dtype == &kUnknownDType ? Code::unsupported : Code::corrupt, "refused: see warnings.txt");
  const uint64_t count = element_count(tensor.shape);
  if (const Type* const type = type_of(dtype)) {
    Elements out(std::make_shared<Slice>(tensor.source), count, *type);
    if (type->form == Form::patterns) out.values_ = float32_values(tensor);
    return out;
  }
  if (!has_float32(dtype))
    return failure(Code::unsupported,
                   fmt::format("type {} has no numbers",
                               &dtype == &kUnknownDType ? quoted(tensor.stored_dtype) : std::string(dtype.name)));
  // All types of at most 8 bits have at most 8 significant bits, as the upper half of a float32.
  const bool is_narrow = dtype.block_bytes == dtype.block || dtype.packed_bits > 0 || dtype.spans_rows;
  return Elements(float32_values(tensor), count, float32_type(is_narrow));
}

std::vector<ElementRange> Elements::chunks() const {
  const uint64_t size = std::max(kMinChunk, (count_ / kMaxChunks / kBlock + 1) * kBlock);
  std::vector<ElementRange> out;
  for (uint64_t first = 0; first < count_; first += size) out.push_back({first, std::min(size, count_ - first)});
  return out;
}

std::vector<ElementRange> Elements::sample(uint64_t row) const {
  if (count_ <= kSampledRows * kMaxSampledRow) return chunks();
  // Without rows, and of a few long ones, pieces are taken.
  const uint64_t length = row == 0 || count_ / row < kSampledRows ? std::min(kMaxSampledRow, count_) : row;
  const uint64_t rows = count_ / length;
  std::vector<ElementRange> out;
  for (uint64_t i = 0; i < kSampledRows; ++i) {
    const uint64_t at = rows / kSampledRows * i + rows % kSampledRows * i / kSampledRows;
    out.push_back({at * length, std::min(length, kMaxSampledRow)});
  }
  return out;
}

Result<Elements> Elements::loaded() const {
  Elements out = *this;
  if (count_ > kBlock) return out;
  std::string bytes(static_cast<size_t>(count_) * stored_width_, '\0');
  TRY_VOID(read_bytes(*source_, 0, std::as_writable_bytes(std::span(bytes))));
  out.source_ = in_memory(std::move(bytes));
  return out;
}

Result<void> Elements::read_bytes(const Source& source, uint64_t offset, std::span<std::byte> out) const {
  const size_t got =
      reads_all_ ? TRY(source.read_ahead(offset, out, {0, source.size()})) : TRY(source.read(offset, out));
  if (got < out.size()) return failure(Code::corrupt, "the tensor ends before its size");
  return {};
}

Result<void> Elements::read_into(uint64_t first, size_t count, std::span<std::byte> out) const {
  if (convert_ == nullptr) return read_bytes(*source_, first * stored_width_, out);
  std::vector<std::byte> stored(count * stored_width_);
  TRY_VOID(read_bytes(*source_, first * stored_width_, stored));
  convert_(stored.data(), out.data(), count);
  return {};
}

Result<void> Elements::read(uint64_t first, std::span<float> out) const {
  const auto bytes = std::as_writable_bytes(out);
  if (form_ == Form::floats) return read_into(first, out.size(), bytes);
  return read_bytes(*values_, first * sizeof(float), bytes);
}

Result<void> Elements::read(uint64_t first, std::span<double> out) const {
  if (form_ == Form::doubles) return read_into(first, out.size(), std::as_writable_bytes(out));
  std::vector<float> values(std::min(out.size(), kRead));
  while (!out.empty()) {
    const auto some = std::span(values).first(std::min(out.size(), kRead));
    TRY_VOID(read(first, some));
    std::ranges::copy(some, out.begin());
    out = out.subspan(some.size());
    first += some.size();
  }
  return {};
}

uint64_t row_length(ShapeView shape) {
  constexpr uint64_t kMinColumns = 32;
  if (shape.size() < 2) return 0;
  if (shape.size() == 2 || (shape.size() == 3 && shape.back() >= kMinColumns)) return shape.back();
  uint64_t length = 1;
  for (const uint64_t size : shape.subspan(1)) length *= size;
  return length;
}

}  // namespace weightfs::numbers
