#include "formats/summary/tensors/module_count.h"

#include <algorithm>

#include "formats/summary/tensors/groups.h"
#include "formats/summary/tensors/target_groups.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

using Method = Packing::Method;

constexpr uint64_t kMaxBits = 8;
constexpr uint64_t kMlcGroup = 32;
constexpr uint64_t kUsualMultiple = 32;  // the widths of nearly all layers are multiples of it

uint64_t last_of(ShapeView shape) { return shape.empty() ? 0 : shape.back(); }
uint64_t first_of(ShapeView shape) { return shape.empty() ? 0 : shape.front(); }

bool is_float8(const DType& dtype) { return dtype.name.starts_with("float8"); }
bool is_small_float(const DType& dtype) { return dtype.name.starts_with("float4") || dtype.name.starts_with("float6"); }
bool is_byte(const DType& dtype) { return dtype.name == "uint8" || dtype.name == "int8"; }
bool is_word(const DType& dtype) { return dtype.name == "int32" || dtype.name == "uint32"; }
bool is_wide_float(const DType& dtype) {
  return dtype.name == "float16" || dtype.name == "bfloat16" || dtype.name == "float32" || dtype.name == "float64";
}
bool is_small_integer(const DType& dtype) {
  return dtype.packed_bits > 0 || dtype.name == "int4" || dtype.name == "uint4";
}

// A type that weights with scales may have.
bool is_quantised_type(const DType& dtype) {
  return is_byte(dtype) || is_word(dtype) || is_float8(dtype) || is_small_float(dtype) || is_small_integer(dtype) ||
         dtype.name == "int16" || dtype.name == "uint16";
}

// `a` divided by `b` if that is a whole number of bits that weights can have.
Number bits_by(Number a, uint64_t b) {
  if (!a || b == 0 || *a % b != 0 || *a / b == 0 || *a / b > kMaxBits) return std::nullopt;
  return *a / b;
}

// Nothing if there is a remainder.
Number quotient(Number a, Number b) {
  if (!a || !b || *b == 0 || *a % *b != 0) return std::nullopt;
  return *a / *b;
}

Number number_in(const Map* facts, std::string_view name) {
  const Value* const value = facts == nullptr ? nullptr : facts->find(name);
  return value == nullptr ? std::nullopt : number_of(*value);
}

}  // namespace

Number ModuleCounter::unpacked(const Member& weight, Number bits) const {
  const Number stored = product(elements(weight), bits_of(dtype(weight)));
  if (!stored || bits.value_or(0) == 0 || *stored % *bits != 0) return std::nullopt;
  return *stored / *bits;
}

const Map* ModuleCounter::facts_of(const Module& module) const {
  const auto own = stated_.modules.find(module.name);
  return own == stated_.modules.end() ? nullptr : own->second;
}

ModuleCounter::Found ModuleCounter::count(const Module& module) const {
  if (const Found found = by_own_pieces(module); found.first != nullptr) return found;
  for (const Piece piece : {Piece::weight, Piece::unnamed})
    if (const auto* const weight = module.find(piece))
      if (const Found found = bitsandbytes(module, *weight); found.first != nullptr) return found;
  return scaled(module);
}

// Methods whose tensors have names of their own.
ModuleCounter::Found ModuleCounter::by_own_pieces(const Module& module) const {
  if (const auto* const weight = module.find(Piece::qweight); weight != nullptr && is_gptq_or_awq(module, *weight))
    return {weight, gptq_or_awq(module, *weight)};
  if (const auto* const weight = module.find(Piece::qweight); weight != nullptr && is_gemv_fast(module, *weight))
    return {weight, gemv_fast(module, *weight)};
  for (const Found& found : {marlin(module), sparse(module), quip(module)})
    if (found.first != nullptr) return found;
  if (const auto* const weight = module.find(Piece::weight_packed)) return {weight, compressed(module, *weight)};
  if (const auto* const weight = module.find(Piece::blocks);
      weight != nullptr && (module.has(Piece::scales) || module.has(Piece::weight_scale)))
    return {weight, {Method::mxfp4, product(elements(*weight), 2), 4, 32}};
  if (const auto* const weight = module.find(Piece::hqq_weight)) return {weight, hqq(module, *weight)};
  if (const auto* const weight = module.find(Piece::exl2_weight))
    return {weight, is_mlc(module) ? mlc(module, *weight) : exl2(module, *weight)};
  if (const auto* const weight = module.find(Piece::exl3_weight)) return {weight, exl3(*weight)};
  // "indices" alone are those of a sparse tensor.
  if (const auto* const weight = module.find(Piece::codes);
      weight != nullptr && (module.has(Piece::codebooks) || !stated_.method.empty()))
    return {weight, codes(module, *weight)};
  return {nullptr, {}};
}

bool ModuleCounter::is_gptq_or_awq(const Module& module, const Member& weight) const {
  const auto* const scales = module.find(Piece::scales);
  if (scales == nullptr || stated_.method == "svdquant") return false;
  return is_word(dtype(weight)) && is_wide_float(dtype(*scales)) && shape(*scales).size() == 2 &&
         shape(weight).size() == 2;
}

// AWQ's kernel for int16, which has four rows of 4 bits in one; the rows of scales are padded.
bool ModuleCounter::is_gemv_fast(const Module& module, const Member& weight) const {
  return module.has(Piece::scales) && module.has(Piece::zeros) && dtype(weight).name == "int16" &&
         shape(weight).size() == 2;
}

ModuleCount ModuleCounter::gemv_fast(const Module& module, const Member& weight) const {
  const bool is_known = product(first_of(shape(weight)), 4) == last_of(shape(*module.find(Piece::scales)));
  return {Method::awq, is_known ? unpacked(weight, 4) : std::nullopt, 4, {}};
}

bool ModuleCounter::is_mlc(const Module& module) const {
  const auto* const scale = module.find(Piece::scale);
  return scale != nullptr && !module.has(Piece::inverse_permutation) && !is_word(dtype(*scale));
}

// GPTQ packs along the inputs, AWQ along the outputs: the last dimension of qweight is that of scales or of qzeros.
// Marlin, which has no zero points, stores tiles of 16 inputs.
ModuleCount ModuleCounter::gptq_or_awq(const Module& module, const Member& weight) const {
  const ShapeView scales = shape(*module.find(Piece::scales));
  const auto* const zeros = module.find(Piece::zeros);
  const uint64_t outputs = last_of(scales);
  const uint64_t rows = first_of(shape(weight));
  const uint64_t columns = last_of(shape(weight));
  const bool is_awq = columns != outputs && (zeros != nullptr || stated_.method.find("gptq") == std::string::npos);
  if (is_awq) {
    Number bits = bits_by(product(columns, 32), outputs);
    if (!bits) bits = stated_.bits;
    return {Method::awq, unpacked(weight, bits), bits, quotient(rows, first_of(scales))};
  }
  if (columns != outputs) {
    const Number bits = bits_by(product(columns, 2), outputs);
    return {Method::gptq, unpacked(weight, bits), bits, quotient(product(rows, 16), first_of(scales))};
  }
  if (const Number bits = bits_by(product(zeros == nullptr ? Number() : last_of(shape(*zeros)), 32), outputs))
    return {Method::gptq, unpacked(weight, bits), bits, quotient(quotient(product(rows, 32), bits), first_of(scales))};
  return gptq_without_zeros(module, weight);
}

// The number of inputs, which g_idx has, tells the bits; else the stated bits count unless the groups contradict them.
ModuleCount ModuleCounter::gptq_without_zeros(const Module& module, const Member& weight) const {
  const uint64_t groups = first_of(shape(*module.find(Piece::scales)));
  const Number row_bits = product(first_of(shape(weight)), 32);
  const auto* const index = module.find(Piece::group_index);
  if (const Number inputs = index == nullptr ? Number() : elements(*index); inputs.value_or(0) > 0) {
    const Number bits = bits_by(row_bits, *inputs);
    return {Method::gptq, unpacked(weight, bits), bits, quotient(inputs, groups)};
  }
  const Number inputs = quotient(row_bits, stated_.bits);
  const bool agrees = inputs && (stated_.group_size ? product(groups, stated_.group_size) == inputs : groups == 1);
  const bool is_decided = !stated_.has_own_groups && (stated_.group_size || !stated_.has_own_bits);
  return {Method::gptq, agrees && is_decided ? unpacked(weight, stated_.bits) : std::nullopt, stated_.bits,
          stated_.group_size ? stated_.group_size : quotient(inputs, groups)};
}

ModuleCount ModuleCounter::compressed(const Module& module, const Member& weight) const {
  const auto* const scale = module.find(Piece::weight_scale);
  const bool is_nvfp4 = is_byte(dtype(weight)) && scale != nullptr && is_float8(dtype(*scale));
  if (is_nvfp4) return {Method::nvfp4, product(elements(weight), 2), 4, 16};
  const auto group = compressed_group(module, weight);
  if (!group) return {Method::packed, {}, {}, {}};
  const uint64_t inputs = padded_inputs(weight, group->bits).value_or(0);
  // Without groups the shapes do not tell whether the last number of a row is filled; sizes are multiples of this.
  const bool is_exact = group->size ? scale != nullptr : inputs % kUsualMultiple == 0;
  const Number elements = inputs > 0 && is_exact ? unpacked(weight, group->bits) : std::nullopt;
  return {Method::packed, elements, group->bits, group->size};
}

// The inputs of a row, with those that pad its last number; nothing if a number of the type holds no whole elements.
Number ModuleCounter::padded_inputs(const Member& weight, Number bits) const {
  const Number stored = bits_of(dtype(weight));
  if (!stored || bits.value_or(0) == 0 || *stored % *bits != 0) return std::nullopt;
  return product(last_of(shape(weight)), *stored / *bits);
}

// The stated group of the module, which the shapes do not contradict; nothing if neither targets nor shapes decide.
std::optional<StatedPacking::Group> ModuleCounter::compressed_group(const Module& module, const Member& weight) const {
  const auto* const scale = module.find(Piece::weight_scale);
  const auto agrees = [&](const StatedPacking::Group& group) {
    const Number inputs = padded_inputs(weight, group.bits);
    if (scale == nullptr || !inputs) return true;
    const uint64_t groups = last_of(shape(*scale));
    return group.size ? product(groups, group.size) == inputs : groups <= 1;
  };
  if (stated_.groups.size() <= 1) {
    const StatedPacking::Group only =
        stated_.groups.empty() ? StatedPacking::Group{stated_.bits, stated_.group_size, {}} : stated_.groups.front();
    return agrees(only) ? std::optional(only) : std::nullopt;
  }
  if (const auto* const targeted = targeted_group(stated_.groups, module.name))
    return agrees(*targeted) ? std::optional(*targeted) : std::nullopt;
  std::optional<StatedPacking::Group> found;
  for (const StatedPacking::Group& one : stated_.groups) {
    if (!agrees(one)) continue;
    if (found && (found->bits != one.bits || found->size != one.size)) return std::nullopt;
    found = one;
  }
  return found;
}

// Three bits are padded to whole numbers of 10: only the groups tell the elements.
ModuleCount ModuleCounter::hqq(const Module& module, const Member& weight) const {
  const Number bits = stated_.bits;
  const auto* const scale = module.find(Piece::scale);
  const Number stored = product(elements(weight), bits_of(dtype(weight)));
  if (scale != nullptr && stated_.group_size && bits.value_or(0) > 0) {
    const Number logical = product(elements(*scale), stated_.group_size);
    if (logical && stored && product(logical, bits).value_or(UINT64_MAX) <= *stored &&
        *logical >= *stored / (*bits + 1))
      return {Method::hqq, logical, bits, stated_.group_size};
  }
  const bool is_whole = bits.value_or(0) > 0 && kMaxBits % *bits == 0;
  return {Method::hqq, is_whole ? unpacked(weight, bits) : std::nullopt, bits, stated_.group_size};
}

ModuleCount ModuleCounter::exl2(const Module& module, const Member& weight) const {
  const auto* const inputs = module.find(Piece::inverse_permutation);
  if (inputs == nullptr) return {Method::exl2, {}, stated_.bits, {}};
  return {Method::exl2, product(first_of(shape(*inputs)), last_of(shape(weight))), stated_.bits, {}};
}

// MLC pads rows to whole groups, of 32 elements; of 40 for 3 bits, which rows rarely fill.
ModuleCount ModuleCounter::mlc(const Module& module, const Member& weight) const {
  const ShapeView scale = shape(*module.find(Piece::scale));
  const auto unpacked = unpack_by_groups({shape(weight), bits_of(dtype(weight)).value_or(0), scale}, kMlcGroup, {});
  if (!stated_.bits || !unpacked || unpacked->bits != *stated_.bits) return {Method::mlc, {}, stated_.bits, {}};
  return {Method::mlc, unpacked->elements, unpacked->bits, kMlcGroup};
}

ModuleCount ModuleCounter::exl3(const Member& weight) const {
  const ShapeView tiles = shape(weight);
  if (tiles.size() != 3) return {Method::exl3, {}, stated_.bits, {}};
  return {Method::exl3, product(product(tiles[0], 16), product(tiles[1], 16)), bits_by(tiles[2], 16), {}};
}

// Marlin stores tiles of 16 inputs; with sparsity two of four elements, and which two.
ModuleCounter::Found ModuleCounter::marlin(const Module& module) const {
  const bool is_sparse = module.has(Piece::sparse_meta);
  const auto* const weight =
      module.find(is_sparse && module.has(Piece::weight_packed) ? Piece::weight_packed : Piece::marlin_weight);
  const auto* const scales = module.find(module.has(Piece::scales) ? Piece::scales : Piece::weight_scale);
  if (weight == nullptr || scales == nullptr || !is_word(dtype(*weight)) || shape(*weight).size() != 2)
    return {nullptr, {}};
  const Number bits = bits_by(product(last_of(shape(*weight)), 2), last_of(shape(*scales)));
  const uint64_t inputs_of_row = is_sparse ? 32 : 16;
  const uint64_t groups = first_of(shape(*scales));
  const Number inputs = product(first_of(shape(*weight)), inputs_of_row);
  ModuleCount out{is_sparse ? Method::packed : Method::gptq, {}, bits, {}};
  if (bits) out.elements = product(unpacked(*weight, bits), is_sparse ? 2 : 1);
  if (groups > 1) out.group_size = quotient(inputs, groups);
  return {weight, out};
}

// compressed-tensors: the elements that are not zero, and a bit for each element; rows are padded to whole bytes.
ModuleCounter::Found ModuleCounter::sparse(const Module& module) const {
  const auto* const weight = module.find(Piece::sparse_weight);
  const auto* const mask = module.find(Piece::bitmask);
  if (weight == nullptr || mask == nullptr || dtype(*mask).name != "uint8") return {nullptr, {}};
  const Number inputs = product(last_of(shape(*mask)), 8);
  ModuleCount out;
  if (inputs && *inputs % kUsualMultiple == 0) out.elements = product(elements(*mask), 8);
  if (elements(*weight).value_or(UINT64_MAX) > out.elements.value_or(0)) out.elements = std::nullopt;
  if (is_float8(dtype(*weight)) || dtype(*weight).name == "int8") {
    out.method = Method::scaled;
    out.bits = 8;
    out.is_float8 = is_float8(dtype(*weight));
  }
  return {weight, out};
}

// QuIP# and QTIP, whatever the codebook: a sign for each input and each output.
ModuleCounter::Found ModuleCounter::quip(const Module& module) const {
  const auto* const inputs = module.find(Piece::input_signs);
  const auto* const outputs = module.find(Piece::output_signs);
  const auto* const weight = module.find(module.has(Piece::codes) ? Piece::codes : Piece::exl3_weight);
  if (weight == nullptr || inputs == nullptr || outputs == nullptr) return {nullptr, {}};
  const Number logical = product(elements(*inputs), elements(*outputs));
  Number bits = bits_by(product(elements(*weight), bits_of(dtype(*weight))), logical.value_or(0));
  if (module.has(Piece::marlin_weight)) bits = std::nullopt;  // `B` of a low-rank branch that corrects the weights
  return {weight, {Method::codebook, bits ? logical : std::nullopt, bits, {}}};
}

// AQLM: a code stands for a block of the size of a codeword. VPTQ states the sizes of each module.
ModuleCount ModuleCounter::codes(const Module& module, const Member& weight) const {
  ModuleCount out{Method::codebook, {}, stated_.bits, {}};
  const auto* const books = module.find(Piece::codebooks);
  const ShapeView codes = shape(weight);
  if (const Map* const facts = facts_of(module); facts != nullptr)
    out.elements = product(number_in(facts, "in_features"), number_in(facts, "out_features"));
  if (!out.elements && books != nullptr && codes.size() == 3 && shape(*books).size() == 4)
    out.elements = product(product(codes[0], shape(*books)[2]), product(codes[1], shape(*books)[3]));
  return out;
}

ModuleCounter::Found ModuleCounter::bitsandbytes(const Module& module, const Member& weight) const {
  const bool has_fp4 = module.has(Piece::quant_state_fp4);
  if (module.has(Piece::absmax) && (has_fp4 || module.has(Piece::quant_state_nf4) || stated_.method == "bitsandbytes"))
    return {&weight, {Method::bnb_4bit, unpacked(weight, 4), 4, {}, has_fp4 || stated_.is_fp4}};
  if (module.has(Piece::scb)) return {&weight, {Method::bnb_8bit, elements(weight), 8, {}}};
  return {nullptr, {}};
}

// Integers or small floats with scales beside them, whatever the names.
ModuleCounter::Found ModuleCounter::scaled(const Module& module) const {
  const Member* weight = nullptr;
  const Member* scale = nullptr;
  for (const Member& member : module.members) {
    const bool is_weight = member.piece <= Piece::unnamed && is_quantised_type(dtype(member));
    if (is_weight && weight == nullptr) weight = &member;
    if (is_scale(member.piece) && scale == nullptr) scale = &member;
  }
  if (scale == nullptr) scale = module.find(Piece::output_scale);
  if (weight == nullptr || scale == nullptr) return {nullptr, {}};
  const bool is_mlx = dtype(*weight).name == "uint32" && weight->piece == Piece::weight;
  ModuleCount out = is_mlx ? mlx(module, *weight) : by_scale(module, *weight, *scale);
  // SVDQuant: what its low-rank branch adds is no weight of the model, and not to be told apart.
  if (stated_.method == "svdquant") out.elements = std::nullopt;
  return {weight, out};
}

ModuleCount ModuleCounter::mlx(const Module& module, const Member& weight) const {
  Number bits = stated_.bits;
  Number group_size = stated_.group_size;
  const Map* const own = facts_of(module);
  if (const Number stated = number_in(own, "bits")) bits = stated;
  if (const Number stated = number_in(own, "group_size")) group_size = stated;
  const auto* scales = module.find(Piece::scales);
  if (scales == nullptr) return {Method::mlx, {}, bits, group_size};
  // in = bits × groups: the shapes decide where the configuration states only one of the two, or contradicts them.
  const Number both = quotient(product(last_of(shape(weight)), 32), last_of(shape(*scales)));
  if (!group_size && !bits && is_byte(dtype(*scales))) {  // mxfp4 and mxfp8 have groups of 32, nvfp4 of 16
    group_size = both == Number(64) ? 16 : 32;
    bits = bits_by(both, *group_size);
    if (bits != Number(4) && bits != Number(8)) bits = std::nullopt;
  }
  if (!bits && group_size) bits = 4;
  if (const Number shaped = group_size ? bits_by(both, *group_size) : std::nullopt) bits = shaped;
  if (!group_size) group_size = quotient(both, bits);
  const bool agrees = both && both == product(bits, group_size);
  return {Method::mlx, agrees ? unpacked(weight, bits) : std::nullopt, bits, group_size};
}

ModuleCount ModuleCounter::by_scale(const Module& module, const Member& weight, const Member& scale) const {
  const DType& type = dtype(weight);
  const DType& of_scale = dtype(scale);
  if (is_float8(type)) return {Method::scaled, elements(weight), 8, {}, false, true};
  if (is_small_float(type) || is_small_integer(type)) {
    const Method method = of_scale.name == "float8_e8m0fnu" ? Method::mxfp4
                          : is_float8(of_scale)             ? Method::nvfp4
                                                            : Method::grouped;
    return {method, elements(weight), bits_of(type).value_or(4) < 8 ? bits_of(type) : Number(4), {}};
  }
  if (weight.piece == Piece::flat_weight && parse_)
    if (const Number logical = flattened_elements(model_.metadata, module.name, parse_)) {
      const Number bits = bits_by(product(elements(weight), bits_of(type)), *logical);
      if (bits) return {Method::flattened, logical, bits, stated_.group_size};
    }
  if (is_float8(of_scale) || is_byte(of_scale)) return by_small_scales(module, weight, scale);
  if (is_wide_float(of_scale)) return by_float_scales(module, weight, scale);
  return {Method::grouped, {}, stated_.bits, {}};
}

// Scales of 8 bits are those of the MX formats, for 32 elements, and of NVFP4, for 16.
ModuleCount ModuleCounter::by_small_scales(const Module& module, const Member& weight, const Member& scale) const {
  const DType& of_scale = dtype(scale);
  const ScaledShapes shapes{shape(weight), bits_of(dtype(weight)).value_or(0), shape(scale)};
  const bool is_e8m0 = of_scale.name == "float8_e8m0fnu";
  for (const uint64_t size : {uint64_t{32}, uint64_t{16}}) {
    if ((is_e8m0 && size == 16) || (is_float8(of_scale) && !is_e8m0 && size == 32)) continue;
    const auto unpacked = unpack_by_groups(shapes, size, 4);
    if (unpacked && unpacked->bits == 4)
      return {size == 16 ? Method::nvfp4 : Method::mxfp4, unpacked->elements, 4, size};
    if (unpacked && unpacked->bits == 8 && size == 32) return {Method::grouped, unpacked->elements, 8, size};
  }
  const bool is_byte_weight = is_byte(dtype(weight));
  if (is_byte_weight && (module.has(Piece::weight_scale_2) || stated_.algorithm.find("NVFP4") != std::string::npos))
    return {Method::nvfp4, product(elements(weight), 2), 4, 16};
  const bool is_expert = has_component(module.name, "experts");
  if (is_byte_weight && is_expert && (stated_.experts == "fp4" || stated_.experts == "mxfp4"))
    return {Method::mxfp4, product(elements(weight), 2), 4, 32};
  return {Method::grouped, {}, stated_.bits, {}};
}

ModuleCount ModuleCounter::by_float_scales(const Module& module, const Member& weight, const Member& scale) const {
  const DType& type = dtype(weight);
  const ScaledShapes shapes{shape(weight), bits_of(type).value_or(0), shape(scale)};
  if (stated_.method == "compressed-tensors" && type.name == "int8") return {Method::scaled, elements(weight), 8, {}};
  const auto [grouped, group_size] = by_groups(module, shapes);
  const bool is_by_row = shapes.is_scaled_by_row();
  const Number row_bits = is_by_row ? bits_by_row(module, weight) : std::nullopt;
  const bool is_stated = grouped && stated_.bits == grouped->bits;
  const bool is_flat = weight.piece == Piece::flat_weight;
  const Method method = is_flat ? Method::flattened : Method::grouped;
  if (row_bits && !is_stated) {
    // A row of one group, or a scale for a whole row.
    if (grouped && grouped->bits != *row_bits) return {Method::grouped, {}, {}, {}};
    const bool is_bitnet = stated_.method == "bitnet";
    return {is_bitnet ? Method::bitnet : Method::scaled, unpacked(weight, row_bits), row_bits, {}};
  }
  if (grouped) {
    const bool is_scaled = grouped->bits == 8 && !is_flat;
    return {is_scaled ? Method::scaled : method, grouped->elements, grouped->bits, group_size};
  }
  Number bits = bits_by_zeros(module, scale);
  if (!bits && !is_by_row) bits = stated_.bits;
  Number unpacked_by_bits = unpacked(weight, bits);
  if (!is_flat && unpacked_by_bits && !shapes.has_side_of_scales(*unpacked_by_bits)) unpacked_by_bits = std::nullopt;
  return {method, unpacked_by_bits, bits ? bits : stated_.bits, {}};
}

// The elements by the first size of groups that the shapes do not contradict, and this size.
std::pair<std::optional<Unpacked>, uint64_t> ModuleCounter::by_groups(const Module& module,
                                                                      const ScaledShapes& shapes) const {
  std::vector<uint64_t> sizes = stated_.group_sizes();
  if (const Number own = number_in(facts_of(module), "group_size")) sizes.insert(sizes.begin(), *own);
  for (const uint64_t size : sizes)
    if (const auto grouped = unpack_by_groups(shapes, size, stated_.bits)) return {grouped, size};
  return {};
}

// The bits of elements that have a scale for a row: those of the type, unless several are packed into one.
Number ModuleCounter::bits_by_row(const Module& module, const Member& weight) const {
  const DType& type = dtype(weight);
  if (framework_ == Traits::keras) return std::nullopt;  // int8, or two int4 of Keras
  const bool is_packed = stated_.bits && *stated_.bits < kMaxBits && weight.piece != Piece::flat_weight;
  if (type.name == "int8") return is_packed ? std::nullopt : Number(8);
  if (type.name == "int16") return is_packed ? std::nullopt : Number(16);
  if (type.name == "uint8" && stated_.method == "bitnet") return 2;
  // ONNX Runtime's quantizer stores one element in a byte; what operators pack is known from their nodes.
  if (type.name == "uint8" && model_.tensors.name(weight.tensor).ends_with("_quantized") && framework_ == Traits::onnx)
    return 8;
  if (type.name == "uint8" && module.has(Piece::zeros) && !stated_.bits) return std::nullopt;
  return is_word(type) || type.name == "uint8" ? stated_.bits : std::nullopt;
}

// Zero points that are packed like the weights.
Number ModuleCounter::bits_by_zeros(const Module& module, const Member& scale) const {
  const auto* const zeros = module.find(Piece::zeros);
  if (zeros == nullptr || !is_word(dtype(*zeros)) || shape(*zeros).size() != shape(scale).size()) return std::nullopt;
  return bits_by(product(elements(*zeros), bits_of(dtype(*zeros))), elements(scale).value_or(0));
}

}  // namespace weightfs::summary
