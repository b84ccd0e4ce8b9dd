// Streaming JSON parser over a Source: a header of 100 MB costs only the memory of the values that its consumer keeps.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/source.h"
#include "base/values/value.h"

namespace weightfs {

/// The elements of a JSON text, in order. A method returns false to stop the parser; the consumer records the reason.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool scalar(Value value) = 0;           ///< null, bool, number or string; a number beyond 64 bits is a double
  virtual bool unsigned_integer(uint64_t n) = 0;  ///< a non-negative integer that fits 64 bits
  virtual bool string(std::string& text) = 0;     ///< may be moved from
  virtual bool key(std::string& text) = 0;        ///< may be moved from
  virtual bool begin_object() = 0;
  virtual bool end_object() = 0;
  virtual bool begin_array() = 0;
  virtual bool end_array() = 0;
};

/// Reads the one JSON value in [offset, offset + size) of `source`. Fails with corrupt on invalid JSON (RFC 8259,
/// UTF-8, no byte order mark, white space around it), on nesting beyond kMaxDepth, and if `events` stops it.
Result<void> read_json(const Source& source, uint64_t offset, uint64_t size, JsonEvents& events);

/// Builds a Value from the events. Of equal keys the last value is kept. Stops the parser when a limit is exceeded: a
/// small text can make a large Value ("[]," takes 40 bytes).
class ValueBuilder final : public JsonEvents {
 public:
  /// At most `most` values; for texts that are not from a container.
  explicit ValueBuilder(uint64_t most) : left_(most) {}

  /// As the above; also charges `budget`, which outlives it, for values and texts. The Value stays charged.
  ValueBuilder(uint64_t most, Budget& budget) : budget_(&budget), left_(most) {}

  bool scalar(Value value) override { return add(std::move(value)); }
  bool unsigned_integer(uint64_t n) override;
  bool string(std::string& text) override;
  bool key(std::string& text) override;
  bool begin_object() override { return open(Map{}); }
  bool end_object() override;
  bool begin_array() override { return open(List{}); }
  bool end_array() override { return close(); }

  bool full() const { return left_ == 0; }  ///< `most` values were built: if the parser was stopped, this is the reason
  const std::optional<Error>& over_budget() const { return over_budget_; }  ///< set if the budget stopped it
  Value take() { return std::move(root_); }
  void release();  ///< releases the charges of a Value that is not taken

 private:
  struct Open {
    Value container;  // a List or a Map
    std::string key;  // of the Map's next value
  };

  bool open(Value container);
  bool close();
  bool add(Value value);
  bool charge(Cost cost, uint64_t count);

  Value root_;
  std::vector<Open> open_;
  Budget* budget_ = nullptr;
  std::optional<Error> over_budget_;
  Footprint charged_;
  uint64_t left_;
};

/// The maximum number of values of a JSON text that becomes a Value.
inline constexpr uint64_t kMaxJsonValues = 4'000'000;

/// Parses a JSON text into a Value. For texts whose size the caller has bounded, and that do not come from a container.
Result<Value> parse_json(const Source& source, uint64_t offset, uint64_t size);

/// Parses a JSON text from a container. Fails as read_json does, with unsupported beyond `most` values, and as
/// Budget::charge does. The Value stays charged.
Result<Value> parse_json(const Source& source, uint64_t offset, uint64_t size, Budget& budget,
                         uint64_t most = kMaxJsonValues);

}  // namespace weightfs
