#include "formats/tflite/strings.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/common/cursor.h"

namespace weightfs::tflite {
namespace {

// The memory of an element besides its bytes, and the most bytes that a byte takes as UTF-8.
constexpr uint64_t kStringSize = sizeof(std::string);
constexpr uint64_t kUtf8Growth = 3;

Result<uint64_t> read_count(Cursor& cursor, const Shape& shape) {
  const auto count = TRY(cursor.number<int32_t>());
  if (count < 0 || elements_of(shape) != static_cast<uint64_t>(count))
    return failure(Code::corrupt, fmt::format("has {} strings, which is not the number of its shape", count));
  return cursor.bounded(static_cast<uint64_t>(count), sizeof(int32_t));
}

Result<std::vector<int32_t>> read_offsets(Cursor& cursor, uint64_t count, uint64_t size) {
  std::vector<int32_t> offsets;
  offsets.reserve(count + 1);
  for (uint64_t i = 0; i <= count; ++i) {
    const auto offset = TRY(cursor.number<int32_t>());
    const int32_t before = offsets.empty() ? 0 : offsets.back();
    if (offset < before || static_cast<uint64_t>(offset) > size)
      return failure(Code::corrupt, fmt::format("has string {} at {}, before {} or outside", i, offset, before));
    offsets.push_back(offset);
  }
  return offsets;
}

Result<Strings> read_strings(const Slice& bytes, const Shape& shape, Budget& budget, OffsetsFrom from) {
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::input, bytes.size()));
  Cursor cursor(bytes, 0, bytes.size());
  const uint64_t count = TRY(read_count(cursor, shape));
  TRY_VOID(charges.charge(Cost::kept, kUtf8Growth * bytes.size() + (kStringSize + sizeof(int32_t)) * count));
  const uint64_t before_text = std::min((count + 2) * sizeof(int32_t), bytes.size());
  const uint64_t base = from == OffsetsFrom::text ? before_text : 0;
  const auto offsets = TRY(read_offsets(cursor, count, bytes.size() - base));
  auto strings = std::make_shared<std::vector<std::string>>();
  strings->reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto begin = static_cast<uint64_t>(offsets[i]);
    const uint64_t size = static_cast<uint64_t>(offsets[i + 1]) - begin;
    strings->push_back(to_utf8(TRY(read_text(bytes, base + begin, size))));
  }
  charges.keep();
  return strings;
}

}  // namespace

Later<Strings> later_strings(const Tensor& tensor, const BudgetPtr& budget, OffsetsFrom offsets) {
  return Later<Strings>([=, bytes = tensor.source, shape = tensor.shape, name = tensor.name]() -> Result<Strings> {
    return read_strings(bytes, shape, *budget, offsets).map_error([&](const Error& error) {
      return Error{error.code, fmt::format("tensor {}: {}", quoted(name), error.message)};
    });
  });
}

}  // namespace weightfs::tflite
