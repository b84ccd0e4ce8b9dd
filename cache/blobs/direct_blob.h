// A verified local blob as a plain file (Source::direct()).
#pragma once

#include <algorithm>
#include <utility>

#include "base/source.h"
#include "cache/store/file_range.h"

namespace weightfs::blobs {

/// The bytes of a file in the cache, which stays open, also after its eviction, or of a file outside of it. If that is
/// found damaged or changed, reads are those of `blob`, which gets the bytes again.
class DirectBlob final : public Source {
 public:
  DirectBlob(store::FileRangePtr cached, SourcePtr blob) : cached_(std::move(cached)), blob_(std::move(blob)) {}
  DirectBlob(SourcePtr external, SourcePtr blob) : external_(std::move(external)), blob_(std::move(blob)) {}

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
    TRY_VOID(cached_ != nullptr ? cached_->read(offset, target) : read_exact(*external_, offset, target));
    return target.size();
  }

  const store::FileRangePtr cached_;  // null for an external file
  const SourcePtr external_;
  const SourcePtr blob_;
};

}  // namespace weightfs::blobs
