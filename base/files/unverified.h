// Bytes that a parser reads before they are verified.
#pragma once

#include "base/source.h"

namespace weightfs {

/// What Source::unverified() returns where each read is compared later: a reader of the verified bytes gets the
/// failure.
class UnverifiedBytes : public Source {
 public:
  /// Ends the comparison of earlier reads. Call it when nothing that was parsed from them is kept.
  virtual void forget() const = 0;
};

}  // namespace weightfs
