#include "cli/findings/tensor_problems.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/completeness.h"

namespace weightfs::stats {

void TensorProblems::note(const TensorFigures& one) {
  const compare::TensorPlace& place = selected_[tensors_++];
  most_axes_ = std::max(most_axes_, one.tensor.shape.size());
  if (!one.no_channels.empty() && !first_without_channels_)
    first_without_channels_ = {Code::unsupported, fmt::format("tensor {}: {}", quoted(one.name), one.no_channels)};
  if (one.statistics || one.statistics.error().code == Code::unsupported) return;
  Error error = one.statistics.error();
  if (one.is_refused) {
    Error& reason = refused_[place.model];
    if (reason.message.empty()) reason = reason_of_refused(*models_[place.model].model, one.tensor.name);
    error = {reason.code, fmt::format("refused: {}", reason.message)};
  }
  unread_.note(error);
  if (one.is_refused && are_refused_reported_) return;
  if (unread_count_++ == 0) first_unread_ = {error.code, fmt::format("tensor {}: {}", quoted(one.name), error.message)};
}

void TensorProblems::report(Outcome& outcome) const {
  outcome.add(unread_);
  if (first_unread_)
    outcome.fail({first_unread_->code,
                  fmt::format("{} of {} tensors cannot be read: {}", unread_count_, tensors_, first_unread_->message)});
}

void TensorProblems::report_channels(std::optional<uint64_t> axis, Outcome& outcome) const {
  if (first_without_channels_) outcome.fail(*first_without_channels_);
  if (most_axes_ < 2 || axis.value_or(0) >= most_axes_)
    outcome.fail({Code::not_found, axis ? fmt::format("no matrix has an axis {}", *axis) : "no tensor has two axes"});
}

}  // namespace weightfs::stats
