// Metadata of any container as one kind of value, and its two renderings, JSON and TOML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace weightfs {

class Budget;
class Value;
using List = std::vector<Value>;

/// An ordered map with unique keys.
class Map {
 public:
  using Entry = std::pair<std::string, Value>;

  /// Adds `key`, or replaces its value in place. Linear in the number of keys: for maps that a person would read.
  void set(std::string key, Value value);

  /// Adds a key that is not in the map; the caller ensures that.
  void append(std::string key, Value value);

  /// After append()s of keys that may be there already: the last value of each takes the place of its first.
  void keep_last_of_each_key();

  /// The value of `key`, or null.
  const Value* find(std::string_view key) const;

  /// The value of `key` if it is of this type, or null.
  template <class T>
  const T* find_as(std::string_view key) const;

  using Iterator = std::vector<Entry>::const_iterator;
  Iterator begin() const;
  Iterator end() const;
  bool empty() const;
  size_t size() const;

 private:
  std::vector<Entry> entries_;
};

/// null, bool, a signed or unsigned 64-bit integer, a double, a string of any bytes, a list or a map.
class Value : public std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, List, Map> {
 public:
  Value() : variant(nullptr) {}
  Value(std::nullptr_t) : variant(nullptr) {}
  Value(bool b) : variant(b) {}
  Value(double n) : variant(n) {}
  Value(std::string text) : variant(std::move(text)) {}
  Value(const char* text) : variant(std::string(text)) {}
  Value(std::string_view text) : variant(std::string(text)) {}
  Value(List list) : variant(std::move(list)) {}
  Value(Map map) : variant(std::move(map)) {}
  template <class T>
  requires std::is_integral_v<T> &&(!std::is_same_v<T, bool>)Value(T number)
      : variant(std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>(number)) {}
};

// Here, because a Map holds Values, which are complete only now.
inline Map::Iterator Map::begin() const { return entries_.begin(); }
inline Map::Iterator Map::end() const { return entries_.end(); }
inline bool Map::empty() const { return entries_.empty(); }
inline size_t Map::size() const { return entries_.size(); }
template <class T>
const T* Map::find_as(std::string_view key) const {
  const Value* const value = find(key);
  return value == nullptr ? nullptr : std::get_if<T>(value);
}

/// The text of `key`; empty if it has none.
inline std::string_view text_in(const Map& map, std::string_view key) {
  const auto* const text = map.find_as<std::string>(key);
  return text == nullptr ? std::string_view() : *text;
}

/// The double that prints as the float does: 0.1f is 0.1, not 0.10000000149011612.
double shortest_decimal(float number);

/// The size of a Value, as it is charged for a copy.
struct Footprint {
  uint64_t values = 0;  ///< itself and all nested values; an entry of a Map counts twice, for its key
  uint64_t bytes = 0;   ///< of all keys and texts
};

Footprint footprint(const Value& value);
Footprint footprint(const Map& map);

/// Charges a copy to `budget`, or releases the charge. Charging fails as Budget::charge does; then nothing is charged.
Result<void> charge(const Footprint& copy, Budget& budget);
void release(const Footprint& copy, Budget& budget);

/// Values nested deeper than this are rendered on one line in JSON, and without further indentation in TOML: else the
/// size of a text would grow with the square of the depth.
inline constexpr int kMaxIndent = 16;

/// JSON (RFC 8259), indented by two, keys in order, a newline at the end. Values that JSON lacks become strings: NaN
/// and the infinities "NaN", "Infinity", "-Infinity"; bytes that are not UTF-8 become U+FFFD, in keys %XX. Integers are
/// exact to 64 bits.
std::string to_json(const Value& value);

/// JSON on one line, without white space or a newline.
std::string to_json_line(const Value& value);

/// TOML 1.0 of a map, keys sorted. TOML has no null: a key whose value is null is omitted, a null in a list becomes the
/// empty table {}. An integer beyond 2^63 - 1 is a string of its digits. NaN and the infinities are TOML's own nan and
/// inf.
std::string to_toml(const Map& map);

/// Render a value from a container. The size is computed first and charged as Cost::rendered; fails as
/// Budget::charge does, before anything is built. The caller releases the charge when it drops the text.
Result<std::string> to_json(const Value& value, Budget& budget);
Result<std::string> to_toml(const Map& map, Budget& budget);

/// A TOML 1.0 document as a map, keys sorted; dates and times as the text that TOML has for them. Fails with corrupt,
/// giving the line; with unsupported where the document, headers, dotted keys, arrays and inline tables together are
/// nested deeper than kMaxDepth; and as Budget::charge does. The Map stays charged.
Result<Map> parse_toml(std::string_view text, Budget& budget);

/// Appends `text` as a JSON string, with its quotes, by the rule of to_json.
void append_json_string(std::string& out, std::string_view text);

}  // namespace weightfs
