// Boosters of XGBoost and LightGBM in pickles: their state has a whole model file, as bytes or as a text.
// Reference: Booster.__getstate__ in xgboost/core.py and lightgbm/basic.py, XGBModel in xgboost/sklearn.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/format.h"
#include "formats/pickle/escaped.h"
#include "formats/pickle/walk.h"

namespace weightfs::python {

/// Finds the boosters of one pickle.
class Boosters final : public pickle::Objects {
 public:
  Boosters(const pickle::Pickle& pickle, const pickle::File& file, pickle::Contents& out)
      : pickle_(pickle), file_(file), out_(out) {}

  /// Never a meaning: the other attributes of a booster are shown as those of any object. One whose model cannot be
  /// read is left out, with a warning.
  Result<std::optional<pickle::Meaning>> meaning(const std::string& name, pickle::Index value) override;

  /// Their models, named by the paths of the boosters in the pickle.
  std::vector<Part> take_parts() { return std::move(parts_); }

 private:
  Result<void> add(std::string path, pickle::Index model);
  Result<SourcePtr> model_file(pickle::Index model);

  const pickle::Pickle& pickle_;
  const pickle::File& file_;
  pickle::Contents& out_;
  std::vector<Part> parts_;
  std::map<pickle::Index, SourcePtr> files_;  // a booster may have several names
};

/// Adds the models of boosters to the parts of `model`, whose container is `around`. They are read when they are
/// entered, each once. One in a form that is not known is only a file. Fails with io, and as the budget does.
Result<void> add_boosters(Model& model, std::vector<Part> boosters, const Container& around);

}  // namespace weightfs::python
