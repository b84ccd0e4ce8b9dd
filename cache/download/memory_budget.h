// What all fetches of a process hold in memory together, so that many of them do not take more of it than few.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace weightfs {

/// An equal share of the same bytes for each of those who have one. Callable from any thread.
class Memory {
 public:
  explicit Memory(uint64_t bytes) : bytes_(bytes) {}

  /// Held by one who has a share.
  class Share {
   public:
    explicit Share(std::shared_ptr<Memory> of) : of_(std::move(of)) { ++of_->shares_; }
    ~Share() { --of_->shares_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    /// How much it is now; it changes as others come and go.
    uint64_t bytes() const { return of_->bytes_ / of_->shares_; }

   private:
    const std::shared_ptr<Memory> of_;
  };

  /// How many have one.
  uint64_t shares() const { return shares_; }

 private:
  const uint64_t bytes_;
  std::atomic<uint64_t> shares_ = 0;
};

}  // namespace weightfs
