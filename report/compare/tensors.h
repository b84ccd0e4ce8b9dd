// Compares the tensors of two models.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/model.h"
#include "numbers/deviation.h"
#include "report/compare/bytes.h"
#include "report/compare/pairs.h"

namespace weightfs::compare {

/// A tensor that both models have, with a difference.
struct ChangedTensor {
  TensorPair pair;
  bool has_other_type;                          ///< another dtype or shape; then the bytes are not compared
  std::optional<numbers::Deviation> deviation;  ///< if it was requested
  std::vector<numbers::Octave> differences;     ///< the distribution of the absolute differences, with the deviation
  std::string no_deviation;                     ///< the reason if there is none
};

/// A tensor that cannot be read, listed once.
struct UnreadableTensor {
  Side side;
  size_t index;
  Error error;
};

/// The differences, each list in container order (of the first model if both have the tensor).
struct TensorComparison {
  std::vector<size_t> missing;  ///< only in the first model
  std::vector<size_t> added;    ///< only in the second
  std::vector<TensorPair> renamed;
  std::vector<ChangedTensor> changed;
  std::vector<UnreadableTensor> unreadable;
  uint64_t equal = 0;
};

/// The progress of a long operation: what it does, and bytes. Called from any thread.
using ReportProgress = std::function<void(const char* what, uint64_t done, uint64_t total)>;

struct CompareOptions {
  bool deviation = false;  ///< compute the deviation of tensors with the same shape that differ
  NameMatching names = NameMatching::mapped;
  size_t threads = 1;
  ReportProgress report = [](const char*, uint64_t, uint64_t) {};
};

/// Compares tensors of the same name. Among tensors without a counterpart, the ones with the same dtype, shape and
/// digest are renamed. Only these are hashed, and only if both models have one of that dtype and shape. Fails with
/// resource.
Result<TensorComparison> compare_tensors(const Model& a, const Model& b, const CompareOptions& options);

}  // namespace weightfs::compare
