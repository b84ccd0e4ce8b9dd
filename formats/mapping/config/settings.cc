#include "formats/mapping/config/settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "formats/mapping/config/class_defaults.h"

namespace weightfs::mapping {

using summary::Fields;
using summary::Names;

Settings::Settings(Repository& repository)
    : fields_(repository.config()), family_(family_of_class(repository.class_name())) {
  // transformers stores the text model of the larger ones as a difference from the defaults.
  if (family_ == "Gemma3" && !states("rms_norm_eps")) family_ = "Gemma3Text";
}

void Settings::refuse(std::string message) {
  if (refusal_.empty()) refusal_ = std::move(message);
}

void Settings::lacks(std::string_view name) { refuse(fmt::format("config.json lacks {}", name)); }

Result<void> Settings::outcome() const {
  if (!refusal_.empty()) return failure(Code::unsupported, refusal_);
  return {};
}

Integer Settings::checked(std::string_view name, const Value& value, uint32_t least) {
  const summary::Number number = summary::number_of(value);
  if (number && *number >= least && *number <= UINT32_MAX) return static_cast<uint32_t>(*number);
  refuse(fmt::format("config.json: {} is not an integer from {} to 2^32 - 1", printable(name), least));
  return std::nullopt;
}

Real Settings::checked_real(std::string_view name, const Value& value, double least) {
  Real out;
  if (const auto* const real = std::get_if<double>(&value)) out = *real;
  if (const auto* const n = std::get_if<uint64_t>(&value)) out = static_cast<double>(*n);
  if (const auto* const n = std::get_if<int64_t>(&value)) out = static_cast<double>(*n);
  if (out && *out >= least && std::abs(*out) <= std::numeric_limits<float>::max()) return out;
  refuse(fmt::format("config.json: {} is not a number of float32 from {} on", printable(name), least));
  return std::nullopt;
}

// null is stated: it stands for none, where an absent field stands for the default.
Real Settings::default_of(Names names) const {
  for (const std::string_view name : names)
    if (fields_.map()->find(name) != nullptr) return std::nullopt;
  for (const std::string_view name : names)
    if (const Real found = class_default(family_, name)) return found;
  return std::nullopt;
}

Integer Settings::integer_in(const Fields& object, Names names, uint32_t least) {
  for (const std::string_view name : names)
    if (const Value* const value = object.find(name)) return checked(name, *value, least);
  return std::nullopt;
}

Real Settings::real_in(const Fields& object, Names names, double least) {
  for (const std::string_view name : names)
    if (const Value* const value = object.find(name)) return checked_real(name, *value, least);
  return std::nullopt;
}

Integer Settings::integer(Names names, uint32_t least) {
  if (const Integer stated = integer_in(fields_, names, least)) return stated;
  const Real found = default_of(names);
  return found ? Integer(static_cast<uint32_t>(*found)) : std::nullopt;
}

Real Settings::real(Names names, double least) {
  const Real stated = real_in(fields_, names, least);
  return stated ? stated : default_of(names);
}

std::optional<bool> Settings::flag(std::string_view name) {
  const Value* const value = fields_.find(name);
  if (value == nullptr) {
    const Real found = default_of({name});
    return found ? std::optional(*found != 0) : std::nullopt;
  }
  if (const auto* const stated = std::get_if<bool>(value)) return *stated;
  refuse(fmt::format("config.json: {} is not true or false", printable(name)));
  return std::nullopt;
}

uint32_t Settings::required(Names names, uint32_t least) {
  const Integer found = integer(names, least);
  if (!found) lacks(names.front());  // a refusal for the value came first
  return found.value_or(1);
}

uint32_t Settings::layers() {
  const uint32_t count = required({"num_hidden_layers", "n_layers", "n_layer", "num_layers"});
  if (count <= kMaxBlocks) return count;
  refuse(fmt::format("config.json: num_hidden_layers is {}, the maximum is {}", count, kMaxBlocks));
  return 1;
}

uint32_t Settings::heads() { return required({"num_attention_heads", "n_head", "n_heads"}); }

Integer Settings::heads_of_keys() {
  constexpr std::array<std::string_view, 2> kNames = {"num_key_value_heads", "n_kv_heads"};
  const uint32_t all = heads();
  if (const Integer stated = integer_in(fields_, kNames, 1)) {
    if (all % *stated == 0) return stated;
    refuse(
        fmt::format("config.json: num_attention_heads {} is not a multiple of num_key_value_heads {}", all, *stated));
    return std::nullopt;
  }
  // llama.cpp takes the number of heads if the key is missing. A default that does not fit was not meant.
  const Real found = default_of(kNames);
  const auto count = static_cast<uint32_t>(found.value_or(0));
  return count > 0 && count < all && all % count == 0 ? Integer(count) : std::nullopt;
}

Integer Settings::stated_head_dim() {
  const Integer size = integer({"head_dim"}, 1);
  if (!size || *size <= kMaxHeadDim) return size;
  refuse(fmt::format("config.json: head_dim is {}, the maximum is {}", *size, kMaxHeadDim));
  return 1;
}

uint32_t Settings::head_dim() {
  const Integer stated = stated_head_dim();
  return stated ? *stated : part_of_width();
}

uint32_t Settings::part_of_width() {
  const uint32_t hidden = required({"hidden_size", "n_embd", "dim"});
  const uint32_t count = heads();
  const uint32_t size = hidden / count;
  if (hidden % count != 0)
    refuse(fmt::format("config.json: hidden_size {} is not a multiple of num_attention_heads {}", hidden, count));
  if (size > kMaxHeadDim)
    refuse(fmt::format("config.json: a head has {} elements, the maximum is {}", size, kMaxHeadDim));
  return std::min(size, kMaxHeadDim);
}

}  // namespace weightfs::mapping
