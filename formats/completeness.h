// Completeness: whether a model has everything that its containers list, and what it lacks otherwise. Every command
// says it in the same sentence, and ends with the same status (docs/semantics.md, Completeness).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weightfs {

struct Model;

/// What a model lacks.
struct Completeness {
  uint64_t tensors = 0;     ///< that the containers list, as far as they are known
  uint64_t unreadable = 0;  ///< of them, those that are refused or missing
  uint64_t files = 0;       ///< that are missing or cannot be read
  uint64_t short_by = 0;    ///< see Lacks
  /// The worst reason, with the first text: a mismatch, then corrupt bytes, missing files, forbidden ones, and those
  /// that are not available now. Nothing if the model is complete.
  std::optional<Error> reason;
  std::string second;  ///< another reason, if shards are missing beside it, or several files; may be empty

  bool is_complete() const { return !reason; }
};

/// What the model lacks, without its nested ones.
Completeness completeness_of(const Model& model);

/// Whether the model may have tensors that are not in its list: those of files that are missing or cannot be read. How
/// many parameters it has is not known then. Refused tensors are in the list. A file in Lacks::lost has no others than
/// those that are told of it: none, if it has the data of tensors in the list, or is none of tensors.
bool may_lack_tensors(const Model& model);

/// Whether the model has all of its tensors, and all of them can be read: a file without tensors may be missing.
bool has_all_tensors(const Model& model);

/// Why the model does not have a tensor of this name: the reason of the file that it is in by an index, or may be in.
/// Nothing if the model has read all files that could have it.
std::optional<Error> reason_of_missing(const Model& model, std::string_view tensor);

/// Why a tensor is refused, as far as it is known: what the model lacks.
Error reason_of_refused(const Model& model, std::string_view tensor);

/// Which of two reasons is worse: the one that decides the status of a command.
const Error& worse(const Error& a, const Error& b);

/// The code for what a model lacks because of a file of its own: corrupt if the file is no model at all, but a pointer
/// or zeros (formats/other_files.h).
Code code_of_lack(const Error& error);

/// "the file ends 2.1 GiB early: 133 of 291 tensors refused; interrupted download?", "7 of 20 tensors cannot be read:
/// 1 of 3 shards is missing: model-00002-of-00003.safetensors". Empty for a complete model.
std::string to_sentence(const Completeness& completeness);

}  // namespace weightfs
