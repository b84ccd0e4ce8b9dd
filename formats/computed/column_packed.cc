#include "formats/computed/column_packed.h"

#include <array>
#include <span>
#include <vector>

namespace weightfs::computed {
namespace {

constexpr uint64_t kWord = sizeof(uint32_t);

// The code of `bits` bits at a bit of words that are `pitch` apart. It may lie in two words.
uint32_t code_at(const uint32_t* words, uint64_t pitch, uint64_t bit, uint32_t bits) {
  const uint64_t word = bit / 32;
  const auto shift = static_cast<uint32_t>(bit % 32);
  uint32_t code = words[word * pitch] >> shift;
  if (shift + bits > 32) code |= words[(word + 1) * pitch] << (32 - shift);
  return code & ((1U << bits) - 1);
}

// The code of an output in words of eight outputs.
uint32_t code_of_eight(const uint32_t* words, uint64_t output) {
  static constexpr std::array<uint8_t, 8> kPlaces = {0, 4, 1, 5, 2, 6, 3, 7};
  return words[output / 8] >> kPlaces[output % 8] * 4U & 15U;
}

class ColumnPackedMatrix final : public Matrix {
 public:
  explicit ColumnPackedMatrix(const ColumnPacked& packed) : its_(packed) {}

  uint64_t rows() const override { return its_.outputs; }
  uint64_t columns() const override { return its_.inputs; }

  std::vector<SourcePtr> parts() const override {
    std::vector<SourcePtr> all{its_.weights, its_.scales};
    for (const SourcePtr& part : {its_.zeros, its_.groups.index})
      if (part != nullptr) all.push_back(part);
    return all;
  }

  Result<void> compute(uint64_t first, std::span<float> out, Reading reading) const override {
    const uint64_t count = out.size() / its_.inputs;
    const auto groups = TRY(groups_of_inputs(reading));
    const auto scales = TRY(scales_of(first, count, reading));
    const auto zeros = TRY(zeros_of(first, count, reading));
    return its_.order == ColumnPacked::Order::gptq ? compute_columns(first, out, groups, scales, zeros, reading)
                                                   : compute_eights(first, out, groups, scales, zeros, reading);
  }

 private:
  Result<std::vector<uint32_t>> groups_of_inputs(Reading reading) const {
    auto groups = TRY(groups_of(its_.groups, its_.inputs, reading));
    if (its_.groups.index == nullptr || !its_.is_in_order) return groups;
    for (size_t i = 0; i < groups.size(); ++i)
      if (groups[i] != i / its_.groups.size)
        return failure(Code::corrupt, "g_idx: groups are not in order, as desc_act false states");
    return groups;
  }

  // Reads the scale of each group and each of these outputs.
  Result<std::vector<float>> scales_of(uint64_t first, uint64_t count, Reading reading) const {
    std::vector<float> scales(static_cast<size_t>(its_.groups.groups * count));
    const Columns columns{its_.outputs * sizeof(float), first * sizeof(float), count * sizeof(float),
                          its_.groups.groups};
    TRY_VOID(read_columns(*its_.scales, columns, std::as_writable_bytes(std::span(scales)), reading));
    return scales;
  }

  Result<std::vector<float>> zeros_of(uint64_t first, uint64_t count, Reading reading) const {
    std::vector<float> zeros(static_cast<size_t>(its_.groups.groups * count), static_cast<float>(its_.zero));
    if (its_.zeros == nullptr) return zeros;
    const uint64_t begin = first * its_.bits / 32;
    const uint64_t width = ((first + count) * its_.bits + 31) / 32 - begin;
    std::vector<uint32_t> words(static_cast<size_t>(its_.groups.groups * width));
    const Columns columns{its_.outputs * its_.bits / 32 * kWord, begin * kWord, width * kWord, its_.groups.groups};
    TRY_VOID(read_columns(*its_.zeros, columns, std::as_writable_bytes(std::span(words)), reading));
    const uint32_t mask = (1U << its_.bits) - 1;
    for (uint64_t group = 0; group < its_.groups.groups; ++group) {
      const uint32_t* const row = words.data() + group * width;
      for (uint64_t i = 0; i < count; ++i) {
        const uint32_t stored = its_.order == ColumnPacked::Order::gptq
                                    ? code_at(row, 1, (first + i) * its_.bits - begin * 32, its_.bits)
                                    : code_of_eight(row, first + i - begin * 8);
        zeros[static_cast<size_t>(group * count + i)] = static_cast<float>((stored + its_.zero) & mask);
      }
    }
    return zeros;
  }

  Result<void> compute_columns(uint64_t first, std::span<float> out, std::span<const uint32_t> groups,
                               std::span<const float> scales, std::span<const float> zeros, Reading reading) const {
    const uint64_t count = out.size() / its_.inputs;
    const uint64_t word_rows = its_.inputs * its_.bits / 32;
    std::vector<uint32_t> words(static_cast<size_t>(word_rows * count));
    const Columns columns{its_.outputs * kWord, first * kWord, count * kWord, word_rows};
    TRY_VOID(read_columns(*its_.weights, columns, std::as_writable_bytes(std::span(words)), reading));
    for (size_t i = 0; i < count; ++i)
      for (size_t k = 0; k < its_.inputs; ++k) {
        const size_t at = groups[k] * static_cast<size_t>(count) + i;
        const uint32_t code = code_at(words.data() + i, count, k * its_.bits, its_.bits);
        out[i * its_.inputs + k] = scales[at] * (static_cast<float>(code) - zeros[at]);
      }
    return {};
  }

  Result<void> compute_eights(uint64_t first, std::span<float> out, std::span<const uint32_t> groups,
                              std::span<const float> scales, std::span<const float> zeros, Reading reading) const {
    const uint64_t count = out.size() / its_.inputs;
    const uint64_t begin = first / 8;
    const uint64_t width = (first + count + 7) / 8 - begin;
    std::vector<uint32_t> words(static_cast<size_t>(its_.inputs * width));
    const Columns columns{its_.outputs / 8 * kWord, begin * kWord, width * kWord, its_.inputs};
    TRY_VOID(read_columns(*its_.weights, columns, std::as_writable_bytes(std::span(words)), reading));
    for (size_t i = 0; i < count; ++i)
      for (size_t k = 0; k < its_.inputs; ++k) {
        const size_t at = groups[k] * static_cast<size_t>(count) + i;
        const uint32_t code = code_of_eight(words.data() + k * width, first + i - begin * 8);
        out[i * its_.inputs + k] = scales[at] * (static_cast<float>(code) - zeros[at]);
      }
    return {};
  }

  ColumnPacked its_;
};

}  // namespace

MatrixPtr matrix_of(const ColumnPacked& packed) { return std::make_unique<ColumnPackedMatrix>(packed); }

}  // namespace weightfs::computed
