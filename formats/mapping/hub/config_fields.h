// The keys of a GGUF that a config.json of transformers is made of, for the functions that write its fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/model.h"
#include "formats/names/names.h"
#include "formats/summary/fields.h"

namespace weightfs::mapping {

/// A config.json under construction.
class HubConfig {
 public:
  /// The model outlives it.
  HubConfig(const Model& gguf, const Architecture& architecture);

  Arch arch() const { return architecture_.id; }
  const summary::Fields& keys() const { return keys_; }  ///< those with the prefix of the architecture
  const Model& gguf() const { return gguf_; }

  /// The number of a key: the one of all layers, if it has one for each. Nothing if it differs between layers.
  summary::Number number(std::string_view key) const;

  /// As number(), but 0 and a failure of the whole if there is none.
  uint64_t required(std::string_view key);

  /// The tensor of this name, or nothing.
  std::optional<TensorView> tensor(std::string_view name) const;

  void set(std::string_view field, Value value) { fields_.set(std::string(field), std::move(value)); }
  void set(std::string_view field, const summary::Number& value) {
    if (value) set(field, Value(*value));
  }
  void set(std::string_view field, const std::optional<double>& value) {
    if (value) set(field, Value(*value));
  }

  /// The first refusal is kept.
  void refuse(std::string message);

  const Map& fields() const { return fields_; }
  Result<void> outcome() const;

 private:
  const Model& gguf_;
  const Architecture& architecture_;
  std::vector<std::string> warnings_;
  summary::Fields keys_;
  Map fields_;
  std::string refusal_;
};

/// Adds the fields that most classes have, by a table of keys.
void add_common_fields(HubConfig& config);

/// Adds architectures and model_type: the class of the text model.
void add_class(HubConfig& config);

/// Adds the fields that the class of the architecture has besides. After add_common_fields().
void add_fields_of_class(HubConfig& config);

/// Adds rope_theta and the scaling that keys describe. After the fields of the class.
void add_rope_fields(HubConfig& config);

/// Adds the scaling that tensors describe, which are read: the factors of phi3 and gemma4, and the scaling of llama3 if
/// one of those that models have makes the same factors; else a field that says that it is missing. Fails with
/// unsupported if such a tensor is not a list of at most kMaxRopeFactors numbers, and as reading does.
Result<void> add_rope_factors(const HubConfig& config, Map& fields);

inline constexpr uint64_t kMaxRopeFactors = 4096;

}  // namespace weightfs::mapping
