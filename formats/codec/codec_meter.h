// Limits and charges for decoding. A long stream may decode to nothing (empty blocks, frames or members), so the input
// of a decoder is counted as well as its output.
#pragma once

#include <atomic>
#include <string_view>

#include "base/blobs.h"
#include "base/budget.h"

namespace weightfs::codec {

/// A decoder function, such as inflate_stream() or gunzip_stream().
using Decode = Result<StreamPtr> (*)(SourcePtr compressed);

/// A decoder may read this many bytes before its first output, and kInputPerOutput for each byte of output. The output
/// of writers that flush after every line is within the limit.
inline constexpr uint64_t kFreeInput = 1 << 20;
inline constexpr uint64_t kInputPerOutput = 4;

/// Decodes `compressed` within that limit. Fails with corrupt, naming `format` (a literal), if the decoder reads more;
/// so each call of next() takes bounded time.
Result<StreamPtr> limit_input(std::string_view format, SourcePtr compressed, Decode decode);

/// Charges a budget for decoding while a container is being parsed. Later reads by a user are not charged.
class DecodeCharge {
 public:
  explicit DecodeCharge(BudgetPtr budget) : budget_(std::move(budget)) {}

  Result<void> charge(Cost cost, uint64_t count) {
    return active_ > 0 && count > 0 ? budget_->charge(cost, count) : Result<void>();
  }

  /// Enables charging while it exists.
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

/// Decodes `compressed` and charges its input and output, and more for input that decodes to less. A byte of output
/// costs `output_cost` units of Cost::output. Fails as the budget does.
Result<StreamPtr> charge_decoding(const DecodeChargePtr& charge, SourcePtr compressed, Decode decode,
                                  uint64_t output_cost = 1);

/// The steps to charge for this many bytes of input that decoded to nothing: tables of empty blocks take 300 ns a byte.
constexpr uint64_t steps_of_empty_input(uint64_t bytes) { return bytes / 4; }

}  // namespace weightfs::codec
