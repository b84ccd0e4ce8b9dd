// Reads JSON from a Source as it streams by, so that a header of 100 MB costs no memory but what its reader keeps.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/source.h"
#include "base/value.h"

namespace weightfs {

/// What a JSON text holds, in order. A method returns false to stop the reading; it has noted why.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool scalar(Value value) = 0;           ///< null, bool, number or string; a number beyond 64 bits is a double
  virtual bool unsigned_integer(uint64_t n) = 0;  ///< an integer without a sign that fits 64 bits
  virtual bool string(std::string& text) = 0;     ///< may be moved from
  virtual bool key(std::string& text) = 0;        ///< may be moved from
  virtual bool begin_object() = 0;
  virtual bool end_object() = 0;
  virtual bool begin_array() = 0;
  virtual bool end_array() = 0;
};

/// Nesting deeper than this is refused, as serde_json does.
inline constexpr int kDeepestJson = 127;

/// Reads the one JSON value in [offset, offset + size) of `source`. Fails with corrupt on anything but JSON (RFC 8259,
/// UTF-8, no byte order mark, white space around it), on nesting beyond kDeepestJson, and where `events` stops it.
Result<void> read_json(const Source& source, uint64_t offset, uint64_t size, JsonEvents& events);

/// Builds the Value that the events tell. A key that stands twice keeps its last value.
class ValueBuilder final : public JsonEvents {
 public:
  /// A small text can make a large Value ("[]," takes 40 bytes): it stops beyond `most` values.
  explicit ValueBuilder(uint64_t most) : left_(most) {}

  bool scalar(Value value) override { return add(std::move(value)); }
  bool unsigned_integer(uint64_t n) override;
  bool string(std::string& text) override { return add(std::move(text)); }
  bool key(std::string& text) override;
  bool begin_object() override { return open(Map{}); }
  bool end_object() override;
  bool begin_array() override { return open(List{}); }
  bool end_array() override { return close(); }

  bool full() const { return left_ == 0; }  ///< `most` values are there: where it stopped the reading, this is why
  Value take() { return std::move(root_); }

 private:
  struct Open {
    Value container;  // a List or a Map
    std::string key;  // of the Map's next value
  };

  bool open(Value container);
  bool close();
  bool add(Value value);

  Value root_;
  std::vector<Open> open_;
  uint64_t left_;
};

/// More values than this are refused where a JSON text becomes a Value.
inline constexpr uint64_t kMostJsonValues = 4'000'000;

/// The same as a Value. For texts whose size the caller has bounded.
Result<Value> parse_json(const Source& source, uint64_t offset, uint64_t size);

}  // namespace weightfs
