#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/cancel.h"
#include "base/os/tmpfile.h"
#include "formats/hdf5/contents.h"
#include "formats/hdf5/filters.h"

namespace weightfs::hdf5 {
namespace {

// A row of chunks up to this size is kept in memory.
constexpr uint64_t kMaxInMemory = 4 << 20;

// No filter makes a chunk larger than this.
constexpr uint64_t kMaxStoredExpansion = 2;
constexpr uint64_t kFreeStored = 64 << 10;

// The bytes of a row of chunks: in memory, or in a temporary file that grows with what is written to it.
class Row {
 public:
  Result<void> allocate(uint64_t size) {
    if (size > kMaxInMemory)
      file_ = TRY(ScratchFile::create(size));
    else
      memory_.resize(size);
    return {};
  }

  /// The bytes; the first `size` can be written.
  Result<char*> grow(uint64_t size) {
    if (file_ != nullptr) TRY_VOID(file_->grow(size));
    return data();
  }

  char* data() { return file_ == nullptr ? memory_.data() : reinterpret_cast<char*>(file_->data()); }

  void drop_pages() {
    if (file_ != nullptr) file_->drop_pages();
  }

 private:
  std::string memory_;
  std::unique_ptr<ScratchFile> file_;
};

class ChunkStream final : public Stream {
 public:
  ChunkStream(const Origin& origin, std::shared_ptr<const Dataset> dataset)
      : origin_(origin),
        dataset_(std::move(dataset)),
        grid_(grid_of(dataset_->space.dimensions, dataset_->layout.chunk)),
        chunk_bytes_(chunk_bytes(*dataset_).value_or(0)) {
    row_bytes_ = dataset_->type.size;
    chunks_in_row_ = 1;
    for (size_t i = 1; i < grid_.size(); ++i) {
      row_bytes_ *= dimensions()[i];
      chunks_in_row_ *= grid_[i];
    }
  }

  /// Reads the index of the chunks.
  Result<void> start() {
    Metadata metadata(*origin_.file, nullptr);
    chunks_ = TRY(Chunks::read(metadata, origin_, *dataset_));
    return row_.allocate(row_of_chunks(*dataset_));
  }

  Result<size_t> next(std::span<std::byte> out) override {
    if (at_ == end_) {
      if (next_row_ == grid_[0]) return size_t{0};
      begin_row(next_row_++);
    }
    if (most_stored_ == 0) return fill(out);
    if (at_ == decoded_) TRY_VOID(decode_some(out.size()));
    const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), decoded_ - at_));
    std::memcpy(out.data(), row_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  const Shape& dimensions() const { return dataset_->space.dimensions; }
  const Shape& chunk() const { return dataset_->layout.chunk; }

  void begin_row(uint64_t row) {
    at_ = decoded_ = 0;
    end_ = std::min(chunk()[0], dimensions()[0] - row * chunk()[0]) * row_bytes_;
    next_chunk_ = row * chunks_in_row_;
    row_end_ = next_chunk_ + chunks_in_row_;
    most_stored_ = 0;
    for (uint64_t i = next_chunk_; i < row_end_; ++i)
      if (const auto chunk = chunks_.find(i))
        most_stored_ = std::max(most_stored_, std::min(chunk->size, max_stored()));
  }

  uint64_t max_stored() const { return kMaxStoredExpansion * chunk_bytes_ + kFreeStored; }

  // The fill value; empty for zeros.
  std::string_view element() const {
    return dataset_->fill.size() == dataset_->type.size ? std::string_view(dataset_->fill) : std::string_view();
  }

  // Fills `out` from a row without stored chunks.
  size_t fill(std::span<std::byte> out) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), end_ - at_));
    fill_with(element(), at_, out.first(count));
    at_ += count;
    return count;
  }

  // Decodes chunks until `wanted` more bytes of the row are complete, or all.
  Result<void> decode_some(uint64_t wanted) {
    const uint64_t need = std::min(wanted, end_ - decoded_);
    const Loan loan = TRY(Loan::take(origin_.budget, chunk_bytes_ + std::max(most_stored_, chunk_bytes_) + end_));
    for (const uint64_t before = decoded_; decoded_ - before < need;) {
      const std::string bytes = TRY(contents_of(next_chunk_));
      TRY_VOID(copy(bytes, next_chunk_));
      ++next_chunk_;
      // All that comes before the first element of the next chunk is in this one and earlier ones.
      decoded_ = next_chunk_ == row_end_ ? end_ : offset_in_row(begin_of(next_chunk_), {});
    }
    row_.drop_pages();
    return {};
  }

  Result<std::string> contents_of(uint64_t number) const {
    if (is_cancelled()) return failure(Code::resource, "cancelled before all chunks were decoded");
    const auto chunk = chunks_.find(number);
    return chunk ? decode(*chunk) : filled();
  }

  // A chunk that was never written.
  std::string filled() const {
    std::string bytes(chunk_bytes_, '\0');
    if (!element().empty()) fill_with(element(), 0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

  Result<std::string> decode(const Chunk& chunk) const {
    const auto about = [&](const Error& error) {
      return Error{error.code, fmt::format("chunk {}: {}", chunk.number, error.message)};
    };
    const uint64_t there = origin_.file->bytes->size() - origin_.file->base;
    if (chunk.address > there || chunk.size > there - chunk.address)
      return failure(
          about({Code::corrupt, fmt::format("{} bytes at address {} of {}", chunk.size, chunk.address, there)}));
    if (chunk.size > max_stored())
      return failure(about({Code::corrupt, fmt::format("{} bytes are stored for {}", chunk.size, chunk_bytes_)}));
    const auto stored = TRY(slice(origin_.file->bytes, origin_.file->base + chunk.address, chunk.size));
    const bool raw = dataset_->layout.edges_unfiltered && is_partial(chunk.number);
    return undo_filters(std::make_shared<Slice>(stored), dataset_->filters, raw ? ~uint32_t{0} : chunk.mask,
                        chunk_bytes_)
        .map_error(about);
  }

  // The place of a chunk along each dimension, in elements.
  Shape begin_of(uint64_t number) const {
    Shape begin(grid_.size());
    for (size_t i = grid_.size(); i-- > 0; number /= grid_[i]) begin[i] = number % grid_[i] * chunk()[i];
    return begin;
  }

  bool is_partial(uint64_t number) const {
    const Shape begin = begin_of(number);
    for (size_t i = 0; i < begin.size(); ++i)
      if (dimensions()[i] - begin[i] < chunk()[i]) return true;
    return false;
  }

  // Copies the part of a chunk that is inside of the dataset into the row.
  Result<void> copy(const std::string& bytes, uint64_t number) {
    const Shape begin = begin_of(number);
    const size_t rank = begin.size();
    Shape extent(rank);
    for (size_t i = 0; i < rank; ++i) extent[i] = std::min(chunk()[i], dimensions()[i] - begin[i]);
    // Dimensions from `inner` on are copied at once.
    size_t inner = rank - 1;
    while (inner > 0 && chunk()[inner] == dimensions()[inner]) --inner;
    uint64_t run = dataset_->type.size * extent[inner];
    for (size_t i = inner + 1; i < rank; ++i) run *= extent[i];
    Shape at(inner);  // in the chunk
    Shape last(rank);
    for (size_t i = 0; i < inner; ++i) last[i] = extent[i] - 1;
    char* const row = TRY(row_.grow(offset_in_row(begin, last) + run));
    // The innermost of the other dimensions.
    const uint64_t count = inner == 0 ? 1 : extent[inner - 1];
    const uint64_t row_step = inner == 0 ? 0 : step_of(dimensions(), inner - 1);
    const uint64_t chunk_step = inner == 0 ? 0 : step_of(chunk(), inner - 1);
    for (;;) {
      char* to = row + offset_in_row(begin, at);
      const char* from = bytes.data() + offset_in_chunk(at);
      for (uint64_t i = 0; i < count; ++i, to += row_step, from += chunk_step) std::memcpy(to, from, run);
      size_t i = inner == 0 ? 0 : inner - 1;
      while (i > 0 && ++at[i - 1] == extent[i - 1]) at[--i] = 0;
      if (i == 0) return {};
    }
  }

  // The bytes from one index of a dimension to the next.
  uint64_t step_of(const Shape& sizes, size_t dimension) const {
    uint64_t step = dataset_->type.size;
    for (size_t i = dimension + 1; i < sizes.size(); ++i) step *= sizes[i];
    return step;
  }

  // Offsets in bytes of the element `at` of a chunk that begins at `begin`; dimensions that `at` lacks are zero.
  uint64_t offset_in_chunk(const Shape& at) const {
    uint64_t offset = 0;
    for (size_t i = 0; i < grid_.size(); ++i) offset = offset * chunk()[i] + (i < at.size() ? at[i] : 0);
    return offset * dataset_->type.size;
  }
  uint64_t offset_in_row(const Shape& begin, const Shape& at) const {
    uint64_t offset = 0;
    for (size_t i = 0; i < grid_.size(); ++i)
      offset = offset * dimensions()[i] + (i == 0 ? 0 : begin[i]) + (i < at.size() ? at[i] : 0);
    return offset * dataset_->type.size;
  }

  Origin origin_;
  std::shared_ptr<const Dataset> dataset_;
  Shape grid_;
  uint64_t chunk_bytes_;
  uint64_t row_bytes_, chunks_in_row_;
  Chunks chunks_;
  Row row_;  // of chunks, in the order of the dataset
  uint64_t next_row_ = 0;
  uint64_t next_chunk_ = 0, row_end_ = 0;    // the chunks of the row that are not decoded yet
  uint64_t most_stored_ = 0;                 // of these chunks, bytes
  uint64_t at_ = 0, decoded_ = 0, end_ = 0;  // in row_
};

}  // namespace

Result<StreamPtr> chunk_stream(const Origin& origin, std::shared_ptr<const Dataset> dataset) {
  auto stream = std::make_unique<ChunkStream>(origin, std::move(dataset));
  TRY_VOID(stream->start());
  return stream;
}

}  // namespace weightfs::hdf5
