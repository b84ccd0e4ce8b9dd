#include "formats/summary/tensors/packing.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "formats/summary/tensors/modules.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

using Method = Packing::Method;

constexpr uint64_t kMaxBits = 8;

uint64_t last_of(ShapeView shape) { return shape.empty() ? 0 : shape.back(); }
uint64_t first_of(ShapeView shape) { return shape.empty() ? 0 : shape.front(); }

bool is_float8(const DType& dtype) { return dtype.name.starts_with("float8"); }
bool is_byte(const DType& dtype) { return dtype.name == "uint8" || dtype.name == "int8"; }

// `a` divided by `b` if that is a whole number of bits that weights can have.
Number bits_by(Number a, uint64_t b) {
  if (!a || b == 0 || *a % b != 0 || *a / b == 0 || *a / b > kMaxBits) return std::nullopt;
  return *a / b;
}

Number quotient(Number a, Number b) {
  if (!a || !b || *b == 0) return std::nullopt;
  return *a / *b;
}

// What a packed module is: the logical elements of its weight, or nothing if they are not known.
struct Count {
  Method method = Method::none;
  Number elements;
  Number bits, group_size;
  bool is_fp4 = false, is_float8 = false;
};

// Counts the modules of one model.
class Counter {
 public:
  Counter(const TensorList& tensors, const Fields& config, const Fields& quantisation)
      : tensors_(tensors), quantisation_(quantisation) {
    method_ = lower_case(quantisation.text({"quant_method"}));
    algorithm_ = quantisation.text({"quant_algo"});
    bits_ = quantisation.number({"bits", "w_bit", "nbits", "num_bits"});
    group_size_ = quantisation.number({"group_size", "q_group_size"});
    experts_ = config.text({"expert_dtype", "store_dtype"});
    if (experts_.empty()) experts_ = quantisation.text({"expert_dtype", "store_dtype"});
    if (quantisation.map() != nullptr && !quantisation.has("quant_method"))
      for (const auto& [key, value] : *quantisation.map())
        if (const auto* const own = std::get_if<Map>(&value)) overrides_.emplace(key, own);
    add_groups();
  }

  // The tensor that holds the weights, and what is known of it; a null tensor if the module is not packed.
  std::pair<const Module::Member*, Count> count(const Module& module) const {
    if (const auto* const weight = module.find(Piece::qweight); weight != nullptr && module.has(Piece::scales))
      return {weight, gptq_or_awq(module, *weight)};
    if (const auto* const weight = module.find(Piece::weight_packed)) return {weight, compressed(module, *weight)};
    if (const auto* const weight = module.find(Piece::blocks); weight != nullptr && module.has(Piece::scales))
      return {weight, {Method::mxfp4, product(elements(*weight), 2), 4, 32}};
    if (const auto* const weight = module.find(Piece::hqq_weight)) return {weight, hqq(*weight)};
    if (const auto* const weight = module.find(Piece::exl2_weight)) return {weight, exl2(module, *weight)};
    if (const auto* const weight = module.find(Piece::exl3_weight)) return {weight, exl3(*weight)};
    if (const auto* const weight = module.find(Piece::codes)) return {weight, {Method::codebook, {}, bits_, {}}};
    if (const auto* const weight = module.find(Piece::flat_weight)) return {weight, flattened(*weight)};
    if (const auto* const weight = module.find(Piece::onnx_weight); weight != nullptr && module.has(Piece::scales))
      return {weight, {Method::onnx, product(elements(*weight), 2), 4, {}}};
    if (const auto* const weight = module.find(Piece::weight)) return weighted(module, *weight);
    if (const auto* const weight = module.find(Piece::unnamed)) return weighted(module, *weight);
    return {nullptr, {}};
  }

 private:
  ShapeView shape(const Module::Member& member) const { return tensors_.shape(member.tensor); }
  const DType& dtype(const Module::Member& member) const { return *tensors_.dtype(member.tensor); }
  Number elements(const Module::Member& member) const { return elements_of(shape(member)); }

  Number unpacked(const Module::Member& weight, Number bits) const {
    return quotient(product(elements(weight), bits_of(dtype(weight))), bits);
  }

  // GPTQ packs along the inputs, AWQ along the outputs: the last dimension of qweight is that of scales or of qzeros.
  Count gptq_or_awq(const Module& module, const Module::Member& weight) const {
    const ShapeView scales = shape(*module.find(Piece::scales));
    const auto* const zeros = module.find(Piece::zeros);
    const uint64_t outputs = last_of(scales);
    const bool is_awq = last_of(shape(weight)) != outputs;
    const Number packed = is_awq             ? Number(last_of(shape(weight)))
                          : zeros != nullptr ? Number(last_of(shape(*zeros)))
                                             : std::nullopt;
    Number bits = bits_by(product(packed, 32), outputs);
    if (!bits) bits = bits_;
    const uint64_t rows = first_of(shape(weight));
    const Number inputs = is_awq ? Number(rows) : quotient(product(rows, 32), bits);
    return {is_awq ? Method::awq : Method::gptq, unpacked(weight, bits), bits, quotient(inputs, first_of(scales))};
  }

  Count compressed(const Module& module, const Module::Member& weight) const {
    const auto* const scale = module.find(Piece::weight_scale);
    const bool is_nvfp4 = is_byte(dtype(weight)) && scale != nullptr && is_float8(dtype(*scale));
    if (is_nvfp4) return {Method::nvfp4, product(elements(weight), 2), 4, 16};
    const Group group = group_of(weight, scale);
    return {Method::packed, unpacked(weight, group.bits), group.bits, group.size};
  }

  Count hqq(const Module::Member& weight) const { return {Method::hqq, unpacked(weight, bits_), bits_, group_size_}; }

  Count exl2(const Module& module, const Module::Member& weight) const {
    const auto* const inputs = module.find(Piece::inverse_permutation);
    if (inputs == nullptr) return {Method::exl2, {}, bits_, {}};
    return {Method::exl2, product(first_of(shape(*inputs)), last_of(shape(weight))), bits_, {}};
  }

  Count exl3(const Module::Member& weight) const {
    const ShapeView tiles = shape(weight);
    if (tiles.size() != 3) return {Method::exl3, {}, bits_, {}};
    return {Method::exl3, product(product(tiles[0], 16), product(tiles[1], 16)), bits_by(tiles[2], 16), {}};
  }

  Count flattened(const Module::Member& weight) const {
    const Number bits = bits_ ? bits_ : Number(8);
    return {Method::flattened, unpacked(weight, bits), bits, group_size_};
  }

  // A tensor `weight`, or one without an end, with its companions.
  std::pair<const Module::Member*, Count> weighted(const Module& module, const Module::Member& weight) const {
    const DType& type = dtype(weight);
    const bool has_fp4 = module.has(Piece::quant_state_fp4);
    if (module.has(Piece::absmax) && (has_fp4 || module.has(Piece::quant_state_nf4) || method_ == "bitsandbytes"))
      return {&weight, {Method::bnb_4bit, unpacked(weight, 4), 4, {}, has_fp4 || stated_fp4()}};
    if (module.has(Piece::scb)) return {&weight, {Method::bnb_8bit, elements(weight), 8, {}}};
    if (type.name == "uint32" && module.has(Piece::scales)) return {&weight, mlx(module, weight)};
    const auto* const scale = module.find(Piece::weight_scale);
    if (scale == nullptr || !(is_byte(type) || is_float8(type))) return {nullptr, {}};
    return {&weight, scaled(module, weight, *scale)};
  }

  Count mlx(const Module& module, const Module::Member& weight) const {
    Number bits = bits_ ? bits_ : Number(4);
    Number group_size = group_size_;
    if (const auto own = overrides_.find(module.name); own != overrides_.end()) {
      if (const Value* const stated = own->second->find("bits")) bits = number_of(*stated);
      if (const Value* const stated = own->second->find("group_size")) group_size = number_of(*stated);
    }
    // in = bits × groups: the shapes decide where the configuration states only one of the two, or contradicts them.
    const Number both = quotient(product(last_of(shape(weight)), 32), last_of(shape(*module.find(Piece::scales))));
    if (const Number shaped = group_size ? bits_by(both, *group_size) : std::nullopt) bits = shaped;
    if (!group_size) group_size = quotient(both, bits);
    return {Method::mlx, unpacked(weight, bits), bits, group_size};
  }

  Count scaled(const Module& module, const Module::Member& weight, const Module::Member& scale) const {
    const DType& type = dtype(weight);
    if (is_float8(type)) return {Method::scaled, elements(weight), 8, {}, false, true};
    const bool is_expert = has_component(module.name, "experts");
    if (is_expert && (experts_ == "fp4" || experts_ == "mxfp4"))
      return {Method::mxfp4, product(elements(weight), 2), 4, 32};
    if (type.name == "int8") return {Method::scaled, elements(weight), 8, {}};
    if (module.has(Piece::weight_scale_2) || algorithm_.find("NVFP4") != algorithm_.npos)
      return {Method::nvfp4, product(elements(weight), 2), 4, 16};
    if (method_ == "bitnet") return {Method::bitnet, product(elements(weight), 4), 2, {}};
    if (dtype(scale).name == "float8_e8m0fnu" || dtype(scale).name == "uint8")
      return {Method::mxfp4, product(elements(weight), 2), 4, 32};
    return {Method::scaled, {}, {}, {}};
  }

  bool stated_fp4() const { return quantisation_.text({"bnb_4bit_quant_type"}) == "fp4"; }

  // A group of compressed-tensors: how the modules that it names are packed.
  struct Group {
    Number bits, size;
  };

  void add_groups() {
    const Fields groups = quantisation_.object({"config_groups"});
    if (!groups) return;
    constexpr size_t kMaxGroups = 16;  // models have one to three; each is searched for by its name
    size_t seen = 0;
    for (const auto& [name, value] : *groups.map()) {
      if (++seen > kMaxGroups) break;
      const Fields weights = groups.object({name}).object({"weights"});
      if (weights) groups_.push_back({weights.number({"num_bits"}), weights.number({"group_size"})});
    }
  }

  // The first group that the shapes do not contradict.
  Group group_of(const Module::Member& weight, const Module::Member* scale) const {
    if (groups_.empty()) return {bits_, group_size_};
    for (const Group& group : groups_) {
      if (scale == nullptr || !group.size) continue;
      const Number both = quotient(product(last_of(shape(weight)), bits_of(dtype(weight))), last_of(shape(*scale)));
      if (both && both == product(group.bits, group.size)) return group;
    }
    return groups_.front();
  }

  const TensorList& tensors_;
  const Fields& quantisation_;
  std::string method_, algorithm_, experts_;
  Number bits_, group_size_;
  std::map<std::string_view, const Map*> overrides_;  // MLX: by the name of the module
  std::vector<Group> groups_;
};

// Whether a tensor that names itself a packed weight has no companions: nothing tells how many elements it has.
bool is_unknown_packed(const TensorList& tensors, size_t i) {
  const std::string_view type = tensors.dtype(i)->name;
  return last_component(tensors.name(i)) == "weight" && tensors.shape(i).size() >= 2 &&
         (type == "uint8" || type == "int32" || type == "uint32");
}

}  // namespace

void count_packed(const TensorList& tensors, const Fields& config, const Fields& quantisation, Roles& roles) {
  const Counter counter(tensors, config, quantisation);
  std::map<Method, std::pair<uint64_t, Packing>> methods;  // with the elements of each
  std::vector<bool> is_counted(tensors.size());
  for (const Module& module : find_modules(tensors)) {
    const auto [weight, count] = counter.count(module);
    if (weight == nullptr || count.method == Method::none) continue;
    for (const Module::Member& member : module.members) {
      is_counted[member.tensor] = true;
      roles.tensors[member.tensor] = {Role::companion, 0};
    }
    roles.tensors[weight->tensor] = {Role::parameter, count.elements.value_or(0)};
    if (!count.elements) roles.packing.is_complete = false;
    const auto [method, is_new] = methods.emplace(count.method, std::pair(uint64_t{0}, Packing{}));
    if (is_new)
      method->second.second = {count.method, count.bits, count.group_size, count.is_fp4, count.is_float8, true};
    method->second.first = sum(method->second.first, std::max<uint64_t>(count.elements.value_or(0), 1)).value_or(0);
  }
  bool is_unknown = false;
  for (size_t i = 0; i < tensors.size(); ++i) is_unknown |= !is_counted[i] && is_unknown_packed(tensors, i);
  if (is_unknown) {
    roles.packing.is_complete = false;
    roles.warnings.emplace_back("packed weights of an unknown kind: the number of parameters is incomplete");
  }
  const bool is_complete = roles.packing.is_complete;
  const auto most = std::ranges::max_element(methods, {}, [](const auto& one) { return one.second.first; });
  if (most != methods.end()) roles.packing = most->second.second;
  roles.packing.is_complete = is_complete;
}

Number bits_of(const DType& dtype) {
  if (dtype.packed_bits > 0) return dtype.packed_bits;
  if (dtype.block != 1 || dtype.block_bytes == 0) return std::nullopt;
  return uint64_t{8} * dtype.block_bytes;
}

}  // namespace weightfs::summary
