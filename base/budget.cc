#include "base/budget.h"

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "base/os/memory.h"
#include "base/text.h"

namespace weightfs {
namespace {

struct Row {
  std::string_view name;  // in messages, of several
  uint64_t memory;        // bytes that one unit takes
  uint64_t time;          // nanoseconds that one unit costs; 0 is less than one
};

// In the order of Cost. Measured with g++ 12 at -O2, rounded up: the attack suite holds real containers against them.
constexpr std::array<Row, kCosts> kRows = {{
    {"values", 128, 400},
    {"tensors", 256, 1'000},
    {"members", 384, 2'000},
    {"names", 64, 200},
    {"bytes of names and texts", 1, 1},
    {"bytes of rendered text", 1, 4},
    {"bytes of input", 0, 5},
    {"bytes of decoded data", 0, 3},
    {"lookups", 0, 30'000},
    {"steps", 0, 1'000},
}};

const Row& row_of(Cost cost) { return kRows.at(static_cast<size_t>(cost)); }

uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

uint64_t saturating_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

// Adds `amount` to `used` unless that would exceed `limit`; whether it did.
bool take(std::atomic<uint64_t>& used, uint64_t amount, uint64_t limit) {
  uint64_t before = used.load(std::memory_order_relaxed);
  do {
    if (before > limit || amount > limit - before) return false;
  } while (!used.compare_exchange_weak(before, before + amount, std::memory_order_relaxed));
  return true;
}

// The memory use is measured again after this much has been charged: mallinfo2() takes the locks of all arenas.
constexpr uint64_t kCheckEvery = 4 << 20;

}  // namespace

uint64_t Budget::memory_limit() const {
  return saturating_add(kBaseMemory, saturating_multiply(bytes_, kMemoryPerByte));
}

uint64_t Budget::time_limit() const { return saturating_add(kBaseTime, saturating_multiply(bytes_, kTimePerByte)); }

void Budget::add_file(const Source& file) {
  const std::string identity = file.identity();
  if (identity.empty()) return;
  const std::scoped_lock lock(mutex_);
  if (files_ == nullptr) files_ = std::make_unique<std::set<std::string>>();
  if (files_->insert(identity).second) bytes_ = saturating_add(bytes_, file.occupied());
}

Result<void> Budget::charge(Cost cost, uint64_t count) {
  const Row& row = row_of(cost);
  return charge(saturating_multiply(row.memory, count), saturating_multiply(row.time, count), row.name);
}

Result<void> Budget::charge(uint64_t memory, uint64_t time, std::string_view name) {
  const auto exceeded = [&](const char* limit, const std::string& size) {
    return failure(Code::unsupported, fmt::format("too many {}: the {} limit of {} for a container of {} is exceeded",
                                                  name, limit, size, human_size(bytes_)));
  };
  if (!take(memory_, memory, memory_limit())) return exceeded("memory", human_size(memory_limit()));
  if (!take(time_, time, time_limit())) {
    memory_ -= memory;
    return exceeded("time", fmt::format("{} ms", time_limit() / 1'000'000));
  }
  if (memory == 0 || memory_ < checked_ + kCheckEvery) return {};
  if (auto room = check_process(); !room) {
    memory_ -= memory;
    return room;
  }
  return {};
}

Result<void> Budget::check_process() {
  checked_ = memory_.load();
  const uint64_t limit = process_memory_limit();
  if (process_memory_used() + kCheckEvery <= limit) return {};
  return failure(Code::resource, fmt::format("memory limit of this process ({}) reached", human_size(limit)));
}

void Budget::release(Cost cost, uint64_t count) { memory_ -= saturating_multiply(row_of(cost).memory, count); }

Charges::Charges(Charges&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      pass_(other.pass_),
      charged_(other.charged_),
      pending_(other.pending_) {}

Result<void> Charges::charge(Cost cost, uint64_t count) {
  constexpr uint64_t kMaxMemory = 16 << 10;
  constexpr uint64_t kMaxTime = 100'000;  // nanoseconds
  const Row& row = row_of(cost);
  const uint64_t memory = saturating_add(pending_.memory, saturating_multiply(row.memory, count));
  const uint64_t time = saturating_add(pending_.time, saturating_multiply(row.time, count));
  if (pass_ == Pass::together && memory <= kMaxMemory && time <= kMaxTime) {
    pending_ = {memory, time};
    return {};
  }
  TRY_VOID(budget_->charge(memory, time, row.name));
  charged_ = saturating_add(charged_, memory);
  pending_ = {};
  return {};
}

// The pending amount is small, so it is charged even if it exceeds the budget.
void Charges::keep() {
  if (budget_ == nullptr) return;
  budget_->memory_ += pending_.memory;
  budget_->time_ += pending_.time;
  budget_ = nullptr;
}

Charges::~Charges() {
  if (budget_ == nullptr) return;
  budget_->memory_ -= charged_;
  budget_->time_ += pending_.time;
}

Result<Loan> Loan::take(const BudgetPtr& budget, uint64_t bytes) {
  constexpr std::chrono::milliseconds kPause{5};
  constexpr std::chrono::seconds kMaxWait{10};
  for (auto waited = kPause * 0;; waited += kPause) {
    {
      const std::scoped_lock lock(Budget::mutex_);
      const auto charged = budget->charge(bytes, 0, "bytes of buffers");
      if (charged) {
        budget->on_loan_ += bytes;
        return Loan(budget, bytes);
      }
      const uint64_t limit = budget->memory_limit();
      const bool fits_alone = bytes <= limit && budget->memory_ - budget->on_loan_ <= limit - bytes;
      if (!fits_alone || charged.error().code != Code::unsupported) return tl::unexpected(charged.error());
    }
    if (is_cancelled()) return failure(Code::resource, "cancelled while it waited for memory");
    if (waited >= kMaxWait)
      return failure(Code::resource, fmt::format("other readers of this container use its {} of memory",
                                                 human_size(budget->memory_limit())));
    std::this_thread::sleep_for(kPause);
  }
}

Loan::~Loan() {
  if (budget_ == nullptr) return;
  const std::scoped_lock lock(Budget::mutex_);
  budget_->memory_ -= bytes_;
  budget_->on_loan_ -= bytes_;
}

BudgetPtr budget_of(const SourcePtr& container) {
  return std::make_shared<Budget>(container == nullptr ? 0 : container->occupied());
}

}  // namespace weightfs
