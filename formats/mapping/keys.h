// The metadata of a GGUF that is made of something else (version 3, little-endian; ggml's docs/gguf.md).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf/values.h"

namespace weightfs::mapping {

/// Keys with their values, in the order in which they were first set: a key that is set again gets another value in its
/// place, as in gguf-py. Empty texts and empty arrays are not written.
class Keys {
 public:
  void text(std::string_view key, std::string_view value);
  void flag(std::string_view key, bool value);
  void u32(std::string_view key, uint64_t value);  ///< at most 2^32 - 1; a larger one becomes that
  void i32(std::string_view key, int32_t value);
  void f32(std::string_view key, double value);  ///< rounded to float32

  void texts(std::string_view key, std::span<const std::string> values);
  void flags(std::string_view key, const std::vector<bool>& values);
  void i32s(std::string_view key, std::span<const int32_t> values);

  /// An array of `count` elements that are encoded already, one after the other: for a vocabulary.
  void array(std::string_view key, gguf::ValueType element, uint64_t count, std::string encoded);

  bool has(std::string_view key) const { return places_.contains(key); }
  uint64_t count() const { return entries_.size(); }

  /// All keys with their values, as a file has them.
  std::string bytes() const;

 private:
  void set(std::string_view key, std::string value);  // `value` begins with its type

  std::vector<std::pair<std::string, std::string>> entries_;
  std::map<std::string, size_t, std::less<>> places_;
};

/// Appends a text as an array of texts has it: its length, then its bytes.
void append_gguf_text(std::string& out, std::string_view text);

}  // namespace weightfs::mapping
