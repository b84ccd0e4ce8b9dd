#include "cli/dropped/dropped_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace weightfs {

DroppedFile::DroppedFile(std::shared_ptr<PageConnection> page, size_t number, std::string name, uint64_t size,
                         std::string identity)
    : page_(std::move(page)), number_(number), name_(std::move(name)), size_(size), identity_(std::move(identity)) {}

Result<size_t> DroppedFile::read(uint64_t offset, std::span<std::byte> out) const {
  const size_t wanted = bytes_inside(size_, offset, out.size());
  if (wanted >= kBlock) {
    TRY_VOID(read_from_page(offset, out.first(wanted)));
    return wanted;
  }
  for (size_t done = 0; done < wanted;) {
    const uint64_t at = offset + done;
    const auto block = TRY(block_at(at / kBlock * kBlock));
    const auto from = static_cast<size_t>(at % kBlock);
    const size_t piece = std::min(wanted - done, block->size() - from);
    std::memcpy(out.data() + done, block->data() + from, piece);
    done += piece;
  }
  return wanted;
}

Result<void> DroppedFile::read_from_page(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const auto got = page_->read(number_, offset, out);
    if (!got) return failure(got.error().code, fmt::format("{}: {}", printable(name_), got.error().message));
    if (*got == 0) return failure(Code::io, fmt::format("{}: has changed since it was dropped", printable(name_)));
    offset += *got;
    out = out.subspan(*got);
  }
  return {};
}

Result<std::shared_ptr<const std::string>> DroppedFile::block_at(uint64_t offset) const {
  {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find(blocks_, offset, &Block::offset);
    if (known != blocks_.end()) {
      blocks_.splice(blocks_.begin(), blocks_, known);
      return known->bytes;
    }
  }
  auto bytes = std::make_shared<std::string>(bytes_inside(size_, offset, kBlock), '\0');
  TRY_VOID(read_from_page(offset, std::as_writable_bytes(std::span(*bytes))));
  const std::scoped_lock lock(mutex_);
  blocks_.push_front({offset, bytes});
  if (blocks_.size() > kMaxBlocks) blocks_.pop_back();
  return bytes;
}

}  // namespace weightfs
