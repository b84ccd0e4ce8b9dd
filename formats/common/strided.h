// Tensors whose elements are not stored one after another in C order: transposed, expanded, in Fortran order, or with
// another byte order. Reads return C order and little-endian numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/budget.h"
#include "formats/model.h"

namespace weightfs {

/// How the elements of a tensor differ from its values.
struct Conversion {
  uint32_t swap = 0;  ///< bytes per number whose order is reversed; 0 for none. A complex number is two numbers.
  bool conjugate = false;
  bool negate = false;

  bool operator==(const Conversion&) const = default;
};

/// The distance between neighbours in each dimension, in elements, outermost first.
using Strides = std::vector<uint64_t>;

/// The strides of a shape in C order and in Fortran order. Where they overflow, so does the number of elements.
Strides c_strides(const Shape& shape);
Strides fortran_strides(const Shape& shape);

/// The elements of a tensor with these strides, whose first element is the element `offset` of `storage`, in C order
/// and with little-endian values. It is a range of `storage` if they are stored like that, else it is gathered when it
/// is read: the memory for that does not depend on the tensor. Fails with corrupt if there are more strides than
/// dimensions or the reverse, if an element is outside of `storage`, or if the size overflows, and with unsupported if
/// elements of a packed or a block type are not stored in C order from a whole byte on.
Result<Slice> strided(const Slice& storage, uint64_t offset, const DType& dtype, const Shape& shape,
                      const Strides& strides, const Conversion& conversion = {});

/// Charges for gathering `tensor`, which strided() made of `storage`, once, and for what describes that. Call it when
/// the tensor is listed: tensors may share a storage, and a storage may be zeros in a small archive. `Charge` is Budget
/// or Charges.
template <class Charge>
Result<void> charge_gathering(Charge& charge, const Slice& tensor, const Slice& storage) {
  constexpr uint64_t kDescription = 1024;
  if (tensor.whole() == storage.whole()) return {};
  TRY_VOID(charge.charge(Cost::kept, kDescription));
  TRY_VOID(charge.charge(Cost::input, tensor.size()));
  return charge.charge(Cost::output, tensor.size());
}

}  // namespace weightfs
