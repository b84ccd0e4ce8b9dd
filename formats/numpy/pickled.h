// Arrays and numbers of NumPy in pickles. References: numpy/core/src/multiarray/methods.c (array_reduce_ex,
// array_setstate), numpy/core/numeric.py (_frombuffer), numpy/ma/core.py (_mareconstruct).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "formats/numpy/pickled_type.h"
#include "formats/pickle/escaped.h"
#include "formats/pickle/walk.h"
#include "formats/string_pool.h"

namespace weightfs::numpy {

/// The values that describe an array.
struct PickledArray {
  pickle::Index type;   ///< a numpy.dtype
  pickle::Index shape;  ///< a tuple
  bool fortran_order;
  pickle::Index data;  ///< bytes, or the list of its objects
};

/// Adds the arrays of one pickle to its contents, and those of their fields that have a type of tensors.
class PickledArrays final : public pickle::Objects {
 public:
  PickledArrays(const pickle::Pickle& pickle, const pickle::File& file, pickle::Contents& out)
      : pickle_(pickle), file_(file), out_(out), spellings_(out.string_pool) {}

  /// An array, a masked array, a number, or an element type, which is its text in the metadata.
  Result<std::optional<pickle::Meaning>> meaning(const std::string& name, pickle::Index value) override;
  std::optional<std::string> key(pickle::Index value) override;

  /// Adds an array. One that cannot be read is refused, with a warning.
  Result<pickle::Meaning> add(const std::string& name, const PickledArray& array);

  /// Adds the array with this state: ([version,] shape, type, is Fortran order, data).
  Result<pickle::Meaning> add_state(const std::string& name, pickle::Index state);

  /// A tensor without its bytes, charged to the contents.
  Result<Tensor> new_tensor(const std::string& name, const ElementType& type, Shape shape);

  /// Adds a tensor, with a .npy file if it has a type without a row of DType.
  Result<void> add_tensor(const Tensor& tensor);

  /// Adds a refused tensor.
  Result<pickle::Meaning> refuse(const std::string& name, const Error& reason);

 private:
  Result<const PickledType*> type_of(pickle::Index value);
  Result<std::optional<pickle::Meaning>> read(const std::string& name, const PickledArray& array);
  Result<void> add_fields(const std::string& name, const Slice& records, const PickledType& type, const Shape& shape,
                          bool fortran_order);
  Result<void> add_mask(const std::string& name, pickle::Index state);
  Result<std::optional<Value>> number(pickle::Index call);

  const pickle::Pickle& pickle_;
  const pickle::File& file_;
  pickle::Contents& out_;
  StringPool spellings_;
  std::map<pickle::Index, PickledType> types_;
};

/// Whether a global makes plain values or arrays of NumPy.
bool is_plain_name(std::string_view global);

/// Adds what a pickle of an array of objects has, such as a .npy file holds behind its header at `offset`: `prefix`
/// is as in walk(). Fails as read_pickle and walk do.
Result<void> add_objects(const std::string& prefix, const SourcePtr& file, uint64_t offset, const pickle::File& around,
                         pickle::Contents& out);

}  // namespace weightfs::numpy
