// Messages between processes of a command: numbers, texts and lists, one after another. Numbers are of 64 bits,
// little-endian; a text is its size and its bytes, a list its length and its items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace weightfs {

class Packer {
 public:
  Packer& number(uint64_t value) {
    for (size_t i = 0; i < sizeof value; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  Packer& text(std::string_view value) {
    number(value.size());
    out_ += value;
    return *this;
  }
  template <class Items, class Item>
  Packer& list(const Items& items, const Item& item) {
    number(items.size());
    for (const auto& each : items) item(each);
    return *this;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// Reads a message of a process that is not trusted. After a failure, everything is 0 and empty.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    const std::string_view bytes = take(sizeof value);
    for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return value;
  }
  uint64_t number_below(uint64_t limit) {
    const uint64_t value = number();
    if (value >= limit) has_failed_ = true;
    return has_failed_ ? 0 : value;
  }
  bool flag() { return number_below(2) == 1; }
  std::string text() { return std::string(take(number())); }
  template <class Item>
  void list(const Item& item) {
    const uint64_t count = number_below(kMaxItems + 1);
    for (uint64_t i = 0; i < count && !has_failed_; ++i) item();
  }
  /// Whether all was read, and nothing is left.
  bool is_done() const { return !has_failed_ && rest_.empty(); }

 private:
  static constexpr uint64_t kMaxItems = 1'000;  // of a list

  std::string_view take(uint64_t size) {
    if (has_failed_ || size > rest_.size()) {
      has_failed_ = true;
      return {};
    }
    const std::string_view out = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(out.size());
    return out;
  }

  std::string_view rest_;
  bool has_failed_ = false;
};

/// An error, or none.
void add_error(Packer& out, const std::optional<Error>& error);
std::optional<Error> error_in(Unpacker& in);

}  // namespace weightfs
