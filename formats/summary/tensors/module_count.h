// How many elements the weights of one packed module have.
#pragma once

#include <optional>
#include <utility>

#include "formats/format.h"
#include "formats/summary/tensors/groups.h"
#include "formats/summary/tensors/modules.h"
#include "formats/summary/tensors/role_list.h"
#include "formats/summary/tensors/stated.h"

namespace weightfs::summary {

/// What a packed module is: the logical elements of its weight, or nothing if they are not known.
struct ModuleCount {
  Packing::Method method = Packing::Method::none;
  Number elements;
  Number bits, group_size;
  bool is_fp4 = false, is_float8 = false;
};

/// Counts the modules of one model.
class ModuleCounter {
 public:
  /// All of them outlive this object.
  ModuleCounter(const Model& model, const StatedPacking& stated, const ParseObject& parse)
      : model_(model), framework_(traits_of(model.format).framework), stated_(stated), parse_(parse) {}

  /// The tensor that holds the weights, and what is known of it; null if the module is not packed.
  std::pair<const Module::Member*, ModuleCount> count(const Module& module) const;

 private:
  using Member = Module::Member;
  using Found = std::pair<const Member*, ModuleCount>;

  ShapeView shape(const Member& member) const { return model_.tensors.shape(member.tensor); }
  const DType& dtype(const Member& member) const { return *model_.tensors.dtype(member.tensor); }
  Number elements(const Member& member) const { return elements_of(shape(member)); }
  Number unpacked(const Member& weight, Number bits) const;
  const Map* facts_of(const Module& module) const;

  Found by_own_pieces(const Module& module) const;
  bool is_gptq_or_awq(const Module& module, const Member& weight) const;
  bool is_mlc(const Module& module) const;
  ModuleCount gptq_or_awq(const Module& module, const Member& weight) const;
  bool is_gemv_fast(const Module& module, const Member& weight) const;
  ModuleCount gemv_fast(const Module& module, const Member& weight) const;
  ModuleCount gptq_without_zeros(const Module& module, const Member& weight) const;
  ModuleCount compressed(const Module& module, const Member& weight) const;
  Number padded_inputs(const Member& weight, Number bits) const;
  std::optional<StatedPacking::Group> compressed_group(const Module& module, const Member& weight) const;
  ModuleCount hqq(const Module& module, const Member& weight) const;
  ModuleCount exl2(const Module& module, const Member& weight) const;
  ModuleCount mlc(const Module& module, const Member& weight) const;
  ModuleCount exl3(const Member& weight) const;
  Found marlin(const Module& module) const;
  Found sparse(const Module& module) const;
  Found quip(const Module& module) const;
  ModuleCount codes(const Module& module, const Member& weight) const;
  ModuleCount mlx(const Module& module, const Member& weight) const;
  Found bitsandbytes(const Module& module, const Member& weight) const;
  Found scaled(const Module& module) const;
  ModuleCount by_scale(const Module& module, const Member& weight, const Member& scale) const;
  ModuleCount by_small_scales(const Module& module, const Member& weight, const Member& scale) const;
  ModuleCount by_float_scales(const Module& module, const Member& weight, const Member& scale) const;
  std::pair<std::optional<Unpacked>, uint64_t> by_groups(const Module& module, const ScaledShapes& shapes) const;
  Number bits_by_row(const Module& module, const Member& weight) const;
  Number bits_by_zeros(const Module& module, const Member& scale) const;

  const Model& model_;
  const Traits::Framework framework_;
  const StatedPacking& stated_;
  const ParseObject& parse_;
};

}  // namespace weightfs::summary
