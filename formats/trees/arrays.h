// Collects the tensors of a tree model in the order of the file, and gives them their bytes when all are known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/model.h"
#include "formats/trees/numbers.h"

namespace weightfs::trees {

class Arrays {
 public:
  /// All of them outlive it. The model has no tensors yet.
  Arrays(Model& model, Warnings& warnings, Budget& budget) : model_(model), warnings_(warnings), budget_(budget) {}

  RunList& runs() { return runs_; }
  Budget& budget() { return budget_; }

  /// Adds a tensor of one dimension. Without a run, it is refused with a warning. Fails as the budget does.
  Result<void> add(std::string name, Element element, const std::optional<Run>& run);

  /// Removes the tensors from the one at this index on.
  void drop_from(size_t first);

  /// Sets the bytes of all tensors, whose numbers are in `file`. Call it once.
  Result<void> finish(const SourcePtr& file);

 private:
  Model& model_;
  Warnings& warnings_;
  Budget& budget_;
  RunList runs_;
  std::vector<bool> is_refused_;  // by the index of the tensor
};

}  // namespace weightfs::trees
