#include "formats/summary/tensors/groups.h"

#include <algorithm>
#include <array>
#include <span>

namespace weightfs::summary {
namespace {

constexpr std::array<uint64_t, 6> kBitsOfWeights = {2, 3, 4, 5, 6, 8};

bool is_one_of_bits(uint64_t bits) { return std::ranges::find(kBitsOfWeights, bits) != kBitsOfWeights.end(); }

uint64_t groups_in(uint64_t size, uint64_t group_size) { return size / group_size + (size % group_size != 0 ? 1 : 0); }

Number product_of(std::span<const uint64_t> sizes) {
  Number out = 1;
  for (const uint64_t size : sizes) out = product(out, size);
  return out;
}

// Whether a row of scales is for one row of weights, or for a block of rows.
bool has_rows_of(std::span<const uint64_t> scale, std::span<const uint64_t> weight, uint64_t group_size) {
  if (std::ranges::equal(scale, weight)) return true;
  return std::ranges::equal(scale.first(scale.size() - 1), weight.first(weight.size() - 1)) &&
         scale.back() == groups_in(weight.back(), group_size);
}

// Rows whose last group need not be full: the number of scales of a row is rounded up.
std::optional<Unpacked> unpack_rows(const ScaledShapes& shapes, uint64_t group_size, Number stated) {
  const size_t rank = shapes.weight.size();
  if (rank < 2 || shapes.scale.size() != rank ||
      !has_rows_of(shapes.scale.first(rank - 1), shapes.weight.first(rank - 1), group_size))
    return std::nullopt;
  const Number row_bits = product(shapes.weight.back(), shapes.bits);
  const Number rows = product_of(shapes.weight.first(rank - 1));
  std::optional<Unpacked> found;
  size_t count = 0;
  for (const uint64_t bits : kBitsOfWeights) {
    if (!row_bits || *row_bits % bits != 0 || groups_in(*row_bits / bits, group_size) != shapes.scale.back()) continue;
    const Number elements = product(rows, *row_bits / bits);
    if (!elements) return std::nullopt;
    if (!found || bits == stated) found = Unpacked{*elements, bits};
    ++count;
  }
  const bool is_decided = count == 1 || (found && stated == found->bits);
  return is_decided ? found : std::nullopt;
}

}  // namespace

Number bits_of(const DType& dtype) {
  if (dtype.packed_bits > 0) return dtype.packed_bits;
  if (dtype.block != 1 || dtype.block_bytes == 0) return std::nullopt;
  return uint64_t{8} * dtype.block_bytes;
}

bool ScaledShapes::is_scaled_by_row() const {
  const Number scales = elements_of(scale);
  if (!scales || weight.empty()) return false;
  if (*scales == 1) return true;
  const auto rows = weight.first(weight.size() - 1);
  if (std::ranges::equal(scale, rows)) return true;
  // A column of scales for twice as many rows: two rows are packed into one.
  if (scale.size() == weight.size() && scale.front() == *scales && product(weight.front(), 2) == scales) return false;
  if (std::ranges::count_if(scale, [](uint64_t size) { return size != 1; }) == 1)
    return *scales == weight.front() || *scales == weight.back() || scales == product_of(rows);
  if (scale.size() != weight.size()) return false;
  size_t ones = 0;
  for (size_t i = 0; i < scale.size(); ++i) {
    if (scale[i] != 1 && scale[i] != weight[i]) return false;
    if (scale[i] == 1) ++ones;
  }
  return ones > 0;
}

bool ScaledShapes::has_side_of_scales(uint64_t elements) const {
  if (weight.size() != 2 || scale.size() != 2) return true;
  return std::ranges::any_of(scale, [&](uint64_t side) {
    return side == weight.front() || side == weight.back() || product(side, weight.front()) == elements ||
           product(side, weight.back()) == elements;
  });
}

std::optional<Unpacked> unpack_by_groups(const ScaledShapes& shapes, uint64_t group_size, Number stated) {
  if (group_size == 0) return std::nullopt;
  const Number stored = shapes.stored_bits();
  const Number elements = product(elements_of(shapes.scale), group_size);
  if (!stored || !elements || *elements == 0) return std::nullopt;
  if (*stored % *elements == 0 && is_one_of_bits(*stored / *elements)) return Unpacked{*elements, *stored / *elements};
  return unpack_rows(shapes, group_size, stated);
}

}  // namespace weightfs::summary
