#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "formats/safetensors/safetensors.h"

namespace weightfs::safetensors {
namespace {

constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

}  // namespace

HeaderReader::HeaderReader(uint64_t size, Budget& budget) : header(budget) {
  // Once, for the most that can come: pages that are never touched cost nothing, copies while a vector grows do.
  header.tensors.reserve(static_cast<size_t>(size / kMinEntrySize + 1));
}

// Follows a value of any depth to its end.
template <class Event>
bool HeaderReader::pass(int deeper, Event event) {
  passing_next_ = false;
  depth_ += deeper;
  if (!in_metadata_) return true;
  if (!event()) return refuse(fmt::format("__metadata__ holds more than {} values", flat::kMaxMetadataValues));
  return depth_ > 0 || end_metadata();
}

bool HeaderReader::scalar(Value value) {
  if (passing()) return pass(0, [&] { return builder_.scalar(std::move(value)); });
  if (std::holds_alternative<std::nullptr_t>(value)) return unexpected("null");
  return unexpected(std::holds_alternative<bool>(value) ? "true or false"
                                                        : "a number that is not an integer below 2^64");
}

bool HeaderReader::unsigned_integer(uint64_t n) {
  if (passing()) return pass(0, [&] { return builder_.unsigned_integer(n); });
  if (at_ == At::shape) {
    if (shape_.size() == kMaxDimensions)
      return refuse_tensor(fmt::format("shape: more than {} dimensions", kMaxDimensions));
    shape_.push_back(n);
    return true;
  }
  if (at_ == At::offsets && offsets_.size() < 2) {
    offsets_.push_back(n);
    return true;
  }
  return unexpected("a number");
}

bool HeaderReader::string(std::string& text) {
  if (passing()) return pass(0, [&] { return builder_.string(text); });
  if (at_ == At::entry && field_ == Field::dtype) return set_dtype(text);
  return unexpected("a string");
}

bool HeaderReader::key(std::string& text) {
  if (passing()) return pass(0, [&] { return builder_.key(text); });
  if (at_ == At::header && text == "__metadata__") {
    if (metadata_seen_) return refuse("__metadata__ appears twice");
    metadata_seen_ = in_metadata_ = passing_next_ = true;
  } else if (at_ == At::header) {
    tensor_.name = text;  // a copy: the parser keeps its buffer, the name no spare room
  } else {
    const auto field = std::find(kFields.begin(), kFields.end(), text) - kFields.begin();
    field_ = static_cast<Field>(field);
    passing_next_ = field_ == Field::other;
    if (!passing_next_ && std::exchange(seen_[field], true))
      return refuse_tensor(fmt::format("{} appears twice", text));
  }
  return true;
}

bool HeaderReader::begin_object() {
  if (passing()) return pass(1, [&] { return builder_.begin_object(); });
  if (at_ == At::start) {
    at_ = At::header;
    return true;
  }
  if (at_ != At::header) return unexpected("an object");
  at_ = At::entry;
  std::fill(std::begin(seen_), std::end(seen_), false);
  shape_.clear();
  offsets_.clear();
  return true;
}

bool HeaderReader::end_object() {
  if (passing()) return pass(-1, [&] { return builder_.end_object(); });
  if (at_ == At::entry) return end_entry();
  at_ = At::end;
  return true;
}

bool HeaderReader::begin_array() {
  if (passing()) return pass(1, [&] { return builder_.begin_array(); });
  if (at_ == At::entry && field_ == Field::shape) {
    at_ = At::shape;
  } else if (at_ == At::entry && field_ == Field::offsets) {
    at_ = At::offsets;
  } else {
    return unexpected("a list");
  }
  return true;
}

bool HeaderReader::end_array() {
  if (passing()) return pass(-1, [&] { return builder_.end_array(); });
  if (at_ == At::offsets && offsets_.size() != 2) return refuse_tensor("data_offsets must be two numbers");
  at_ = At::entry;
  return true;
}

bool HeaderReader::set_dtype(const std::string& text) {
  if (const auto* known = flat::find_dtype(text)) {
    tensor_.dtype = known->dtype;
    tensor_.stored_dtype = known->stored;
    return true;
  }
  auto spelling = unknown_.find(text);
  if (spelling == unknown_.end()) {
    if (auto room = header.charges.charge(Cost::value); !room) return refuse(room.error());
    if (auto room = header.charges.charge(Cost::kept, text.size()); !room) return refuse(room.error());
  }
  if (spelling == unknown_.end()) spelling = unknown_.insert(string_pool.emplace_back(text)).first;
  tensor_.dtype = &kUnknownDType;
  tensor_.stored_dtype = *spelling;
  return true;
}

bool HeaderReader::end_entry() {
  for (size_t i = 0; i < kFields.size(); ++i)
    if (!seen_[i]) return refuse_tensor(fmt::format("no {}", kFields[i]));
  if (tensor_.dtype == &kUnknownDType)
    header.warnings.add("tensor {}: dtype {} is unknown; shown as bytes", quoted(tensor_.name),
                        quoted(tensor_.stored_dtype));
  at_ = At::header;
  tensor_.shape = shape_;
  if (auto room = header.add(tensor_, {offsets_[0], offsets_[1]}); !room) return refuse(room.error());
  return true;
}

// Absent, null, or an object. The reference takes only strings in it; writers by hand put numbers there.
bool HeaderReader::end_metadata() {
  in_metadata_ = false;
  Value value = builder_.take();
  if (std::holds_alternative<std::nullptr_t>(value)) return true;
  if (!std::holds_alternative<Map>(value)) return refuse("__metadata__ must be an object");
  header.metadata = std::get<Map>(std::move(value));
  for (const auto& [key, entry] : header.metadata)
    if (!std::holds_alternative<std::string>(entry))
      header.warnings.add("__metadata__: the value of {} is not a string", quoted(key));
  return true;
}

bool HeaderReader::unexpected(std::string_view found) {
  if (at_ == At::start) return refuse(fmt::format("{} where an object must be", found));
  if (at_ == At::header) return refuse_tensor(fmt::format("{} where an object must be", found));
  constexpr std::array<std::string_view, 3> kNeeded = {"a string", "a list of whole numbers", "two whole numbers"};
  const auto field = static_cast<size_t>(field_);
  return refuse_tensor(fmt::format("{}: {} where {} must be", kFields.at(field), found, kNeeded.at(field)));
}

bool HeaderReader::refuse(Error error) {
  problem = std::move(error);
  return false;
}

bool HeaderReader::refuse_tensor(std::string_view reason) {
  return refuse(fmt::format("tensor {}: {}", quoted(tensor_.name), reason));
}

}  // namespace weightfs::safetensors
