// The limit on the memory and time that reading one outermost container may take. Everything nested, sharded, linked or
// referenced below the container shares its budget, so sharing cannot multiply the cost. Parsing, listing, format
// detection and entering nested/ are charged; reading a file or a tensor is not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/source.h"

namespace weightfs {

/// The units of charging. The table in budget.cc has the memory and the time of one unit.
enum class Cost {
  value,     ///< a parsed JSON, TOML, bincode or FlatBuffers value
  tensor,    ///< a Tensor of a Model, without its name
  member,    ///< a member of an archive or a file of a directory: a Part of a Model, without its path
  node,      ///< a node of a Tree: a component of a path
  kept,      ///< a byte that stays in memory: of a name, a path, a text
  rendered,  ///< a byte of a rendered document
  input,     ///< a byte that a parser or decoder reads
  output,    ///< a byte that a decoder produces
  lookup,    ///< a lookup of a file or blob by name
  step,      ///< anything else that takes about a microsecond
};

inline constexpr size_t kCosts = 10;  ///< how many kinds of Cost there are

/// The maximum nesting depth of values, tables and names in every format.
inline constexpr int kMaxDepth = 100;

/// Memory: 64 MB and 10 bytes for each byte of the container. Time: 1 second and 1 second for each 10 MB.
/// Callable from any thread.
class Budget {
 public:
  static constexpr uint64_t kBaseMemory = 64'000'000;  ///< bytes
  static constexpr uint64_t kMemoryPerByte = 10;
  static constexpr uint64_t kBaseTime = 1'000'000'000;  ///< nanoseconds
  static constexpr uint64_t kTimePerByte = 100;         ///< nanoseconds: 1 second for 10 MB

  /// `bytes`: the container's size in storage, without the holes of a sparse file.
  explicit Budget(uint64_t bytes) : bytes_(bytes) {}

  /// Adds the size of a file that belongs to the container, such as a shard or a blob: once, even if it is named
  /// repeatedly. Files without an identity are not added.
  void add_file(const Source& file);

  /// Charges `count` units; call it before they are read or allocated. Fails with unsupported, naming the limit, if the
  /// budget is exceeded, and with Code::resource if the process is short of memory; then nothing is charged.
  Result<void> charge(Cost cost, uint64_t count = 1);

  /// Releases the charge for memory that has been freed. The time stays charged.
  void release(Cost cost, uint64_t count);

  uint64_t memory_used() const { return memory_; }  ///< bytes charged
  uint64_t time_used() const { return time_; }      ///< nanoseconds charged
  uint64_t container_bytes() const { return bytes_; }
  uint64_t memory_limit() const;  ///< bytes
  uint64_t time_limit() const;    ///< nanoseconds

 private:
  friend class Charges;
  friend class Loan;

  Result<void> check_process();
  Result<void> charge(uint64_t memory, uint64_t time, std::string_view name);

  std::atomic<uint64_t> bytes_;
  std::atomic<uint64_t> memory_ = 0;
  std::atomic<uint64_t> time_ = 0;
  std::atomic<uint64_t> checked_ = 0;  // memory_ at the last measurement
  static inline std::mutex mutex_;     // guards the rest of all budgets: there are many, and it is never held for long
  std::unique_ptr<std::set<std::string>> files_;  // identities of those that were added; null if there are none
  uint64_t on_loan_ = 0;                          // bytes of memory_ that are in a Loan
};

using BudgetPtr = std::shared_ptr<Budget>;

/// The charges of one attempt to read something. They are released if the attempt fails and its values are destroyed.
/// Not thread-safe; the budget outlives it.
class Charges {
 public:
  /// When charges reach the budget.
  enum class Pass {
    at_once,
    together  ///< before they exceed 16 KiB or 100 µs, or with keep(): for an attempt that makes a million
  };

  explicit Charges(Budget& budget, Pass pass = Pass::at_once) : budget_(&budget), pass_(pass) {}
  Charges(Charges&& other) noexcept;
  Charges& operator=(Charges&&) = delete;
  ~Charges();

  /// As Budget::charge().
  Result<void> charge(Cost cost, uint64_t count = 1);

  /// The attempt succeeded: its values and its charges stay.
  void keep();

 private:
  struct Amount {
    uint64_t memory = 0;  // bytes
    uint64_t time = 0;    // nanoseconds
  };

  Budget* budget_;  // null once the charges are kept
  Pass pass_;
  uint64_t charged_ = 0;  // bytes
  Amount pending_;        // not charged yet
};

/// Memory that reading data needs for a moment, such as the buffers of a decoder, so that any number of readers share
/// what the budget leaves. Take one for all of it, and hold it only while the data is computed: a second Loan of the
/// same thread, or one that waits for its reader, would delay others.
class Loan {
 public:
  /// Charges `bytes`. If the loans of other readers leave too little, waits for them, at most ten seconds. Fails with
  /// unsupported if the budget leaves too little without them, and with resource if they last longer, the calling
  /// thread is cancelled, or the process is short of memory.
  static Result<Loan> take(const BudgetPtr& budget, uint64_t bytes);

  Loan(Loan&& other) noexcept : budget_(std::move(other.budget_)), bytes_(other.bytes_) {}
  Loan& operator=(Loan&&) = delete;
  ~Loan();

 private:
  Loan(BudgetPtr budget, uint64_t bytes) : budget_(std::move(budget)), bytes_(bytes) {}

  BudgetPtr budget_;  // null after a move
  uint64_t bytes_;
};

/// A new budget for this outermost container.
BudgetPtr budget_of(const SourcePtr& container);

}  // namespace weightfs
