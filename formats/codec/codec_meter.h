// What decoding costs. A stream may be long and decode to nothing: empty blocks, empty frames, empty members. So what a
// decoder reads is counted as well as what it gives.
#pragma once

#include <atomic>
#include <string_view>

#include "base/blobs.h"
#include "base/budget.h"

namespace weightfs {

/// A decoder, such as inflated() or gunzipped().
using Decode = Result<StreamPtr> (*)(SourcePtr compressed);

/// A decoder may read this many bytes before it gives any, and kInputPerOutput for each that it has given. Writers that
/// flush after every line stay below.
inline constexpr uint64_t kFreeInput = 1 << 20;
inline constexpr uint64_t kInputPerOutput = 4;

/// Decodes `compressed`. Fails with corrupt, naming `format` (a literal), when the decoder reads more than the limit
/// above; so each call of next() takes a bounded time.
Result<StreamPtr> input_limited(std::string_view format, SourcePtr compressed, Decode decode);

/// Charges a budget for decoding while a container is being parsed. What a user reads later is not charged.
class DecodeCharge {
 public:
  explicit DecodeCharge(BudgetPtr budget) : budget_(std::move(budget)) {}

  Result<void> charge(Cost cost, uint64_t count) {
    return active_ > 0 && count > 0 ? budget_->charge(cost, count) : Result<void>();
  }

  /// It charges as long as there is one of these.
  class Active {
   public:
    /// `charge` may be null.
    explicit Active(std::shared_ptr<DecodeCharge> charge) : charge_(std::move(charge)) {
      if (charge_ != nullptr) ++charge_->active_;
    }
    ~Active() {
      if (charge_ != nullptr) --charge_->active_;
    }
    Active(const Active&) = delete;
    Active& operator=(const Active&) = delete;

   private:
    std::shared_ptr<DecodeCharge> charge_;
  };

 private:
  BudgetPtr budget_;
  std::atomic<int> active_ = 0;
};

using DecodeChargePtr = std::shared_ptr<DecodeCharge>;

/// Decodes `compressed`, charging for what is read and what comes out, and more for input that decodes to less. Fails
/// as the budget does.
Result<StreamPtr> charged(const DecodeChargePtr& charge, SourcePtr compressed, Decode decode);

/// Steps to charge for so many bytes of input that decoded to nothing: tables for empty blocks take 300 ns a byte.
constexpr uint64_t steps_of_empty_input(uint64_t bytes) { return bytes / 4; }

}  // namespace weightfs
