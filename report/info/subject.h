// What a screen shows: a model with its summary, and the words for its kind and format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"
#include "formats/summary/summary.h"

namespace weightfs::info {

struct Subject {
  const Model& model;
  const summary::Summary& summary;
  std::span<const summary::Counted> counted;  ///< an element per tensor
  std::string source;                         ///< as it is printed
  std::vector<std::string> nested = {};       ///< paths of parts that are containers
};

/// "language model", "LoRA adapter": the words of the field.
std::string kind_text(const summary::Summary& summary);

/// "GGUF 3", "ONNX (IR 8)", "safetensors".
std::string format_text(const Model& model);

/// "Q4_K_M: 4.89 bits per weight", "Q4_K_M (guessed): …", or the type of most parameters; empty if it is unknown.
std::string weights_text(const summary::Summary& summary);
/// "Q4_K_M", "float32": the name of the quantisation, or the type of most parameters.
std::string short_weights_text(const summary::Summary& summary);
/// "Q4_K_M (guessed)"; empty for a plain type.
std::string quantisation_text(const summary::Summary& summary);

/// The bytes of the model: of the files with its weights, or of the tensors in it.
uint64_t model_bytes(const Model& model);
/// The bytes of all tensors; of refused ones by their shape.
uint64_t listed_bytes(const Model& model);

/// What another program may run when it loads the model (semantics 2.7), the first few of it; empty if there is
/// nothing.
std::string code_text(const Model& model);

/// The first of the names in its pickles of which is not known whether they can run code, and how many more there are;
/// empty if there are none.
std::string unknown_globals(const Model& model);

/// The last component of a source.
std::string_view base_name(std::string_view source);

}  // namespace weightfs::info
