// Internals of the safetensors reader: parses the header's JSON, before the ranges are validated.
#pragma once

#include <list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/values/json.h"
#include "formats/common/flat.h"

namespace weightfs::safetensors {

/// `"":{"dtype":"","shape":[],"data_offsets":[0,0]},`: the minimum size of a tensor's entry.
inline constexpr uint64_t kMinEntrySize = 48;

/// Builds a header from the events of read_json: the tensors (without their bytes), the range that each claims, and
/// `__metadata__`. Validates each entry by itself; the caller validates them together.
class HeaderReader final : public JsonEvents {
 public:
  /// For a header of `size` bytes, which bounds what is reserved.
  HeaderReader(uint64_t size, Budget& budget);

  bool scalar(Value value) override;
  bool unsigned_integer(uint64_t n) override;
  bool string(std::string& text) override;
  bool key(std::string& text) override;
  bool begin_object() override;
  bool end_object() override;
  bool begin_array() override;
  bool end_array() override;

  flat::Header header;
  std::list<std::string> string_pool;  ///< owns names of unknown dtypes
  std::optional<Error> problem;        ///< the error that stopped the parser

 private:
  enum class At { start, header, entry, shape, offsets, end };
  enum class Field { dtype, shape, offsets, other };  // in the order of kFields

  template <class Event>
  bool pass(int deeper, Event event);
  bool passing() const { return depth_ > 0 || passing_next_; }
  bool end_metadata();
  bool end_entry();
  bool set_dtype(const std::string& text);
  bool unexpected(std::string_view found);
  bool refuse(Error error);
  bool refuse(std::string reason) { return refuse(Error{Code::corrupt, std::move(reason)}); }
  bool refuse_tensor(std::string_view reason);

  At at_ = At::start;
  Field field_ = Field::other;  // in an entry: the field of the next value
  bool seen_[3] = {};           // the fields of the entry so far

  // A skipped value: `__metadata__` goes to builder_, an unknown field is discarded.
  bool passing_next_ = false;
  int depth_ = 0;
  bool in_metadata_ = false;
  bool metadata_seen_ = false;
  ValueBuilder builder_{flat::kMaxMetadataValues + 1};  // and the object itself

  Tensor tensor_;
  Shape shape_;
  std::vector<uint64_t> offsets_;
  std::set<std::string_view> unknown_;  // the names in `string_pool`
};

}  // namespace weightfs::safetensors
