// A file of a page as a source.
#pragma once

#include <memory>
#include <string>

#include "base/source.h"
#include "base/verity/recent_blocks.h"
#include "cli/dropped/page_connection.h"

namespace weightfs {

/// Parsers read a header in small pieces, each of which would be a request to the page: blocks are kept.
class DroppedFile final : public Source {
 public:
  /// File `number` of the page's list; `name` is used in messages.
  DroppedFile(std::shared_ptr<PageConnection> page, size_t number, std::string name, uint64_t size,
              std::string identity);

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override;
  std::string identity() const override { return identity_; }

 private:
  static constexpr size_t kBlock = 256 << 10;

  Result<void> read_from_page(uint64_t offset, std::span<std::byte> out) const;

  const std::shared_ptr<PageConnection> page_;
  const size_t number_;
  const std::string name_;
  const uint64_t size_;
  const std::string identity_;
  const RecentBlocks blocks_;
};

}  // namespace weightfs
