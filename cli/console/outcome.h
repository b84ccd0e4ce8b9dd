// The outcome of a command that has several things to do: it continues after a failure, and its status is that of the
// worst one.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/exit.h"
#include "formats/model.h"

namespace weightfs {

class Outcome {
 public:
  /// Prints the failure on standard error.
  void fail(const Error& error);
  /// Prints an error unless one with its code was counted: an error found again at the end of a command is printed
  /// once.
  void fail_once(const Error& error) {
    if (!worst_ || worst_->code != error.code) fail(error);
  }
  /// Counts a failure that is printed elsewhere.
  void note(const Error& error);
  /// Adds another outcome's counts.
  void add(const Outcome& other) {
    if (other.worst_) note(*other.worst_);
  }
  /// Prints what the model `name` lacks; that is a failure.
  void check(const Model& model, const std::string& name);

  /// That of the worst failure (formats/completeness.h).
  Exit status() const { return worst_ ? exit_of(worst_->code) : Exit::ok; }

 private:
  std::optional<Error> worst_;
};

}  // namespace weightfs
