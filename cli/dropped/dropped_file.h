// A file of a page as a source.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "base/source.h"
#include "cli/dropped/page_connection.h"

namespace weightfs {

/// Parsers read a header in small pieces, each of which would be a request to the page: blocks are kept.
class DroppedFile final : public Source {
 public:
  /// The file `number` of the page's list, for messages `name`.
  DroppedFile(std::shared_ptr<PageConnection> page, size_t number, std::string name, uint64_t size,
              std::string identity);

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override;
  std::string identity() const override { return identity_; }

 private:
  static constexpr size_t kBlock = 256 << 10;
  static constexpr size_t kMaxBlocks = 16;

  struct Block {
    uint64_t offset;
    std::shared_ptr<const std::string> bytes;
  };

  Result<void> read_from_page(uint64_t offset, std::span<std::byte> out) const;
  Result<std::shared_ptr<const std::string>> block_at(uint64_t offset) const;

  const std::shared_ptr<PageConnection> page_;
  const size_t number_;
  const std::string name_;
  const uint64_t size_;
  const std::string identity_;
  mutable std::mutex mutex_;         // guards the next one
  mutable std::list<Block> blocks_;  // the last used first
};

}  // namespace weightfs
