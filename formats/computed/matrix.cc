#include "formats/computed/matrix.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace weightfs::computed {
namespace {

constexpr uint64_t kTile = uint64_t{1} << 19;       // elements: the fewer tiles, the longer the reads of columns
constexpr size_t kMostTiles = 16;                   // more than threads read at once
constexpr uint64_t kWholeRows = uint64_t{1} << 18;  // bytes that are read at once, with what is between the columns
constexpr uint64_t kShortRow = uint64_t{1} << 13;   // bytes
static_assert(kTile >= kMaxColumns);

class MatrixSource final : public Source {
 public:
  MatrixSource(MatrixPtr matrix, std::shared_ptr<RecentTiles> recent)
      : matrix_(std::move(matrix)),
        recent_(std::move(recent)),
        number_(recent_->next_matrix()),
        rows_(std::max<uint64_t>(1, kTile / matrix_->columns())) {}

  uint64_t size() const override { return matrix_->rows() * matrix_->columns() * sizeof(float); }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_tiles(offset, out, Reading::some);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange) const override {
    return read_tiles(offset, out, Reading::all);
  }
  Result<void> prefetch(ByteRange) const override {
    for (const SourcePtr& part : matrix_->parts()) TRY_VOID(part->prefetch({0, part->size()}));
    return {};
  }
  std::shared_ptr<const void> keep_cached() const override {
    auto kept = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    for (const SourcePtr& part : matrix_->parts()) kept->push_back(part->keep_cached());
    return kept;
  }
  VerifiedBy verification() const override {
    VerifiedBy all = VerifiedBy::unknown;
    for (const SourcePtr& part : matrix_->parts()) all = worse(all, part->verification());
    return all;
  }

 private:
  Result<size_t> read_tiles(uint64_t offset, std::span<std::byte> out, Reading reading) const {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    const uint64_t tile_bytes = rows_ * matrix_->columns() * sizeof(float);
    for (size_t done = 0; done < wanted;) {
      const uint64_t at = offset + done;
      const RecentTiles::Tile tile = TRY(tile_at(at / tile_bytes, reading));
      const auto bytes = std::as_bytes(std::span(*tile)).subspan(static_cast<size_t>(at % tile_bytes));
      const size_t count = std::min(wanted - done, bytes.size());
      std::memcpy(out.data() + done, bytes.data(), count);
      done += count;
    }
    return wanted;
  }

  Result<RecentTiles::Tile> tile_at(uint64_t tile, Reading reading) const {
    if (auto known = recent_->find(number_, tile)) return known;
    const uint64_t first = tile * rows_;
    const uint64_t count = std::min(rows_, matrix_->rows() - first);
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(count * matrix_->columns()));
    TRY_VOID(matrix_->compute(first, *values, reading));
    recent_->add(number_, tile, values);
    return values;
  }

  MatrixPtr matrix_;
  std::shared_ptr<RecentTiles> recent_;
  uint64_t number_;
  uint64_t rows_;  // of a tile
};

}  // namespace

uint64_t RecentTiles::next_matrix() {
  const std::scoped_lock lock(mutex_);
  return matrices_++;
}

RecentTiles::Tile RecentTiles::find(uint64_t matrix, uint64_t tile) {
  const std::scoped_lock lock(mutex_);
  const auto is_it = [&](const Entry& entry) { return entry.matrix == matrix && entry.tile == tile; };
  const auto found = std::ranges::find_if(entries_, is_it);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->values;
}

void RecentTiles::add(uint64_t matrix, uint64_t tile, Tile values) {
  const std::scoped_lock lock(mutex_);
  entries_.push_front({matrix, tile, std::move(values)});
  if (entries_.size() > kMostTiles) entries_.pop_back();
}

SourcePtr source_of(MatrixPtr matrix, std::shared_ptr<RecentTiles> recent) {
  return std::make_shared<MatrixSource>(std::move(matrix), std::move(recent));
}

Result<void> read_part(const Source& source, uint64_t offset, std::span<std::byte> out, Reading reading) {
  if (reading == Reading::all) return read_exact(source, offset, out, {0, source.size()});
  return read_exact(source, offset, out);
}

Result<void> read_columns(const Source& source, const Columns& columns, std::span<std::byte> out, Reading reading) {
  const auto width = static_cast<size_t>(columns.width);
  if (columns.width == columns.pitch) return read_part(source, columns.begin, out, reading);
  // Short rows are read with what is between their columns, which takes less time than a read of each.
  const uint64_t at_once = columns.pitch > kShortRow ? 1 : kWholeRows / columns.pitch;
  std::vector<std::byte> rows;
  for (uint64_t row = 0; row < columns.rows; row += at_once) {
    const uint64_t count = std::min(at_once, columns.rows - row);
    const uint64_t offset = columns.begin + row * columns.pitch;
    const auto to = out.subspan(static_cast<size_t>(row) * width, static_cast<size_t>(count) * width);
    if (count == 1) {
      TRY_VOID(read_part(source, offset, to, reading));
      continue;
    }
    rows.resize(static_cast<size_t>((count - 1) * columns.pitch + columns.width));
    TRY_VOID(read_part(source, offset, rows, reading));
    for (size_t i = 0; i < count; ++i)
      std::memcpy(to.data() + i * width, rows.data() + i * static_cast<size_t>(columns.pitch), width);
  }
  return {};
}

namespace {

template <class Integer>
Result<std::vector<uint32_t>> listed_groups(const GroupIndex& index, uint64_t columns, Reading reading) {
  std::vector<Integer> listed(static_cast<size_t>(columns));
  TRY_VOID(read_part(*index.index, 0, std::as_writable_bytes(std::span(listed)), reading));
  std::vector<uint32_t> groups;
  groups.reserve(listed.size());
  for (const Integer group : listed) {
    if (group < 0 || static_cast<uint64_t>(group) >= index.groups)
      return failure(Code::corrupt, fmt::format("g_idx: group {} of {} groups", group, index.groups));
    groups.push_back(static_cast<uint32_t>(group));
  }
  return groups;
}

}  // namespace

Result<std::vector<uint32_t>> groups_of(const GroupIndex& index, uint64_t columns, Reading reading) {
  if (index.index != nullptr && index.index->size() == columns * sizeof(int64_t))
    return listed_groups<int64_t>(index, columns, reading);
  if (index.index != nullptr) return listed_groups<int32_t>(index, columns, reading);
  std::vector<uint32_t> groups(static_cast<size_t>(columns));
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<uint32_t>(i / index.size);
  return groups;
}

}  // namespace weightfs::computed
