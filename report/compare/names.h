// Which names two models are compared by: one may have the names of llama.cpp, and the other those of transformers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "formats/mapping/mapping.h"
#include "formats/model.h"
#include "report/compare/bytes.h"

namespace weightfs::compare {

/// How names of two models are matched.
enum class NameMatching {
  mapped,  ///< as a GGUF of a repository has them, if one side is a GGUF and the other a repository
  as_stored,
};

/// Tensors of one model that have the names and values of the other model's format.
struct MappedNames {
  Side side;        ///< the repository
  ModelPtr model;   ///< its tensors as a GGUF has them
  size_t unmapped;  ///< of the tensors: they keep their names, or are absent
};

/// How the names of two models are matched.
struct NameMapping {
  std::optional<MappedNames> mapped = {};  ///< nothing if the names that both store are compared
  std::string why_not = {};  ///< why a repository and a GGUF are compared by the names that they store; else empty
};

/// The tensors of a repository with the names and values that a GGUF has; weights that it packs are computed. Fails
/// with unsupported for a model that has no class of transformers, or one that llama.cpp lacks, and as
/// computed_weights() does.
Result<mapping::WithGgufNames> gguf_tensors(const ModelPtr& repository);

/// Not mapped if no side is a GGUF, the other is no repository of the same architecture, or no tensor has a place in a
/// GGUF. Fails as computed_weights() does.
Result<NameMapping> mapped_names(const ModelPtr& a, const ModelPtr& b);

/// "llama: tensors are compared by their names and values in a GGUF", or why they are not; empty if there is nothing to
/// say. `a`, `b`: the names of the models for a message.
std::string names_sentence(const NameMapping& names, const std::string& a, const std::string& b);

}  // namespace weightfs::compare
