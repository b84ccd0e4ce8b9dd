// Tensors without figures, for the exit status and the messages of `weightfs stats`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cli/console/outcome.h"
#include "report/compare/contents.h"
#include "report/stats/figures.h"

namespace weightfs::stats {

/// Tensors that cannot be read, and those without the channels that were requested.
class TensorProblems {
 public:
  /// `selected` are the tensors that note() is called with, in their order. The completeness of the models is reported
  /// elsewhere if `are_refused_reported`.
  TensorProblems(const std::vector<compare::FoundModel>& models, const std::vector<compare::TensorPlace>& selected,
                 bool are_refused_reported)
      : models_(models), selected_(selected), are_refused_reported_(are_refused_reported) {}

  void note(const TensorFigures& one);

  /// Reports what cannot be read. Tensors of types that have no statistics are no error.
  void report(Outcome& outcome) const;
  /// Reports the channels, of `axis` or of the first and the last, that a tensor cannot have.
  void report_channels(std::optional<uint64_t> axis, Outcome& outcome) const;

 private:
  const std::vector<compare::FoundModel>& models_;
  const std::vector<compare::TensorPlace>& selected_;
  const bool are_refused_reported_;
  size_t tensors_ = 0;               // that were noted
  std::map<size_t, Error> refused_;  // by the model: the reason of its first one
  Outcome unread_;
  uint64_t unread_count_ = 0;
  std::optional<Error> first_unread_;
  std::optional<Error> first_without_channels_;
  size_t most_axes_ = 0;
};

}  // namespace weightfs::stats
