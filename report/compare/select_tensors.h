// The tensors that the patterns of a command line select.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"
#include "report/compare/contents.h"

namespace weightfs {

/// The name that a command shows and matches: behind its scope, if it has one.
std::string full_name(const TensorView& tensor);

/// That name behind the path of its model.
std::string full_name(const compare::FoundModel& found, const TensorView& tensor);

/// The layer of a tensor, by its name: up to its first number between points or slashes, as "blk.0". Empty for a name
/// without one.
std::string layer_of(std::string_view name);

/// What computing figures of the elements of tensors costs.
class FigureCost {
 public:
  /// `bytes`: of the elements, as often as they are read.
  void add(const TensorView& tensor, uint64_t bytes);
  uint64_t bytes() const { return bytes_; }

  /// Fails with resource if it is more than the files of the tensors explain: tensors may share a few bytes of a file,
  /// and a container may name millions of them.
  Result<void> check() const;

 private:
  std::set<const Source*> files_;
  uint64_t stored_ = 0;  // bytes of the files
  uint64_t bytes_ = 0;
  uint64_t tensors_ = 0;
};

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
