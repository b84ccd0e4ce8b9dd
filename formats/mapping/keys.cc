#include "formats/mapping/keys.h"

#include <algorithm>
#include <bit>

#include "base/values/little_endian.h"

namespace weightfs::mapping {
namespace {

using gguf::ValueType;

void append_type(std::string& out, ValueType type) {
  append_little_endian(out, static_cast<uint64_t>(type), sizeof(uint32_t));
}

std::string scalar(ValueType type, uint64_t bits, size_t width) {
  std::string value;
  append_type(value, type);
  append_little_endian(value, bits, width);
  return value;
}

}  // namespace

void append_gguf_text(std::string& out, std::string_view text) {
  append_little_endian(out, text.size(), sizeof(uint64_t));
  out += text;
}

void Keys::set(std::string_view key, std::string value) {
  const auto [place, is_new] = places_.emplace(key, entries_.size());
  if (is_new)
    entries_.emplace_back(key, std::move(value));
  else
    entries_[place->second].second = std::move(value);
}

void Keys::text(std::string_view key, std::string_view value) {
  if (value.empty()) return;
  std::string stored;
  append_type(stored, ValueType::string);
  append_gguf_text(stored, value);
  set(key, std::move(stored));
}

void Keys::flag(std::string_view key, bool value) { set(key, scalar(ValueType::boolean, value ? 1 : 0, 1)); }

void Keys::u32(std::string_view key, uint64_t value) {
  set(key, scalar(ValueType::uint32, std::min<uint64_t>(value, UINT32_MAX), sizeof(uint32_t)));
}

void Keys::i32(std::string_view key, int32_t value) {
  set(key, scalar(ValueType::int32, std::bit_cast<uint32_t>(value), sizeof(uint32_t)));
}

void Keys::f32(std::string_view key, double value) {
  set(key, scalar(ValueType::float32, std::bit_cast<uint32_t>(static_cast<float>(value)), sizeof(uint32_t)));
}

void Keys::array(std::string_view key, ValueType element, uint64_t count, std::string encoded) {
  if (count == 0) return;
  std::string head;
  append_type(head, ValueType::array);
  append_type(head, element);
  append_little_endian(head, count, sizeof(uint64_t));
  set(key, encoded.insert(0, head));
}

void Keys::texts(std::string_view key, std::span<const std::string> values) {
  std::string out;
  for (const std::string& value : values) append_gguf_text(out, value);
  array(key, ValueType::string, values.size(), std::move(out));
}

void Keys::flags(std::string_view key, const std::vector<bool>& values) {
  std::string out;
  for (const bool value : values) out += value ? '\1' : '\0';
  array(key, ValueType::boolean, values.size(), std::move(out));
}

void Keys::i32s(std::string_view key, std::span<const int32_t> values) {
  std::string out;
  for (const int32_t value : values) append_little_endian(out, std::bit_cast<uint32_t>(value), sizeof(uint32_t));
  array(key, ValueType::int32, values.size(), std::move(out));
}

std::string Keys::bytes() const {
  std::string out;
  for (const auto& [key, value] : entries_) {
    append_gguf_text(out, key);
    out += value;
  }
  return out;
}

}  // namespace weightfs::mapping
