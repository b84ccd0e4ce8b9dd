#include "fs/reading/open_file.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace weightfs {

OpenFile::OpenFile(Ino ino, SourcePtr source, Prefetch* prefetch)
    : ino_(ino), source_(std::move(source)), prefetch_(prefetch) {
  hold();
}

bool OpenFile::keeps_pages() const {
  const VerifiedBy now = source_->verification();
  return now == VerifiedBy::unknown || now >= VerifiedBy::transport;
}

// A read examines the file after it has copied.
Result<void> OpenFile::check_unchanged() const {
  std::byte first{};
  TRY(source_->read(0, {&first, 1}));
  return {};
}

void OpenFile::hold() {
  auto held = source_->keep_cached();
  if (held == nullptr) return;
  const std::scoped_lock lock(mutex_);
  if (is_held_.exchange(true)) return;
  held_ = std::move(held);
}

void OpenFile::use_direct() {
  auto direct = source_->verified_file();
  if (direct == nullptr) return;
  const std::scoped_lock lock(mutex_);
  if (direct_ != nullptr) return;
  direct_bytes_ = std::move(direct);
  direct_.store(direct_bytes_.get(), std::memory_order_release);
}

Result<size_t> OpenFile::copy(uint64_t offset, std::span<std::byte> out, ByteRange expected) {
  const Source* const direct = direct_.load(std::memory_order_acquire);
  auto got = direct != nullptr ? direct->read_ahead(offset, out, expected) : source_->read_ahead(offset, out, expected);
  if (direct == nullptr && !is_held_) hold();  // the source may have become available since
  if (direct == nullptr && got) use_direct();
  if (mappable_ == Mappable::unknown && got && size() >= kLargeRead) {
    const auto mapped = map_bytes(*source_, size(), 0);  // in a .npy file, the header precedes mapped bytes
    mappable_ = mapped && *mapped ? Mappable::yes : Mappable::no;
  }
  return got;
}

Result<size_t> OpenFile::read(uint64_t offset, std::span<std::byte> out, ByteRange expected) {
  if (prefetch_ == nullptr) return copy(offset, out, expected);
  const Prefetch::Read in_progress(*prefetch_);
  if (!has_begun_.exchange(true)) prefetch_->begin_file(ino_);
  auto got = copy(offset, out, expected);
  if (got && *got > 0 && offset + *got == size()) prefetch_->finish_file(ino_);
  return got;
}

// The first bytes of a file are read: only then is it known whether it can be mapped.
Result<std::optional<MappedBytes>> OpenFile::map(uint64_t offset, size_t size) const {
  if (mappable_ != Mappable::yes) return std::nullopt;
  return map_bytes(*source_, offset, size);
}

OpenFile::Read::Read(OpenFile& file, uint64_t offset, size_t size, Pages pages, std::optional<ByteRange> expected)
    : file_(file),
      offset_(offset),
      size_(size),
      pages_(pages),
      expected_(expected.value_or(ByteRange{0, file.size()})),
      next_(file.pattern_.next_after({offset, offset + size}, file.size())) {}

Result<std::span<const std::byte>> OpenFile::Read::bytes(std::span<std::byte> memory) {
  // Other sources take the turn when they have the bytes.
  if (size_ > MemoryTurn::kLarge && file_.is_ready()) MemoryTurn::take();
  if (is_large() && pages_ == Pages::kept && memory.empty()) mapped_ = TRY(file_.map(offset_, size_));
  if (mapped_) {
    count_ = mapped_->bytes.size();
    return mapped_->bytes;
  }
  const auto out = memory.empty() ? buffer_.emplace().first(size_) : memory.first(std::min(memory.size(), size_));
  count_ = TRY(file_.read(offset_, out, expected_));
  return out.first(count_);
}

Result<void> OpenFile::Read::read_again() {
  TRY(file_.copy(offset_, buffer_.emplace().first(size_), expected_));
  return {};
}

void OpenFile::Read::finish() const noexcept {
  try {
    for (const ByteRange& range : next_) advise(*file_.source_, range, Advice::reads_soon);
    if (is_large() && pages_ == Pages::released) advise(*file_.source_, {offset_, offset_ + count_}, Advice::has_read);
  } catch (const std::exception&) {
    // Out of memory. The bytes were right, and the next read gives advice again.
  }
}

}  // namespace weightfs
