#include "cli/dropped/dropped_file.h"

#include <fmt/core.h>

#include <algorithm>

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
    const uint64_t index = (offset + done) / kBlock;
    const uint64_t from = (offset + done) % kBlock;
    const uint64_t size = bytes_inside(size_, index * kBlock, kBlock);
    const auto piece = static_cast<size_t>(std::min<uint64_t>(wanted - done, size - from));
    const auto fill = [&](std::span<std::byte> block) { return read_from_page(index * kBlock, block); };
    TRY_VOID(blocks_.read(index, size, fill, from, out.subspan(done, piece)));
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

}  // namespace weightfs
