// A repository of the Hub as a GGUF that llama.cpp loads, and the reverse (docs/formats/gguf.md, "Hub repositories").
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/mapping/operations/numbers.h"
#include "formats/model.h"

namespace weightfs::mapping {

/// Whether a model has the names and the configuration of a class of transformers: a GGUF of it is made by its
/// architecture, or not at all.
bool is_of_transformers(const Model& model);

/// The name of a repository for a GGUF of it: that of the directory or repository of SOURCE, without its owner and its
/// revision.
std::string repository_name(const Model& model, std::string_view source);

/// The model as a GGUF: its tensors with their names, shapes and values there, in the converter's order, and all keys
/// as Model::gguf_keys. `name` is that of the directory, or of the repository without its owner. Reads the small files
/// beside the model, and no tensor. Fails with unsupported, in a sentence that says what llama.cpp lacks, and as
/// reading the small files and Budget::charge do.
Result<ModelPtr> as_gguf(const ModelPtr& model, const std::string& name, GgufType type);
/// One for each of these types; they share the tokenizer.
Result<std::vector<ModelPtr>> as_gguf(const ModelPtr& model, const std::string& name, std::span<const GgufType> types);

/// Whether a model is a GGUF of an architecture whose names in transformers are known.
bool has_hub_names(const Model& model);

/// A GGUF with the names, shapes and values of transformers: experts apart, quantised rows as they are where an
/// operation only moves rows. Fails with unsupported if its architecture is not known or a tensor has no place.
Result<ModelPtr> as_hub(const ModelPtr& gguf);

/// The tensors of a repository with the names and values that a GGUF has, for comparisons.
struct WithGgufNames {
  ModelPtr model;                 ///< it lacks what the repository lacks
  std::string_view architecture;  ///< general.architecture
  size_t unplaced = 0;            ///< tensors that keep their names: a GGUF has no place for them
  size_t dropped = 0;             ///< tensors that are absent: of towers for pictures and sound, and buffers
};

/// Fails as Repository::open() does, and as Budget::charge.
Result<WithGgufNames> with_gguf_names(const ModelPtr& model);

}  // namespace weightfs::mapping
