#include "base/values/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/values/rendering.h"

namespace weightfs {
namespace {

// The bytes of a range of a Source, a buffer at a time.
class ByteStream {
 public:
  ByteStream(const Source& source, uint64_t offset, uint64_t size) : source_(source), offset_(offset), left_(size) {}

  // Moves to the next byte; false at the end of the range or on an error.
  bool next() { return ++at_ < count_ || fill(); }
  bool fill() {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), left_));
    if (wanted == 0 || error_) return false;
    const auto got = read_exact(source_, offset_, std::as_writable_bytes(std::span(buffer_).first(wanted)));
    if (!got) {
      error_ = got.error();
      return false;
    }
    offset_ += wanted;
    left_ -= wanted;
    at_ = 0;
    count_ = wanted;
    return true;
  }
  const char& current() const { return buffer_[at_]; }
  char last() const { return buffer_[count_ - 1]; }
  uint64_t unread() const { return left_ + (count_ - std::min(at_, count_)); }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Source& source_;
  uint64_t offset_;
  uint64_t left_;
  std::vector<char> buffer_ = std::vector<char>(size_t{64} * 1024);
  size_t at_ = 0;
  size_t count_ = 0;
  std::optional<Error> error_;
};

// An input iterator over a Stream, as nlohmann::json reads from; null at the end.
struct Byte {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char& operator*() const { return stream->current(); }
  Byte& operator++() {
    if (!stream->next()) stream = nullptr;
    return *this;
  }
  Byte operator++(int) {
    const Byte before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Byte&, const Byte&) = default;

  ByteStream* stream = nullptr;
};

// Passes nlohmann::json's events on and bounds the nesting.
class Sax {
 public:
  explicit Sax(JsonEvents& events) : events_(events) {}

  bool null() { return events_.scalar(nullptr); }
  bool boolean(bool b) { return events_.scalar(b); }
  bool number_integer(int64_t n) { return events_.scalar(n); }
  bool number_unsigned(uint64_t n) { return events_.unsigned_integer(n); }
  bool number_float(double n, const std::string&) { return events_.scalar(n); }
  bool string(std::string& text) { return events_.string(text); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool key(std::string& text) { return events_.key(text); }
  bool start_object(size_t) { return deeper() && events_.begin_object(); }
  bool end_object() { return --depth_, events_.end_object(); }
  bool start_array(size_t) { return deeper() && events_.begin_array(); }
  bool end_array() { return --depth_, events_.end_array(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    problem_ = fmt::format("invalid JSON near byte {}", position);
    return false;
  }

  const std::string& problem() const { return problem_; }

 private:
  bool deeper() {
    if (++depth_ <= kMaxDepth) return true;
    problem_ = fmt::format("JSON nested deeper than {}", kMaxDepth);
    return false;
  }

  JsonEvents& events_;
  int depth_ = 0;
  std::string problem_;
};

}  // namespace

std::string json_number(double number) { return nlohmann::json(number).dump(); }

bool ValueBuilder::unsigned_integer(uint64_t n) {
  return add(n <= INT64_MAX ? Value(static_cast<int64_t>(n)) : Value(n));
}

// A copy takes as much as it needs; the parser's own buffer has the capacity of the longest text so far.
bool ValueBuilder::string(std::string& text) { return charge(Cost::kept, text.size()) && add(std::string(text)); }

bool ValueBuilder::key(std::string& text) {
  if (!charge(Cost::value, 1) || !charge(Cost::kept, text.size())) return false;
  open_.back().key = text;
  return true;
}

bool ValueBuilder::charge(Cost cost, uint64_t count) {
  if (budget_ == nullptr) return true;
  if (const auto charged = budget_->charge(cost, count); !charged) {
    over_budget_ = charged.error();
    return false;
  }
  (cost == Cost::value ? charged_.values : charged_.bytes) += count;
  return true;
}

void ValueBuilder::release() {
  if (budget_ == nullptr) return;
  budget_->release(Cost::value, charged_.values);
  budget_->release(Cost::kept, charged_.bytes);
  charged_ = {};
}

bool ValueBuilder::open(Value container) {
  open_.push_back({std::move(container), {}});
  return true;
}

bool ValueBuilder::end_object() {
  std::get<Map>(open_.back().container).keep_last_of_each_key();
  return close();
}

bool ValueBuilder::close() {
  Value done = std::move(open_.back().container);
  open_.pop_back();
  return add(std::move(done));
}

bool ValueBuilder::add(Value value) {
  if (left_ == 0 || !charge(Cost::value, 1)) return false;
  --left_;
  if (open_.empty()) {
    root_ = std::move(value);
  } else if (auto* list = std::get_if<List>(&open_.back().container)) {
    list->push_back(std::move(value));
  } else {
    std::get<Map>(open_.back().container).append(std::move(open_.back().key), std::move(value));
  }
  return true;
}

Result<void> read_json(const Source& source, uint64_t offset, uint64_t size, JsonEvents& events) {
  ByteStream stream(source, offset, size);
  if (!stream.fill())
    return tl::unexpected(stream.error().value_or(Error{Code::corrupt, "empty where JSON is needed"}));
  // nlohmann::json would skip a byte order mark.
  if (stream.current() == '\xEF') return failure(Code::corrupt, "JSON with a byte order mark");
  Sax sax(events);
  const bool whole = nlohmann::json::sax_parse(Byte{&stream}, Byte{}, &sax);
  if (stream.error()) return tl::unexpected(*stream.error());
  if (!sax.problem().empty()) return failure(Code::corrupt, sax.problem());
  if (!whole) return failure(Code::corrupt, "JSON that was stopped by its reader");
  // nlohmann::json takes a NUL for the end of its input.
  if (stream.unread() > 0 || stream.last() == '\0') return failure(Code::corrupt, "a NUL byte after the JSON value");
  return {};
}

namespace {

Result<Value> built(ValueBuilder& builder, const Source& source, uint64_t offset, uint64_t size, uint64_t most) {
  const auto whole = read_json(source, offset, size, builder);
  if (!whole) builder.release();
  if (builder.over_budget()) return tl::unexpected(*builder.over_budget());
  if (!whole && builder.full()) return failure(Code::unsupported, fmt::format("more than {} values", most));
  TRY_VOID(whole);
  return builder.take();
}

}  // namespace

Result<Value> parse_json(const Source& source, uint64_t offset, uint64_t size) {
  ValueBuilder builder(kMaxJsonValues);
  return built(builder, source, offset, size, kMaxJsonValues);
}

Result<Value> parse_json(const Source& source, uint64_t offset, uint64_t size, Budget& budget, uint64_t most) {
  TRY_VOID(budget.charge(Cost::input, size));
  ValueBuilder builder(most, budget);
  return built(builder, source, offset, size, most);
}

}  // namespace weightfs
