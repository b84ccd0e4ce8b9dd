// A memory limit shared by all downloads of a process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace weightfs::download {

/// Divides the bytes equally between the shares. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t bytes) : bytes_(bytes) {}

  /// Exists as long as its owner counts.
  class Share {
   public:
    explicit Share(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) { ++budget_->shares_; }
    ~Share() { --budget_->shares_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    /// The current size; it changes when shares are created or destroyed.
    uint64_t bytes() const { return budget_->bytes_ / budget_->shares_; }

   private:
    const std::shared_ptr<MemoryBudget> budget_;
  };

 private:
  const uint64_t bytes_;
  std::atomic<uint64_t> shares_ = 0;
};

}  // namespace weightfs::download
