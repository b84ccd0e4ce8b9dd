#include "base/values/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"
#include "base/values/rendering.h"

namespace weightfs {
namespace {

constexpr int kEnd = -1;

// The bytes of a range of a Source, a buffer at a time.
class ByteStream {
 public:
  ByteStream(const Source& source, uint64_t offset, uint64_t size)
      : source_(source), all_{offset, offset + std::min(size, UINT64_MAX - offset)}, offset_(offset), left_(size) {}
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // The next byte, which is not consumed; kEnd at the end of the range or on an error.
  int peek() { return next_ != end_ || fill() ? static_cast<uint8_t>(*next_) : kEnd; }
  // The bytes that are in the buffer, at least one after a peek() that was not kEnd.
  std::string_view buffered() const { return {next_, static_cast<size_t>(end_ - next_)}; }
  void consume(size_t count = 1) { next_ += count; }

  uint64_t consumed() const { return before_ + static_cast<uint64_t>(next_ - buffer_.data()); }
  const std::optional<Error>& error() const { return error_; }

 private:
  // Out of line, so that peek() is inlined.
  [[gnu::noinline]] bool fill() {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), left_));
    if (wanted == 0 || error_) return false;
    const auto got = read_exact(source_, offset_, std::as_writable_bytes(std::span(buffer_).first(wanted)), all_);
    if (!got) {
      error_ = got.error();
      return false;
    }
    offset_ += wanted;
    left_ -= wanted;
    before_ = consumed();
    next_ = buffer_.data();
    end_ = next_ + wanted;
    return true;
  }

  const Source& source_;
  const ByteRange all_;
  uint64_t offset_;
  uint64_t left_;
  uint64_t before_ = 0;  // bytes before the buffer
  // Not larger than the range, because a text with escapes is parsed alone.
  std::vector<char> buffer_ = std::vector<char>(std::clamp<size_t>(left_, 1, size_t{64} * 1024));
  const char* next_ = buffer_.data();
  const char* end_ = next_;
  std::optional<Error> error_;
};

bool is_digit(int c) { return c >= '0' && c <= '9'; }

// Whether a byte of a string stands for itself: no quote, escape, control character or part of a longer character.
bool is_literal(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

// Whether the eight bytes from `bytes` on are literal.
bool are_literal(const char* bytes) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighBits = 0x80 * kOnes;
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  const auto has_zero = [](uint64_t w) { return (w - kOnes) & ~w; };  // in the high bit of the byte, or of a later one
  const uint64_t is_control = (word - 0x20 * kOnes) & ~word;
  return ((word | is_control | has_zero(word ^ '"' * kOnes) | has_zero(word ^ '\\' * kOnes)) & kHighBits) == 0;
}

// The number of literal bytes at the beginning.
size_t literal_run(std::string_view bytes) {
  size_t run = 0;
  while (run + sizeof(uint64_t) <= bytes.size() && are_literal(bytes.data() + run)) run += sizeof(uint64_t);
  while (run < bytes.size() && is_literal(bytes[run])) ++run;
  return run;
}

bool is_high_surrogate(uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low_surrogate(uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

// The permitted second bytes of a character and its length in UTF-8, by its first byte (RFC 3629); length 0 if it
// cannot be a first byte of a longer character.
struct Utf8Lead {
  int low, high, length;
};
Utf8Lead utf8_lead(int first) {
  if (first >= 0xC2 && first <= 0xDF) return {0x80, 0xBF, 2};
  if (first >= 0xE0 && first <= 0xEF) return {first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF, 3};
  if (first >= 0xF0 && first <= 0xF4) return {first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF, 4};
  return {0, 0, 0};
}

// Parses one JSON value, without recursion. A method returns false on an error, or if the consumer stopped it.
class JsonParser {
 public:
  JsonParser(ByteStream& in, JsonEvents& events) : in_(in), events_(events) {}

  bool parse() {
    for (Expected next = Expected::value;;) {
      const int c = skip_white();
      if (next == Expected::end_or_comma && open_.empty()) return c == kEnd || unexpected_after_value(c);
      const bool closes = next != Expected::value && !open_.empty() && c == (in_object() ? '}' : ']');
      if (closes) {
        if (!close()) return false;
        next = Expected::end_or_comma;
        continue;
      }
      if (next == Expected::end_or_comma) {
        if (c != ',') return invalid();
        in_.consume();
      }
      if (next != Expected::value && in_object() && !key()) return false;
      if (!value(skip_white(), next)) return false;
    }
  }

  const std::string& problem() const { return problem_; }

 private:
  enum class Expected { value, first_or_end, end_or_comma };

  bool in_object() const { return open_.back(); }

  bool invalid() {
    if (problem_.empty()) problem_ = fmt::format("invalid JSON near byte {}", in_.consumed() + 1);
    return false;
  }

  // Padding of a header with NUL bytes is a known mistake of writers.
  bool unexpected_after_value(int c) {
    if (c == 0) problem_ = "a NUL byte after the JSON value";
    return invalid();
  }

  int skip_white() {
    int c = in_.peek();
    for (; c == ' ' || c == '\n' || c == '\r' || c == '\t'; c = in_.peek()) in_.consume();
    return c;
  }

  // The value that begins with `c`; `next` is set to what follows it.
  bool value(int c, Expected& next) {
    next = c == '{' || c == '[' ? Expected::first_or_end : Expected::end_or_comma;
    switch (c) {
      case '{':
      case '[':
        return open(c == '{');
      case '"':
        return string() && events_.string(text_);
      case 't':
        return literal("true") && events_.scalar(true);
      case 'f':
        return literal("false") && events_.scalar(false);
      case 'n':
        return literal("null") && events_.scalar(nullptr);
      default:
        return number(c);
    }
  }

  bool open(bool is_object) {
    in_.consume();
    if (open_.size() == static_cast<size_t>(kMaxDepth)) {
      problem_ = fmt::format("JSON nested deeper than {}", kMaxDepth);
      return false;
    }
    open_.push_back(is_object);
    return is_object ? events_.begin_object() : events_.begin_array();
  }

  bool close() {
    in_.consume();
    const bool is_object = in_object();
    open_.pop_back();
    return is_object ? events_.end_object() : events_.end_array();
  }

  bool key() {
    if (skip_white() != '"') return invalid();
    if (!string() || !events_.key(text_)) return false;
    if (skip_white() != ':') return invalid();
    in_.consume();
    return true;
  }

  bool literal(std::string_view text) {
    for (const char c : text)
      if (!take(c)) return invalid();
    return true;
  }

  bool take(int c) {
    if (in_.peek() != c) return false;
    in_.consume();
    return true;
  }

  bool string() {
    text_.clear();
    in_.consume();
    for (int c = in_.peek(); c != kEnd; c = in_.peek()) {
      const std::string_view bytes = in_.buffered();
      const size_t run = literal_run(bytes);
      text_.append(bytes, 0, run);
      in_.consume(run);
      if (run == bytes.size()) continue;
      c = in_.peek();
      if (c == '"') {
        in_.consume();
        return true;
      }
      if (!(c == '\\' ? escape() : character(c))) return invalid();
    }
    return invalid();
  }

  // A character of more than one byte.
  bool character(int first) {
    const Utf8Lead lead = utf8_lead(first);
    if (lead.length == 0) return false;
    text_ += static_cast<char>(first);
    in_.consume();
    for (int i = 1; i < lead.length; ++i) {
      const int c = in_.peek();
      if (c < (i == 1 ? lead.low : 0x80) || c > (i == 1 ? lead.high : 0xBF)) return false;
      text_ += static_cast<char>(c);
      in_.consume();
    }
    return true;
  }

  bool escape() {
    in_.consume();
    const int c = in_.peek();
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (c == kEnd) return false;
    if (const size_t at = kEscapes.find(static_cast<char>(c)); at != kEscapes.npos) {
      text_ += kMeanings[at];
      in_.consume();
      return true;
    }
    auto point = unit();
    if (!point || is_low_surrogate(*point)) return false;
    if (is_high_surrogate(*point)) {
      if (!take('\\')) return false;
      const auto low = unit();
      if (!low || !is_low_surrogate(*low)) return false;
      point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
    }
    append_utf8(text_, *point);
    return true;
  }

  // The UTF-16 code unit of `uXXXX`.
  std::optional<uint32_t> unit() {
    if (!take('u')) return std::nullopt;
    uint32_t unit = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = hex_digit(static_cast<char>(in_.peek()));
      if (digit < 0) return std::nullopt;
      unit = unit << 4 | static_cast<uint32_t>(digit);
      in_.consume();
    }
    return unit;
  }

  // Appends a run of digits to text_; false if there is none.
  bool digits() {
    const size_t before = text_.size();
    while (is_digit(in_.peek())) {
      const std::string_view bytes = in_.buffered();
      size_t run = 1;
      while (run < bytes.size() && is_digit(bytes[run])) ++run;
      text_.append(bytes, 0, run);
      in_.consume(run);
    }
    return text_.size() > before;
  }

  // Appends the next byte to text_ if it is `c`.
  bool take_into_text(int c) {
    if (!take(c)) return false;
    text_ += static_cast<char>(c);
    return true;
  }

  bool number(int c) {
    text_.clear();
    if (c != '-' && !is_digit(c)) return invalid();
    const bool negative = take_into_text('-');
    if (take_into_text('0') ? is_digit(in_.peek()) : !digits()) return invalid();
    bool is_integer = true;
    if (take_into_text('.')) {
      is_integer = false;
      if (!digits()) return invalid();
    }
    if (in_.peek() == 'e' || in_.peek() == 'E') {
      is_integer = false;
      take_into_text(in_.peek());
      if (!take_into_text('+')) take_into_text('-');
      if (!digits()) return invalid();
    }
    return is_integer && integer(negative) ? accepted_ : real();
  }

  // Reports text_ unless it does not fit 64 bits.
  bool integer(bool negative) {
    const char* const end = text_.data() + text_.size();
    if (negative) {
      int64_t n = 0;
      if (std::from_chars(text_.data(), end, n).ec != std::errc()) return false;
      accepted_ = events_.scalar(n);
    } else {
      uint64_t n = 0;
      if (std::from_chars(text_.data(), end, n).ec != std::errc()) return false;
      accepted_ = events_.unsigned_integer(n);
    }
    return true;
  }

  // A number that overflows a double is refused; from_chars would refuse one that underflows, too.
  bool real() {
    const double n = std::strtod(text_.c_str(), nullptr);
    return std::isfinite(n) ? events_.scalar(n) : invalid();
  }

  ByteStream& in_;
  JsonEvents& events_;
  std::vector<bool> open_;  // the containers around the value: whether each is an object
  std::string text_;
  bool accepted_ = true;  // by the consumer, of the last integer
  std::string problem_;
};

}  // namespace

// What dump() of the library prints, without a document for each number: figures have millions of them.
std::string json_number(double number) {
  std::array<char, 64> text;
  return {text.data(), nlohmann::detail::to_chars(text.data(), text.data() + text.size(), number)};
}

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
  const int first = stream.peek();
  if (stream.error()) return tl::unexpected(*stream.error());
  if (first == kEnd) return failure(Code::corrupt, "empty where JSON is needed");
  if (first == 0xEF) return failure(Code::corrupt, "JSON with a byte order mark");
  JsonParser parser(stream, events);
  const bool whole = parser.parse();
  if (stream.error()) return tl::unexpected(*stream.error());
  if (!parser.problem().empty()) return failure(Code::corrupt, parser.problem());
  return whole ? Result<void>() : failure(Code::corrupt, "JSON that was stopped by its reader");
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
