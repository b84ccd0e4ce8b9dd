#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/os/system_error.h"
#include "base/os/tmpfile.h"
#include "formats/hdf5/contents.h"
#include "formats/hdf5/filters.h"

namespace weightfs::hdf5 {
namespace {

// A row of chunks up to this size is kept in memory.
constexpr uint64_t kMaxInMemory = 16 << 20;

// Bytes in memory, or in an unlinked temporary file.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (mapped_ != nullptr) ::munmap(mapped_, size_);
  }

  /// Allocates the bytes. Fails with io if the file cannot be made.
  Result<void> allocate(uint64_t size) {
    size_ = size;
    if (size <= kMaxInMemory) {
      memory_.resize(size);
      return {};
    }
    const std::string directory = tmpfile_directories().front();
    const int fd = open_tmpfile(directory);
    // Allocated now: a page without disk space would end the process when it is written (SIGBUS).
    const int error = fd < 0 ? errno : ::posix_fallocate(fd, 0, static_cast<off_t>(size));
    void* memory = error == 0 ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    const int problem = error != 0 ? error : errno;
    if (fd >= 0) ::close(fd);
    if (memory == MAP_FAILED)
      return failure(Code::io,
                     fmt::format("no temporary file of {} bytes in {}: {}", size, directory, errno_text(problem)));
    mapped_ = memory;
    return {};
  }

  char* data() { return mapped_ != nullptr ? static_cast<char*>(mapped_) : memory_.data(); }

 private:
  std::string memory_;
  void* mapped_ = nullptr;
  uint64_t size_ = 0;
};

class ChunkStream final : public Stream {
 public:
  ChunkStream(std::shared_ptr<const File> file, std::shared_ptr<const Dataset> dataset)
      : file_(std::move(file)),
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
    Metadata metadata(*file_, nullptr);
    chunks_ = TRY(Chunks::read(metadata, *dataset_));
    return row_.allocate(std::min(chunk()[0], dimensions()[0]) * row_bytes_);
  }

  Result<size_t> next(std::span<std::byte> out) override {
    if (at_ == end_) {
      if (next_row_ == grid_[0]) return size_t{0};
      TRY_VOID(decode_row(next_row_++));
    }
    const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), end_ - at_));
    std::memcpy(out.data(), row_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  const Shape& dimensions() const { return dataset_->space.dimensions; }
  const Shape& chunk() const { return dataset_->layout.chunk; }

  Result<void> decode_row(uint64_t row) {
    at_ = 0;
    end_ = std::min(chunk()[0], dimensions()[0] - row * chunk()[0]) * row_bytes_;
    const uint64_t first = row * chunks_in_row_;
    uint64_t missing = 0;
    for (uint64_t i = 0; i < chunks_in_row_; ++i)
      if (!chunks_.find(first + i)) ++missing;
    if (missing > 0) fill();
    for (uint64_t i = 0; i < chunks_in_row_; ++i)
      if (const auto stored = chunks_.find(first + i)) copy(TRY(decode(*stored)), first + i);
    return {};
  }

  void fill() {
    const std::string& element = dataset_->fill;
    if (element.size() != dataset_->type.size) {
      std::memset(row_.data(), 0, end_);
      return;
    }
    for (uint64_t at = 0; at < end_; at += element.size())
      std::memcpy(row_.data() + at, element.data(), element.size());
  }

  Result<std::string> decode(const Chunk& chunk) const {
    const auto about = [&](const Error& error) {
      return Error{error.code, fmt::format("chunk {}: {}", chunk.number, error.message)};
    };
    const uint64_t there = file_->bytes->size() - file_->base;
    if (chunk.address > there || chunk.size > there - chunk.address)
      return failure(
          about({Code::corrupt, fmt::format("{} bytes at address {} of {}", chunk.size, chunk.address, there)}));
    std::string stored = TRY(read_text(*file_->bytes, file_->base + chunk.address, chunk.size));
    const bool raw = dataset_->layout.edges_unfiltered && is_partial(chunk.number);
    return undo_filters(std::move(stored), dataset_->filters, raw ? ~uint32_t{0} : chunk.mask, chunk_bytes_)
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
  void copy(const std::string& bytes, uint64_t number) {
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
    for (;;) {
      std::memcpy(row_.data() + offset_in_row(begin, at), bytes.data() + offset_in_chunk(at), run);
      size_t i = inner;
      while (i > 0 && ++at[i - 1] == extent[i - 1]) at[--i] = 0;
      if (i == 0) return;
    }
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

  std::shared_ptr<const File> file_;
  std::shared_ptr<const Dataset> dataset_;
  Shape grid_;
  uint64_t chunk_bytes_;
  uint64_t row_bytes_, chunks_in_row_;
  Chunks chunks_;
  Scratch row_;  // of chunks, in the order of the dataset
  uint64_t next_row_ = 0;
  uint64_t at_ = 0, end_ = 0;  // in row_
};

}  // namespace

Result<StreamPtr> chunk_stream(std::shared_ptr<const File> file, std::shared_ptr<const Dataset> dataset) {
  auto stream = std::make_unique<ChunkStream>(std::move(file), std::move(dataset));
  TRY_VOID(stream->start());
  return stream;
}

}  // namespace weightfs::hdf5
