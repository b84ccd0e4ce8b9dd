// A verified local blob as a plain file (Source::verified_file()).
#pragma once

#include <algorithm>
#include <utility>

#include "base/source.h"

namespace weightfs::blobs {

/// The bytes of a file in the cache, which stays open, also after its eviction, or of a file outside of it. If that is
/// found damaged or changed, reads are those of `blob`, which gets the bytes again.
class DirectBlob final : public Source {
 public:
  DirectBlob(SourcePtr file, SourcePtr blob) : file_(std::move(file)), blob_(std::move(blob)) {}

  uint64_t size() const override { return blob_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const auto read = read_file(offset, out);
    return read ? *read : blob_->read(offset, out);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    const auto read = read_file(offset, out);
    return read ? *read : blob_->read_ahead(offset, out, expected);
  }

 private:
  Result<size_t> read_file(uint64_t offset, std::span<std::byte> out) const {
    if (offset >= size() || out.empty()) return size_t{0};
    const auto target = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size() - offset)));
    TRY_VOID(read_exact(*file_, offset, target));
    return target.size();
  }

  const SourcePtr file_;
  const SourcePtr blob_;
};

}  // namespace weightfs::blobs
