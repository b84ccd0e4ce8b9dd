// Arrays that libraries wrap in calls of their own: Paddle (framework/io.py), JAX (_src/array.py).
#pragma once

#include <string>

#include "formats/numpy/pickled.h"

namespace weightfs::python {

class WrappedArrays final : public pickle::Objects {
 public:
  WrappedArrays(const pickle::Pickle& pickle, numpy::PickledArrays& arrays) : pickle_(pickle), arrays_(arrays) {}

  Result<std::optional<pickle::Meaning>> meaning(const std::string& name, pickle::Index value) override;

 private:
  const pickle::Pickle& pickle_;
  numpy::PickledArrays& arrays_;
};

/// The array of a LoDTensor of Paddle: exactly eval('data', {'data': array}); kNoValue for other calls of eval.
pickle::Index array_of_eval(const pickle::Pickle& pickle, pickle::Index call);

}  // namespace weightfs::python
