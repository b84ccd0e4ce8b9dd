// The tensors of one module of a quantised repository, which the ends of their names tell apart.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/model.h"
#include "formats/summary/fields.h"
#include "formats/summary/tensors/modules.h"

namespace weightfs::computed {

/// The names of types. An argument only.
using TypeNames = summary::Names;

inline constexpr auto kRealTypes = std::to_array<std::string_view>({"float16", "bfloat16", "float32"});

class ModulePieces {
 public:
  ModulePieces(const TensorList& tensors, const summary::Module& module) : tensors_(tensors), module_(module) {}

  std::string_view name() const { return module_.name; }

  /// Whether the tensor is the one of this end: "x.weight_scale" or "x_scales" of the module x.
  bool is_named(size_t tensor, std::string_view end) const;

  bool has(std::string_view end) const { return place_of(end).has_value(); }
  /// Whether the module has a tensor of this end, and its type is one of these.
  bool has(std::string_view end, TypeNames types) const;

  /// The shape of the tensor of this end; empty if there is none.
  ShapeView shape_of(std::string_view end) const;

  /// The tensor of this end: it is one of those that a weight is computed from. Fails with
  /// unsupported if it is missing, if there are several, or if it was refused or has another type.
  Result<TensorView> take(std::string_view end, TypeNames types);

  /// As take(), also for another shape.
  Result<TensorView> take(std::string_view end, TypeNames types, const Shape& shape);

  /// Returns an object of this module that has taken nothing.
  ModulePieces untaken() const { return {tensors_, module_}; }
  /// Takes what was taken of another object of this module instead.
  void take_as(const ModulePieces& other) { taken_ = other.taken_; }

  /// The indices of the tensors that were taken, ascending.
  std::vector<size_t> taken() const;

 private:
  std::optional<size_t> place_of(std::string_view end) const;

  const TensorList& tensors_;
  const summary::Module& module_;
  std::vector<size_t> taken_;
};

/// "int32 [3,4]", for messages.
std::string form_text(const TensorView& tensor);

/// The error for a piece of another form than it must have.
Error other_form(std::string_view end, const TensorView& tensor, std::string_view expected);

}  // namespace weightfs::computed
