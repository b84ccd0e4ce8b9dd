// Reads the fields of an object that may be hostile: a config.json, the keys of a GGUF. A field of the wrong type is
// ignored, with a warning; null is as good as absent.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/value.h"

namespace weightfs {
struct Model;
}

namespace weightfs::summary {

using Number = std::optional<uint64_t>;

/// Names of a field, of which the first that exists counts. An argument only: a list in braces ends with the call.
class Names : public std::span<const std::string_view> {
 public:
  Names(std::initializer_list<std::string_view> names) : span(names.begin(), names.size()) {}
  template <size_t size>
  Names(const std::array<std::string_view, size>& names) : span(names) {}
};

/// The largest number that a field may have: products of two of them are checked, sums of thousands fit.
inline constexpr uint64_t kMaxNumber = uint64_t{1} << 48;

/// The largest number of layers for which something is computed layer by layer.
inline constexpr uint64_t kMaxLayers = 16'384;

/// `a` times `b`; nothing if either is nothing or the product does not fit.
Number product(Number a, Number b);
Number sum(Number a, Number b);

/// `text` with a to z in upper case.
std::string upper_case(std::string_view text);

/// `value` as an integer from 0 to kMaxNumber, also if it is stored as a double without a fraction.
Number number_of(const Value& value);

/// An object, or nothing, which has no fields. Neither the object nor the warnings are owned.
class Fields {
 public:
  Fields() = default;
  /// `file` is the subject of the warnings, and `prefix` is in front of each name: "llama." for the keys of a GGUF.
  Fields(const Map* map, std::string_view file, std::vector<std::string>& warnings, std::string prefix = "")
      : map_(map), file_(file), warnings_(&warnings), prefix_(std::move(prefix)) {}

  explicit operator bool() const { return map_ != nullptr; }
  const Map* map() const { return map_; }

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Value* find(std::string_view name) const;  ///< null for an absent field and for null

  // The first of these fields that exists and has the type.
  Number number(Names names) const;
  Number positive(Names names) const;   ///< nothing, without a warning, for -1 and 0, which mean that there is none
  std::string text(Names names) const;  ///< empty if there is none, and if it has more than 1,000 bytes
  std::optional<bool> flag(std::string_view name) const;
  std::optional<double> real(Names names) const;  ///< finite
  Fields object(Names names) const;
  const List* list(std::string_view name) const;

  /// A number for each of `layers`: a list is repeated where it is too short, a number is the same for all. Empty if
  /// there is neither.
  std::vector<uint64_t> per_layer(std::string_view name, uint64_t layers) const;

  /// Texts of a list, or one text, at most 1,000.
  std::vector<std::string> texts(std::string_view name) const;

 private:
  void warn(std::string_view name, std::string_view expected) const;

  const Map* map_ = nullptr;
  std::string_view file_;
  std::vector<std::string>* warnings_ = nullptr;
  std::string prefix_;
};

/// The keys of the GGUF that the model is, or that an Ollama model has; null if it has none.
const Map* gguf_keys_of(const Model& model);

}  // namespace weightfs::summary
