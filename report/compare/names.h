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

/// The tensors of a repository with the names and values that a GGUF has; weights that it packs are computed. Fails
/// with unsupported for a model that has no class of transformers, or one that llama.cpp lacks, and as
/// computed_weights() does.
Result<mapping::WithGgufNames> gguf_tensors(const ModelPtr& repository);

/// Nothing if the names of both are compared as they are: no side is a GGUF, the other is no repository of the same
/// architecture, or no tensor has a place in a GGUF. Fails as computed_weights() does.
Result<std::optional<MappedNames>> mapped_names(const ModelPtr& a, const ModelPtr& b);

/// "25 of 27 tensors of A were compared by the names of llama.cpp".
std::string mapped_names_sentence(const MappedNames& names, const std::string& repository);

}  // namespace weightfs::compare
