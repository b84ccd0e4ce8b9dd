// What joblib writes into pickles: arrays whose bytes follow an object in the file (0.10 and later), and arrays in
// files beside it (before). Reference: joblib/numpy_pickle.py, numpy_pickle_compat.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/format.h"
#include "formats/numpy/pickled.h"

namespace weightfs::python {

/// Finds the bytes of a joblib.numpy_pickle.NumpyArrayWrapper. For one pickle.
class JoblibBytes final : public pickle::InlineData {
 public:
  explicit JoblibBytes(Budget& budget) : budget_(budget) {}

  Result<std::optional<pickle::Inline>> after(const pickle::Pickle& pickle, pickle::Index object) const override;

 private:
  Budget& budget_;
  mutable std::map<pickle::Index, numpy::ElementType> types_;  // arrays share them
};

/// Adds the arrays of joblib.
class JoblibArrays final : public pickle::Objects {
 public:
  JoblibArrays(const pickle::Pickle& pickle, const Container& container, numpy::PickledArrays& arrays,
               pickle::Contents& out)
      : pickle_(pickle), container_(container), arrays_(arrays), out_(out) {}

  Result<std::optional<pickle::Meaning>> meaning(const std::string& name, pickle::Index value) override;

  /// The files beside the container that hold arrays.
  std::vector<Part> take_companions() { return std::move(companions_); }

 private:
  Result<pickle::Meaning> add_companion(const std::string& name, pickle::Index state, bool is_compressed);
  Result<void> add_npy(const std::string& name, const SourcePtr& file);
  Result<void> add_compressed(const std::string& name, const SourcePtr& file, pickle::Index state);

  const pickle::Pickle& pickle_;
  const Container& container_;
  numpy::PickledArrays& arrays_;
  pickle::Contents& out_;
  std::vector<Part> companions_;
};

/// The class of an object: "joblib.numpy_pickle.NumpyArrayWrapper", in Python 3's names and without the place that
/// scikit-learn before 0.23 had joblib in.
std::string class_of(const pickle::Pickle& pickle, pickle::Index object);

}  // namespace weightfs::python
