// The bytes of a blob in the store's files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/os/descriptor.h"
#include "base/result.h"
#include "base/source.h"
#include "cache/blocks/block_file.h"

namespace weightfs::store {

class RecheckedFile;

/// In messages about its bytes.
inline constexpr std::string_view kCachedBlob = "a cached blob";

/// The first bytes of a file.
class FileRange final : public Source {
 public:
  /// `size` bytes.
  FileRange(SharedDescriptor file, uint64_t size) : files_{std::move(file), nullptr}, size_(size) {}
  /// `size` bytes, compared by `check` as they are read. The map may be null.
  FileRange(CachedFiles files, uint64_t size, std::shared_ptr<RecheckedFile> check)
      : files_(std::move(files)), size_(size), check_(std::move(check)) {}

  uint64_t size() const override { return size_; }
  const SharedDescriptor& file() const { return files_.data; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override;
  /// As Leaf::open_whole_file().
  Result<Descriptor> open_whole_file() const;

 private:
  CachedFiles files_;
  uint64_t size_;
  std::shared_ptr<RecheckedFile> check_;  // may be null
};

using FileRangePtr = std::shared_ptr<const FileRange>;

/// A finished blob; false if there is none.
struct BlobHandle {
  FileRangePtr range;
  Digest digest;

  explicit operator bool() const { return range != nullptr; }
};

}  // namespace weightfs::store
