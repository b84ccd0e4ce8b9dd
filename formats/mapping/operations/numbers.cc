#include "formats/mapping/operations/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "formats/float32.h"

namespace weightfs::mapping {
namespace {

constexpr size_t kMostNumbers = 16 * 1024;  // numbers that are converted at once

void plus_one(std::span<float> numbers) {
  for (float& number : numbers) number += 1.0F;
}
void minus_one(std::span<float> numbers) {
  for (float& number : numbers) number -= 1.0F;
}
void decay(std::span<float> numbers) {
  for (float& number : numbers) number = -std::exp(number);
}
void exponent(std::span<float> numbers) {
  for (float& number : numbers) number = std::log(-number);
}

using Change = void (*)(std::span<float> numbers);

Change change_of(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::plus_one) return plus_one;
  if (arithmetic == Arithmetic::minus_one) return minus_one;
  if (arithmetic == Arithmetic::decay) return decay;
  return arithmetic == Arithmetic::exponent ? exponent : nullptr;
}

// Numbers of float32, changed and encoded when they are read.
class Encoded final : public Source {
 public:
  Encoded(SourcePtr floats, Change change, const Encoding& encoding)
      : floats_(std::move(floats)), change_(change), encoding_(encoding) {}

  uint64_t size() const override { return floats_->size() / sizeof(float) / encoding_.numbers * encoding_.bytes; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_blocks(offset, out, nullptr);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    const ByteRange range = floats_of(expected);
    return read_blocks(offset, out, &range);
  }
  Result<void> prefetch(ByteRange range) const override { return floats_->prefetch(floats_of(range)); }
  Result<CachedBytes> cached(ByteRange range) const override {
    const ByteRange floats = floats_of(range);
    return in_proportion(TRY(floats_->cached(floats)), floats.to - floats.from,
                         bytes_inside(size(), range.from, range.to - range.from));
  }
  std::shared_ptr<const void> keep_cached() const override { return floats_->keep_cached(); }
  VerifiedBy verification() const override { return floats_->verification(); }

 private:
  // The bytes of the numbers in a range of the encoded ones.
  ByteRange floats_of(ByteRange range) const {
    const uint64_t unit = encoding_.numbers * sizeof(float);
    const auto blocks = [&](uint64_t bytes) { return (bytes + encoding_.bytes - 1) / encoding_.bytes; };
    return {range.from / encoding_.bytes * unit, std::min(blocks(range.to) * unit, floats_->size())};
  }

  Result<size_t> read_blocks(uint64_t offset, std::span<std::byte> out, const ByteRange* expected) const {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    std::vector<float> numbers;
    for (size_t done = 0; done < wanted;) {
      const uint64_t first = (offset + done) / encoding_.bytes;
      const auto skipped = static_cast<size_t>((offset + done) % encoding_.bytes);
      const uint64_t needed = (skipped + wanted - done + encoding_.bytes - 1) / encoding_.bytes;
      const auto blocks = static_cast<size_t>(std::min<uint64_t>(needed, kMostNumbers / encoding_.numbers));
      numbers.resize(blocks * encoding_.numbers);
      const auto bytes = std::as_writable_bytes(std::span(numbers));
      const uint64_t from = first * encoding_.numbers * sizeof(float);
      TRY_VOID(expected == nullptr ? read_exact(*floats_, from, bytes) : read_exact(*floats_, from, bytes, *expected));
      if (change_ != nullptr) change_(numbers);
      const size_t made = std::min(wanted - done, blocks * encoding_.bytes - skipped);
      encode(numbers.data(), skipped, out.subspan(done, made));
      done += made;
    }
    return wanted;
  }

  // Encodes numbers in place. The range begins `skipped` bytes behind the begin of a block, and may end within one.
  void encode(const float* numbers, size_t skipped, std::span<std::byte> out) const {
    std::array<std::byte, kMostBlockBytes> part;
    while (!out.empty()) {
      const size_t whole = skipped == 0 ? out.size() / encoding_.bytes : 0;
      const size_t made = whole > 0 ? whole * encoding_.bytes : std::min(encoding_.bytes - skipped, out.size());
      encoding_.encode(numbers, whole > 0 ? out.data() : part.data(), std::max<size_t>(whole, 1));
      if (whole == 0) std::memcpy(out.data(), part.data() + skipped, made);
      numbers += std::max<size_t>(whole, 1) * encoding_.numbers;
      out = out.subspan(made);
      skipped = 0;
    }
  }

  const SourcePtr floats_;
  const Change change_;  // null: none
  const Encoding encoding_;
};

struct TypeRow {
  std::string_view dtype;
  std::string_view ggml;
};

TypeRow row_of(GgufType type) {
  if (type == GgufType::float16) return {"float16", "F16"};
  if (type == GgufType::bfloat16) return {"bfloat16", "BF16"};
  return type == GgufType::q8_0 ? TypeRow{"q8_0", "Q8_0"} : TypeRow{"float32", "F32"};
}

}  // namespace

Result<Tensor> with_numbers(Tensor tensor, Arithmetic arithmetic, GgufType type) {
  if (type == GgufType::stored && arithmetic == Arithmetic::none) return tensor;
  const TypeRow row = row_of(type);
  const DType* const dtype = dtype_named(row.dtype);
  tensor.stored_dtype = row.ggml;
  if (arithmetic == Arithmetic::none && tensor.dtype == dtype) return tensor;
  if (tensor.source.refused() || !has_float32(*tensor.dtype))
    return failure(Code::unsupported, fmt::format("tensor {} of {} has no numbers that can be converted",
                                                  quoted(tensor.name), tensor.dtype->name));
  const Change change = change_of(arithmetic);
  SourcePtr source = float32_values(tensor);
  if (change != nullptr || dtype != dtype_named("float32"))
    source = std::make_shared<Encoded>(std::move(source), change, encoding_of(type));
  tensor.source = TRY(slice(source, 0, source->size()));
  tensor.dtype = dtype;
  return tensor;
}

Tensor float32_tensor(std::string name, const std::vector<float>& numbers) {
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype_named("float32");
  tensor.stored_dtype = "F32";
  tensor.shape = {numbers.size()};
  const uint64_t size = bytes.size();
  tensor.source = *slice(in_memory(std::move(bytes)), 0, size);
  return tensor;
}

}  // namespace weightfs::mapping
