// The fields of a config.json that a GGUF needs, checked: llama.cpp ends the process for some impossible numbers, and
// loads a wrong model for others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/mapping/repository.h"
#include "formats/summary/fields.h"

namespace weightfs::mapping {

using Integer = std::optional<uint32_t>;
using Real = std::optional<double>;

/// Reads fields. A missing field has the default of its class in transformers, or is nothing, as null is. A field with
/// an impossible value refuses the repository: the first refusal is kept, and reads continue with other values.
class Settings {
 public:
  explicit Settings(Repository& repository);

  const summary::Fields& fields() const { return fields_; }
  std::string_view family() const { return family_; }  ///< as family_of_class(), or "Gemma3Text"
  bool states(std::string_view name) const { return fields_.has(name); }

  // The first of these fields that exists. Integers are from `least` to 2^32 - 1, reals fit float32.
  Integer integer(summary::Names names, uint32_t least = 0);
  Real real(summary::Names names, double least = 0);
  std::optional<bool> flag(std::string_view name);

  /// As integer(), but 1 and a refusal if there is none.
  uint32_t required(summary::Names names, uint32_t least = 1);

  // As integer() and real() in another object of config.json, which has no defaults.
  Integer integer_in(const summary::Fields& object, summary::Names names, uint32_t least = 0);
  Real real_in(const summary::Fields& object, summary::Names names, double least = 0);

  uint32_t layers();          ///< 1 to 512, the maximum of llama.cpp
  uint32_t heads();           ///< at least 1
  Integer heads_of_keys();    ///< stated, or a default that is not the number of heads
  Integer stated_head_dim();  ///< or that of the class
  uint32_t part_of_width();   ///< hidden_size / heads; refuses a remainder
  uint32_t head_dim();        ///< stated, or part_of_width()

  void refuse(std::string message);
  void lacks(std::string_view name);
  Result<void> outcome() const;

 private:
  Integer checked(std::string_view name, const Value& value, uint32_t least);
  Real checked_real(std::string_view name, const Value& value, double least);
  Real default_of(summary::Names names) const;

  summary::Fields fields_;
  std::string_view family_;
  std::string refusal_;
};

/// The maximum number of layers that llama.cpp loads (LLAMA_MAX_LAYERS).
inline constexpr uint32_t kMaxBlocks = 512;

/// The maximum number of elements of a head: a generated tensor has half as many.
inline constexpr uint32_t kMaxHeadDim = 1 << 16;

}  // namespace weightfs::mapping
