#include "formats/computed/row_packed.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

namespace weightfs::computed {
namespace {

constexpr uint64_t kWordBytes = sizeof(uint32_t);

std::span<std::byte> bytes_of(std::vector<float>& numbers) { return std::as_writable_bytes(std::span(numbers)); }

class RowPackedMatrix final : public Matrix {
 public:
  explicit RowPackedMatrix(const RowPacked& packed) : its_(packed), in_word_(32 / std::max(packed.bits, 1U)) {}

  uint64_t rows() const override { return its_.outputs; }
  uint64_t columns() const override { return its_.inputs; }

  std::vector<SourcePtr> parts() const override {
    std::vector<SourcePtr> all;
    for (const SourcePtr& part : {its_.numbers, its_.words, its_.scales, its_.groups.index, its_.global, its_.zeros,
                                  its_.zero_words, its_.shape})
      if (part != nullptr) all.push_back(part);
    return all;
  }

  Result<void> compute(uint64_t first, std::span<float> out, Reading reading) const override {
    TRY_VOID(check_shape(reading));
    const uint64_t count = out.size() / its_.inputs;
    const auto groups = TRY(groups_of_inputs(reading));
    const uint64_t first_row = first / its_.rows_of_scale;
    const uint64_t scale_rows = (first + count - 1) / its_.rows_of_scale - first_row + 1;
    const auto scales = TRY(scales_of(first_row, scale_rows, reading));
    const auto zeros = TRY(zeros_of(first_row, scale_rows, reading));
    if (its_.numbers != nullptr)
      TRY_VOID(read_part(*its_.numbers, first * its_.inputs * sizeof(float), std::as_writable_bytes(out), reading));
    else
      TRY_VOID(unpack(first, out, reading));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t row = (first + i) / its_.rows_of_scale - first_row;
      const float* const scale = scales.data() + row * its_.groups.groups;
      const float* const zero = zeros.empty() ? nullptr : zeros.data() + row * its_.groups.groups;
      float* const weights = out.data() + i * its_.inputs;
      if (zero == nullptr)
        for (size_t k = 0; k < its_.inputs; ++k) weights[k] *= scale[groups[k]];
      else
        for (size_t k = 0; k < its_.inputs; ++k) weights[k] = (weights[k] - zero[groups[k]]) * scale[groups[k]];
    }
    return {};
  }

 private:
  Result<void> check_shape(Reading reading) const {
    if (its_.shape == nullptr) return {};
    const auto [outputs, inputs] = TRY(read_shape(*its_.shape, reading));
    if (outputs == its_.outputs && inputs == its_.inputs) return {};
    return failure(Code::corrupt, fmt::format("weight_shape is [{},{}]; expected [{},{}]", outputs, inputs,
                                              its_.outputs, its_.inputs));
  }

  // The groups that compressed-tensors lists must be of equal size: it sorts the columns by them.
  Result<std::vector<uint32_t>> groups_of_inputs(Reading reading) const {
    auto groups = TRY(groups_of(its_.groups, its_.inputs, reading));
    if (its_.groups.index == nullptr) return groups;
    std::vector<uint64_t> columns(static_cast<size_t>(its_.groups.groups));
    for (const uint32_t group : groups) ++columns[group];
    if (std::ranges::any_of(columns, [&](uint64_t size) { return size != its_.groups.size; }))
      return failure(Code::corrupt, fmt::format("weight_g_idx: not {} columns in each group", its_.groups.size));
    return groups;
  }

  Result<std::vector<float>> scales_of(uint64_t first_row, uint64_t rows, Reading reading) const {
    std::vector<float> scales(static_cast<size_t>(rows * its_.groups.groups));
    const uint64_t begin = first_row * its_.groups.groups * sizeof(float);
    TRY_VOID(read_part(*its_.scales, begin, bytes_of(scales), reading));
    if (its_.global == nullptr) return scales;
    std::vector<float> global(1);
    TRY_VOID(read_part(*its_.global, 0, bytes_of(global), reading));
    for (float& scale : scales) scale = its_.is_divided ? scale / global[0] : scale * global[0];
    return scales;
  }

  Result<std::vector<float>> zeros_of(uint64_t first_row, uint64_t rows, Reading reading) const {
    if (its_.zeros == nullptr && its_.zero_words == nullptr) return std::vector<float>();
    const uint64_t groups = its_.groups.groups;
    std::vector<float> zeros(static_cast<size_t>(rows * groups));
    if (its_.zeros != nullptr) {
      TRY_VOID(read_part(*its_.zeros, first_row * groups * sizeof(float), bytes_of(zeros), reading));
      return zeros;
    }
    const uint64_t begin = first_row / in_word_;
    std::vector<uint32_t> words(static_cast<size_t>(((first_row + rows - 1) / in_word_ - begin + 1) * groups));
    TRY_VOID(
        read_part(*its_.zero_words, begin * groups * kWordBytes, std::as_writable_bytes(std::span(words)), reading));
    for (uint64_t row = 0; row < rows; ++row)
      for (uint64_t group = 0; group < groups; ++group) {
        const uint32_t word = words[static_cast<size_t>(((first_row + row) / in_word_ - begin) * groups + group)];
        zeros[static_cast<size_t>(row * groups + group)] = integer_of(word, (first_row + row) % in_word_);
      }
    return zeros;
  }

  Result<void> unpack(uint64_t first, std::span<float> out, Reading reading) const {
    const uint64_t count = out.size() / its_.inputs;
    const uint64_t pitch = (its_.inputs + in_word_ - 1) / in_word_;
    std::vector<uint32_t> words(static_cast<size_t>(count * pitch));
    TRY_VOID(read_part(*its_.words, first * pitch * kWordBytes, std::as_writable_bytes(std::span(words)), reading));
    for (size_t i = 0; i < count; ++i)
      for (size_t word = 0, k = 0; k < its_.inputs; ++word)
        for (uint32_t place = 0; place < in_word_ && k < its_.inputs; ++place, ++k)
          out[i * its_.inputs + k] = integer_of(words[i * pitch + word], place);
    return {};
  }

  float integer_of(uint32_t word, uint64_t place) const {
    const uint32_t code = word >> static_cast<uint32_t>(place) * its_.bits & ((1U << its_.bits) - 1);
    return static_cast<float>(static_cast<int32_t>(code) - (1 << (its_.bits - 1)));
  }

  RowPacked its_;
  uint32_t in_word_;  // integers
};

}  // namespace

Result<std::pair<uint64_t, uint64_t>> read_shape(const Source& shape, Reading reading) {
  std::array<std::byte, 2 * sizeof(uint64_t)> bytes{};
  const size_t width = shape.size() == bytes.size() ? sizeof(uint64_t) : sizeof(uint32_t);
  TRY_VOID(read_part(shape, 0, std::span(bytes).first(2 * width), reading));
  std::pair<uint64_t, uint64_t> sizes{0, 0};
  std::memcpy(&sizes.first, bytes.data(), width);
  std::memcpy(&sizes.second, bytes.data() + width, width);
  return sizes;
}

MatrixPtr matrix_of(const RowPacked& packed) { return std::make_unique<RowPackedMatrix>(packed); }

}  // namespace weightfs::computed
