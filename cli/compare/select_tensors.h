// The tensors that the patterns of a command line select.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/compare/contents.h"
#include "formats/model.h"

namespace weightfs {

/// The name that a command shows and matches: behind its scope, if it has one.
std::string full_name(const TensorView& tensor);

/// That name behind the path of its model.
std::string full_name(const compare::FoundModel& found, const TensorView& tensor);

/// The layer of a tensor, by its name: up to its first number between points or slashes, as "blk.0". Empty for a name
/// without one.
std::string layer_of(std::string_view name);

/// Fails with resource if reading `total` bytes of the tensors' elements would take more than their files explain:
/// tensors may share a few bytes of a file.
Result<void> check_amount(std::span<const TensorView> tensors, uint64_t total);

/// The indices of the tensors whose full names match one of the shell patterns (`*`, `?`, `[...]`, also across `/`) or
/// are equal to one, ascending. All tensors without patterns. Fails with not_found for a pattern without a match; with
/// the reason of a part of the model that could not be read, and that has or may have a match.
Result<std::vector<size_t>> select_tensors(const ModelPtr& model, const std::vector<std::string>& patterns);

/// Selects among the tensors of several models.
Result<std::vector<compare::TensorPlace>> select_tensors(const std::vector<compare::FoundModel>& models,
                                                         const std::vector<std::string>& patterns);

/// Why a pattern with wildcards may have more matches than those that are selected: a part of a model could not be
/// read.
std::optional<Error> reason_of_incomplete(const std::vector<compare::FoundModel>& models,
                                          const std::vector<std::string>& patterns);

}  // namespace weightfs
