#include "formats/summary/fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "formats/model.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMaxText = 1000;
constexpr size_t kMaxTexts = 1000;
constexpr size_t kMaxWarnings = 20;

}  // namespace

Number product(Number a, Number b) {
  uint64_t out = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &out)) return std::nullopt;
  return out;
}

Number sum(Number a, Number b) {
  uint64_t out = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &out)) return std::nullopt;
  return out;
}

std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

Number number_of(const Value& value) {
  if (const auto* const n = std::get_if<uint64_t>(&value); n != nullptr && *n <= kMaxNumber) return *n;
  if (const auto* const n = std::get_if<int64_t>(&value);
      n != nullptr && *n >= 0 && static_cast<uint64_t>(*n) <= kMaxNumber)
    return static_cast<uint64_t>(*n);
  const auto* const n = std::get_if<double>(&value);
  if (n == nullptr || !(*n >= 0) || *n > static_cast<double>(kMaxNumber) || std::trunc(*n) != *n) return std::nullopt;
  return static_cast<uint64_t>(*n);
}

void Fields::warn(std::string_view name, std::string_view expected) const {
  if (warnings_->size() >= kMaxWarnings) return;
  std::string line = fmt::format("{}: {} is not {}; ignored", file_, printable(prefix_ + std::string(name)), expected);
  if (std::ranges::find(*warnings_, line) == warnings_->end()) warnings_->push_back(std::move(line));
}

const Value* Fields::find(std::string_view name) const {
  if (map_ == nullptr) return nullptr;
  const Value* const value = prefix_.empty() ? map_->find(name) : map_->find(prefix_ + std::string(name));
  return value == nullptr || std::holds_alternative<std::nullptr_t>(*value) ? nullptr : value;
}

Number Fields::number(Names names) const {
  for (const std::string_view name : names) {
    const Value* const value = find(name);
    if (value == nullptr) continue;
    if (const Number number = number_of(*value)) return number;
    warn(name, "an integer from 0 to 2^48");
  }
  return std::nullopt;
}

Number Fields::positive(Names names) const {
  for (const std::string_view name : names) {
    const Value* const value = find(name);
    const auto* const n = value == nullptr ? nullptr : std::get_if<int64_t>(value);
    if (value == nullptr || (n != nullptr && (*n == -1 || *n == 0))) continue;
    const Number out = number({name});
    if (out.value_or(0) > 0) return out;
  }
  return std::nullopt;
}

std::string Fields::text(Names names) const {
  for (const std::string_view name : names) {
    const Value* const value = find(name);
    if (value == nullptr) continue;
    const auto* const text = std::get_if<std::string>(value);
    if (text != nullptr && text->size() <= kMaxText) return *text;
    warn(name, text == nullptr ? "a text" : "a short text");
  }
  return "";
}

std::optional<bool> Fields::flag(std::string_view name) const {
  const Value* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* const flag = std::get_if<bool>(value)) return *flag;
  warn(name, "true or false");
  return std::nullopt;
}

std::optional<double> Fields::real(Names names) const {
  for (const std::string_view name : names) {
    const Value* const value = find(name);
    if (value == nullptr) continue;
    std::optional<double> out;
    if (const auto* const real = std::get_if<double>(value)) out = *real;
    if (const auto* const n = std::get_if<uint64_t>(value)) out = static_cast<double>(*n);
    if (const auto* const n = std::get_if<int64_t>(value)) out = static_cast<double>(*n);
    if (out && std::isfinite(*out)) return out;
    warn(name, "a number");
  }
  return std::nullopt;
}

Fields Fields::object(Names names) const {
  for (const std::string_view name : names) {
    const Value* const value = find(name);
    if (value == nullptr) continue;
    if (const auto* const map = std::get_if<Map>(value)) return {map, file_, *warnings_};
    // Several names stand for either an object or a text, such as "quantization" and "encoder".
  }
  return {};
}

const List* Fields::list(std::string_view name) const {
  const Value* const value = find(name);
  return value == nullptr ? nullptr : std::get_if<List>(value);
}

std::vector<uint64_t> Fields::per_layer(std::string_view name, uint64_t layers) const {
  const Value* const value = find(name);
  if (value == nullptr || layers == 0 || layers > kMaxLayers) return {};
  const auto* const list = std::get_if<List>(value);
  if (list == nullptr) {
    const Number one = number({name});
    return one ? std::vector<uint64_t>(layers, *one) : std::vector<uint64_t>();
  }
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < layers && !list->empty(); ++i) {
    const Value& at = (*list)[i % list->size()];
    const auto* const flag = std::get_if<bool>(&at);
    const Number one = flag != nullptr ? Number(*flag ? 1 : 0) : number_of(at);
    if (!one) {
      warn(name, "a list of integers");
      return {};
    }
    out.push_back(*one);
  }
  return out;
}

std::vector<std::string> Fields::texts(std::string_view name) const {
  std::vector<std::string> out;
  const Value* const value = find(name);
  if (value == nullptr) return out;
  const auto add = [&](const Value& one) {
    const auto* const text = std::get_if<std::string>(&one);
    if (text != nullptr && text->size() <= kMaxText && out.size() < kMaxTexts) out.push_back(*text);
  };
  if (const auto* const list = std::get_if<List>(value)) {
    for (const Value& one : *list) add(one);
  } else {
    add(*value);
  }
  return out;
}

const Map* gguf_keys_of(const Model& model) {
  for (const Map* const keys : {&model.metadata, model.metadata.find_as<Map>("gguf")})
    if (keys != nullptr && (keys->find_as<std::string>("general.architecture") != nullptr ||
                            keys->find_as<std::string>("general.type") != nullptr))
      return keys;
  return nullptr;
}

}  // namespace weightfs::summary
