// What the name of a tensor shows of its place in a model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/names/name_index.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

struct TensorName {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t layer = kNone;                    ///< in the outermost repeated block: 3 of "model.layers.3.mlp"
  uint32_t expert = kNone;                   ///< 7 of "mlp.experts.7.up_proj"
  bool is_vision = false, is_audio = false;  ///< of a tower, or of what connects it
  bool is_embedding = false;                 ///< of the input, if it is a matrix
  bool is_lookup = false;                    ///< of what else is looked up at the input
  bool is_head = false;                      ///< of the output, of a text model
  bool is_stacked = false;                   ///< experts in one tensor, if its first dimension is their number
  bool is_predictor = false;                 ///< of further tokens, by its name
  bool is_ffn = false;  ///< with a row for each feature of the feed-forward part, if it is a matrix
  bool is_query_norm = false;
  bool is_keys = false;    ///< makes the keys of all heads
  bool is_latent = false;  ///< makes what keys and values are compressed to

  bool is_text() const { return !is_vision && !is_audio; }
};

/// Parses the names of one model: by the table of names for the architectures that it has (formats/names/names.h), and
/// by what is usual for the names that no row covers. Callable from any thread.
class NameParser {
 public:
  /// `known`: a summary with the architecture or the class of transformers. `is_ggml`: of a model with the names of
  /// GGUF.
  NameParser(const Summary& known, bool is_ggml);
  /// `known`: the summary of the model.
  NameParser(const Model& model, const Summary& known);

  TensorName parse(std::string_view name) const;
  /// The part of the row that has the name; nothing if none has.
  std::optional<mapping::TensorPart> part_in_table(std::string_view name) const;
  /// Whether it is the output head: by the row, else also a head that gives no tokens, such as "head.weight".
  bool is_head(std::string_view name) const;
  /// Whether it is of one or all routed experts.
  bool is_expert(std::string_view name) const;

 private:
  bool is_ggml_;
  std::optional<mapping::NameIndex> table_;
};

/// The part that words in a name suggest, for a name that no row has: the general one where a part has exceptions.
mapping::TensorPart part_by_words(std::string_view name);

/// Whether words in a name, of a tensor or of several, suggest routed experts.
bool has_word_of_experts(std::string_view name);

/// "12" in a name with "experts.12.".
std::optional<std::string_view> expert_in(std::string_view name);

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
