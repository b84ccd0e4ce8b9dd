// What the name of a tensor shows of its place in a model. A name is scanned once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weightfs::summary {

struct TensorName {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t layer = kNone;                    ///< in the outermost repeated block: 3 of "model.layers.3.mlp"
  uint32_t expert = kNone;                   ///< 7 of "mlp.experts.7.up_proj"
  bool is_vision = false, is_audio = false;  ///< of a tower, or of what connects it
  bool is_embedding = false;                 ///< of the input, if it is a matrix
  bool is_head = false;                      ///< of the output, of a text model
  bool is_stacked = false;                   ///< experts in one tensor, if its first dimension is their number
  bool is_predictor = false;                 ///< of further tokens, by its name
  bool is_ffn = false, is_query_norm = false;

  bool is_text() const { return !is_vision && !is_audio; }
};

/// `is_ggml`: of a model with the names of GGUF.
TensorName parse_tensor_name(std::string_view name, bool is_ggml);

/// Whether `text` is one of `texts`.
bool is_in(std::string_view text, std::span<const std::string_view> texts);

/// The last component of a tensor's name, after its last `.` or `/`.
std::string_view last_component(std::string_view name);

/// What is before the last component, without the separator.
std::string_view parent_of(std::string_view name);

/// Whether `component` is one of the components of the name, which `.` and `/` separate.
bool has_component(std::string_view name, std::string_view component);

/// Whether `name` ends with `suffix`, at the begin of a component.
bool ends_with_components(std::string_view name, std::string_view suffix);

}  // namespace weightfs::summary
