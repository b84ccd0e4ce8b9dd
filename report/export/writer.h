// Writes the bytes of sources to a file or a pipe, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/leaf.h"
#include "base/result.h"
#include "base/source.h"

namespace weightfs::exporting {

class Writer {
 public:
  /// Called with a number of bytes that were written.
  using Report = std::function<void(uint64_t bytes)>;

  /// `descriptor` is borrowed. `name` is that of the output, for messages.
  Writer(int descriptor, std::string name, Report report);

  /// Fails with io.
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

  /// Writes all bytes of a source. A range of a local file shares its blocks with the output where the file system can
  /// and the places in the blocks are equal. Fails with io, and as reading the source fails.
  Result<void> copy(const Source& source);

 private:
  Result<uint64_t> share_blocks(const Source& source, uint64_t offset, const Extent& extent);
  bool has_equal_place(const Extent& extent) const;

  const int descriptor_;
  const std::string name_;
  const Report report_;
  std::optional<uint64_t> position_;  // of the next byte, if the output may be able to share blocks
  std::vector<std::byte> buffer_;
};

}  // namespace weightfs::exporting
