#include "cli/compare/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/text.h"
#include "formats/float32.h"

namespace weightfs::compare {
namespace {

template <class Number, std::endian order>
void convert(const std::byte* from, double* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    std::array<std::byte, sizeof(Number)> bytes;
    std::memcpy(bytes.data(), from + i * sizeof(Number), sizeof(Number));
    if (order != std::endian::native) std::reverse(bytes.begin(), bytes.end());
    to[i] = static_cast<double>(std::bit_cast<Number>(bytes));
  }
}

struct WideType {
  std::string_view descr;
  size_t width;
  void (*convert)(const std::byte*, double*, size_t);
};

constexpr auto kLittle = std::endian::little;
constexpr auto kBig = std::endian::big;

// The types of which float32 would lose digits.
constexpr std::array kWideTypes = {
    WideType{"<f8", 8, convert<double, kLittle>},   WideType{">f8", 8, convert<double, kBig>},
    WideType{"<i4", 4, convert<int32_t, kLittle>},  WideType{">i4", 4, convert<int32_t, kBig>},
    WideType{"<u4", 4, convert<uint32_t, kLittle>}, WideType{"<i8", 8, convert<int64_t, kLittle>},
    WideType{">i8", 8, convert<int64_t, kBig>},     WideType{"<u8", 8, convert<uint64_t, kLittle>},
};

}  // namespace

Result<Numbers> Numbers::of(const TensorView& tensor) {
  if (tensor.source.refused()) return failure(Code::corrupt, "refused: see warnings.txt");
  const DType& dtype = *tensor.dtype;
  const uint64_t count = element_count(tensor.shape);
  for (const WideType& wide : kWideTypes)
    if (wide.descr == dtype.npy_descr)
      return Numbers(std::make_shared<Slice>(tensor.source), count, wide.width, wide.convert);
  if (!has_float32(dtype))
    return failure(Code::unsupported,
                   fmt::format("type {} has no numbers",
                               &dtype == &kUnknownDType ? quoted(tensor.stored_dtype) : std::string(dtype.name)));
  return Numbers(float32_values(tensor), count, sizeof(float), convert<float, kLittle>);
}

Result<void> Numbers::read(uint64_t first, std::span<double> out) const {
  std::array<std::byte, kBlock * sizeof(double)> bytes;
  while (!out.empty()) {
    const size_t count = std::min(out.size(), kBlock);
    const auto wanted = std::span(bytes).first(count * width_);
    if (TRY(source_->read_ahead(first * width_, wanted, {0, source_->size()})) < wanted.size())
      return failure(Code::corrupt, "the tensor ends before its size");
    convert_(bytes.data(), out.data(), count);
    out = out.subspan(count);
    first += count;
  }
  return {};
}

void ExactSum::add(double term) {
  const double sum = sum_ + term;
  rest_ += std::abs(sum_) >= std::abs(term) ? (sum_ - sum) + term : (term - sum) + sum_;
  sum_ = sum;
}

// After an overflow the errors are not numbers.
double ExactSum::value() const { return std::isfinite(sum_) ? sum_ + rest_ : sum_; }

}  // namespace weightfs::compare
