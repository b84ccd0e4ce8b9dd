#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace weightfs {
namespace {

using Json = nlohmann::ordered_json;

Json as_json(const Value& value);

struct AsJson {
  Json operator()(std::nullptr_t) const { return nullptr; }
  Json operator()(bool b) const { return b; }
  Json operator()(int64_t n) const { return n; }
  Json operator()(uint64_t n) const { return n; }
  Json operator()(double n) const {
    if (std::isnan(n)) return "NaN";
    if (std::isinf(n)) return n > 0 ? "Infinity" : "-Infinity";
    return n;
  }
  Json operator()(const std::string& text) const { return to_utf8(text); }
  Json operator()(const List& list) const {
    Json out = Json::array();
    for (const Value& value : list) out.push_back(as_json(value));
    return out;
  }
  Json operator()(const Map& map) const {
    // Past ordered_json's operator[], which looks through all keys; a Map holds each key once.
    Json::object_t out;
    for (const auto& [key, value] : map) out.Container::emplace_back(to_utf8_key(key), as_json(value));
    return out;
  }
};

Json as_json(const Value& value) { return std::visit(AsJson{}, value); }

// The bytes of a range of a Source, a buffer at a time.
class Stream {
 public:
  Stream(const Source& source, uint64_t offset, uint64_t size) : source_(source), offset_(offset), left_(size) {}

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

  Stream* stream = nullptr;
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
    problem_ = str("invalid JSON near byte ", position);
    return false;
  }

  const std::string& problem() const { return problem_; }

 private:
  bool deeper() {
    if (++depth_ <= kDeepestJson) return true;
    problem_ = str("JSON nested deeper than ", kDeepestJson);
    return false;
  }

  JsonEvents& events_;
  int depth_ = 0;
  std::string problem_;
};

}  // namespace

std::string to_json(const Value& value) { return as_json(value).dump(2) + "\n"; }

std::string to_json_line(const Value& value) { return as_json(value).dump(); }

void append_json_string(std::string& out, std::string_view text) {
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), plain)) {
    out.append(1, '"').append(text).append(1, '"');
  } else {
    out += Json(to_utf8(text)).dump();
  }
}

bool ValueBuilder::unsigned_integer(uint64_t n) {
  return add(n <= INT64_MAX ? Value(static_cast<int64_t>(n)) : Value(n));
}

bool ValueBuilder::key(std::string& text) {
  open_.back().key = text;
  return true;
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
  if (left_ == 0) return false;
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
  Stream stream(source, offset, size);
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

Result<Value> parse_json(const Source& source, uint64_t offset, uint64_t size) {
  ValueBuilder builder(kMostJsonValues);
  const auto whole = read_json(source, offset, size, builder);
  if (!whole && builder.full()) return failure(Code::corrupt, str("JSON of more than ", kMostJsonValues, " values"));
  TRY_VOID(whole);
  return builder.take();
}

}  // namespace weightfs
