// Adds up what the tensors of a model are: parameters of which parts, bytes, elements by type.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"
#include "formats/summary/summary.h"
#include "formats/summary/tensors/roles.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {

/// The names of the tensors, each parsed once.
using TensorNames = std::vector<TensorName>;
/// `known` and `is_ggml` as in NameParser.
TensorNames parse_names(const TensorList& tensors, const Summary& known, bool is_ggml);

/// What names and shapes show of a text model without its configuration.
struct Shapes {
  Number layers, vocabulary_size, hidden_size, ffn_size, experts, head_dim;
  bool has_embedding = false;
};
/// The rows of the plain matrices that make the keys of the text model, by layer.
std::map<uint64_t, uint64_t> key_rows_of(const TensorList& tensors, const TensorNames& names);
Shapes shapes_of(const TensorList& tensors, const TensorNames& names, const std::vector<Counted>& counted);

/// Makes the heads and embeddings that are one matrix with another duplicates. `tied`: what is stated. Sets
/// tied_embeddings for text models (`kind`).
void find_tied(const TensorList& tensors, const TensorNames& names, std::optional<bool> tied,
               std::vector<Counted>& counted, Summary& out);

/// Sets the numbers of parameters, the bytes and the types. Layers and experts are known already.
/// `experts_by_layer`: where the number of experts in use is not the same in all layers.
void add_up(const TensorList& tensors, const TensorNames& names, const Roles& roles,
            const std::vector<uint64_t>& experts_by_layer, Summary& out);

}  // namespace weightfs::summary
