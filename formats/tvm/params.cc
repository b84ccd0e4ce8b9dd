#include "formats/tvm/params.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/text.h"
#include "formats/common/cursor.h"
#include "formats/common/flat.h"
#include "formats/common/json_outline.h"
#include "formats/common/limits.h"
#include "formats/grouped.h"

namespace weightfs {
namespace tvm {
namespace {

// src/runtime/file_utils.h and include/tvm/runtime/ndarray.h.
constexpr uint64_t kListMagic = 0xF7E58D4F05049CB7;
constexpr uint64_t kArrayMagic = 0xDD5E40F096B4A13F;
constexpr std::string_view kListMagicBytes = "\xB7\x9C\x04\x05\x4F\x8D\xE5\xF7";
constexpr int32_t kCpu = 1;

// In the file: the length of a name; the fields of an array without dimensions and data.
constexpr uint64_t kMinNameSize = 8;
constexpr uint64_t kMinArraySize = 40;

// Names and arrays' headers together, in bytes. They become as much memory several times; a safetensors header has the
// same limit.
constexpr uint64_t kMaxHeaderBytes = flat::kMaxHeaderSize;

// The maximum size of the graph beside a .params file, in bytes; it takes some 500 per operator.
constexpr uint64_t kMaxGraphSize = 64 << 20;

// DLDataType, the type of an array.
struct TypeKey {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;

  friend auto operator<=>(const TypeKey&, const TypeKey&) = default;
};

struct Type {
  const DType* dtype;  // of one lane; &kUnknownDType when there is none
  std::string_view stored;
};

// The codes beyond complex that changed their meaning: as TVM 0.13 to 0.19 has 6 and 7, for the Model Library Format
// ends with 0.18; from 8 on as DLPack 1.1 has them.
struct Float8 {
  uint8_t code;
  std::string_view stored;
  std::string_view dtype;
};
constexpr std::array kFloat8 = {
    Float8{6, "e4m3_float8", "float8_e4m3fn"},      Float8{7, "e5m2_float8", "float8_e5m2"},
    Float8{8, "float8_e4m3", "float8_e4m3"},        Float8{9, "float8_e4m3b11fnuz", "float8_e4m3b11fnuz"},
    Float8{10, "float8_e4m3fn", "float8_e4m3fn"},   Float8{11, "float8_e4m3fnuz", "float8_e4m3fnuz"},
    Float8{12, "float8_e5m2", "float8_e5m2"},       Float8{13, "float8_e5m2fnuz", "float8_e5m2fnuz"},
    Float8{14, "float8_e8m0fnu", "float8_e8m0fnu"},
};
constexpr uint8_t kFirstAmbiguous = 6;
constexpr uint8_t kLastAmbiguous = 8;

// Without its lanes: TVM's spelling and ours, which differ for float8 only.
std::pair<std::string, const DType*> element(TypeKey type) {
  constexpr std::array<std::string_view, 6> kBases = {"int", "uint", "float", "handle", "bfloat", "complex"};
  if (type.code == 1 && type.bits == 1) return {type.lanes == 1 ? "bool" : "uint1", dtype_named("bool")};
  if (type.code < kBases.size()) {
    std::string name = fmt::format("{}{}", kBases[type.code], int{type.bits});
    const DType* const dtype = dtype_named(name);
    return {std::move(name), dtype};
  }
  const auto row = std::find_if(kFloat8.begin(), kFloat8.end(), [&](const Float8& f) { return f.code == type.code; });
  if (row != kFloat8.end() && type.bits == 8) return {std::string(row->stored), dtype_named(row->dtype)};
  return {fmt::format("code{}_{}", int{type.code}, int{type.bits}), nullptr};
}

class ParamsReader {
 public:
  ParamsReader(const SourcePtr& file, Budget& budget) : file_(file), budget_(budget), in_(*file, 0, file->size()) {}

  Result<Params> read() {
    auto params = read_list();
    if (!params) {
      budget_.release(Cost::tensor, tensors_charged_);
      budget_.release(Cost::kept, bytes_charged_);
    }
    return params;
  }

 private:
  Result<Params> read_list() {
    const uint64_t count = TRY(read_start());
    // Two passes over the names: no memory is used for them before the arrays are known to be there.
    Cursor names = in_;
    for (uint64_t i = 0; i < count; ++i) TRY_VOID(skip_name(i));
    if (const auto arrays = TRY(in_.number<uint64_t>()); arrays != count)
      return failure(Code::corrupt, fmt::format("{} names for {} arrays", count, arrays));
    TRY_VOID(budget_.charge(Cost::tensor, count));
    tensors_charged_ = count;
    params_.tensors.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) {
      Tensor tensor;
      const auto name_size = TRY(names.number<uint64_t>());
      tensor.name = TRY(names.text(name_size));
      const auto read = read_array(tensor, i + 1 == count);
      if (!read)
        return failure(read.error().code, fmt::format("tensor {}: {}", quoted(tensor.name), read.error().message));
      params_.tensors.push_back(tensor);
    }
    if (in_.left() > 0) params_.warnings.add("{} after the last array", counted_bytes(in_.left()));
    if (ambiguous_ > 0)
      params_.warnings.add("{} tensors have type codes 6 to 8, whose meaning changed in TVM; read as float8",
                           ambiguous_);
    drop_replaced();
    return std::move(params_);
  }

  // The magic number and how many names there are; each comes with an array.
  Result<uint64_t> read_start() {
    if (TRY(in_.number<uint64_t>()) != kListMagic) return failure(Code::corrupt, "no magic number of a list of arrays");
    TRY_VOID(in_.skip(8));  // reserved; TVM writes 0 and ignores it
    const auto count = TRY(in_.number<uint64_t>());
    return in_.bounded(count, kMinNameSize + kMinArraySize);
  }

  Result<void> skip_name(uint64_t place) {
    const auto size = TRY(in_.number<uint64_t>());
    if (size > kMaxNameLength)
      return failure(Code::corrupt, fmt::format("name {}: {} bytes, at most {}", place, size, kMaxNameLength));
    TRY_VOID(spend(kMinNameSize + size));
    return in_.skip(size);
  }

  Result<void> read_array(Tensor& tensor, bool is_last) {
    if (TRY(in_.number<uint64_t>()) != kArrayMagic) return failure(Code::corrupt, "no magic number of an array");
    TRY_VOID(in_.skip(8));  // reserved
    const auto device = TRY(in_.number<int32_t>());
    TRY_VOID(in_.skip(4));  // the device's number
    if (device != kCpu) return failure(Code::corrupt, fmt::format("on a device of type {}, 1 (CPU) expected", device));
    const auto dimensions = TRY(in_.number<int32_t>());
    if (dimensions < 0 || static_cast<size_t>(dimensions) > kMaxDimensions)
      return failure(Code::corrupt, fmt::format("{} dimensions, at most {}", dimensions, kMaxDimensions));
    const TypeKey type = TRY(read_type());
    TRY_VOID(spend(kMinArraySize + 8 * static_cast<uint64_t>(dimensions)));
    TRY_VOID(in_.bounded(static_cast<uint64_t>(dimensions), 8));
    tensor.shape.resize(static_cast<size_t>(dimensions));
    for (uint64_t& size : tensor.shape) size = TRY(read_size("a dimension"));
    const uint64_t bytes = TRY(read_size("data"));
    set_type(tensor, type, bytes);
    return read_data(tensor, bytes, is_last);
  }

  Result<TypeKey> read_type() {
    TypeKey type{};
    type.code = TRY(in_.number<uint8_t>());
    type.bits = TRY(in_.number<uint8_t>());
    type.lanes = TRY(in_.number<uint16_t>());
    return type;
  }

  Result<uint64_t> read_size(const char* what) {
    const auto size = TRY(in_.number<int64_t>());
    if (size < 0) return failure(Code::corrupt, fmt::format("{} of size {}", what, size));
    return static_cast<uint64_t>(size);
  }

  Result<void> spend(uint64_t bytes) {
    headers_ += bytes;
    if (headers_ <= kMaxHeaderBytes) {
      TRY_VOID(budget_.charge(Cost::kept, bytes));
      bytes_charged_ += bytes;
      return {};
    }
    return failure(Code::corrupt, fmt::format("names and headers of more than {} bytes", kMaxHeaderBytes));
  }

  void set_type(Tensor& tensor, TypeKey key, uint64_t bytes) {
    const Type& type = type_of(key);
    tensor.stored_dtype = type.stored;
    tensor.dtype = key.lanes == 1 ? type.dtype : &kUnknownDType;
    const bool is_known = type.dtype != &kUnknownDType;
    if (!is_known)
      params_.warnings.add("tensor {}: type {} is unknown; shown as bytes", quoted(tensor.name), type.stored);
    if (is_known && key.code >= kFirstAmbiguous && key.code <= kLastAmbiguous) ++ambiguous_;
    // As TVM computes it: it ignores the lanes, and rounds each element up to whole bytes.
    const auto written = elements_of(tensor.shape, (uint64_t{key.bits} + 7) / 8);
    if (written == bytes) return;
    tensor.dtype = &kUnknownDType;
    params_.warnings.add("tensor {}: {} bytes, but its shape and dtype {} {}; shown as bytes", quoted(tensor.name),
                         bytes, type.stored, written ? fmt::format("need {}", *written) : "overflow 64 bits");
  }

  const Type& type_of(TypeKey key) {
    const auto [row, is_new] = types_.try_emplace(key);
    if (is_new) {
      auto [name, dtype] = element(key);
      if (key.lanes != 1) name += fmt::format("x{}", key.lanes);
      row->second = {dtype == nullptr ? &kUnknownDType : dtype, params_.string_pool.emplace_back(std::move(name))};
    }
    return row->second;
  }

  // TVM accepts a last array whose data end with the file, and leaves the rest of it uninitialized.
  Result<void> read_data(Tensor& tensor, uint64_t bytes, bool is_last) {
    const uint64_t left = in_.left();
    if (bytes <= left) {
      tensor.source = TRY(slice(file_, in_.position(), bytes));
      return in_.skip(bytes);
    }
    if (!is_last) return failure(Code::corrupt, fmt::format("{} bytes of data, {} left", bytes, left));
    params_.warnings.refuse(Code::corrupt, "tensor {}: {} bytes of data, {} left in the file: refused",
                            quoted(tensor.name), bytes, left);
    params_.warnings.add_short_by(bytes - left);
    return in_.skip(left);
  }

  // TVM puts the arrays into a map: of those of one name the last one stays.
  void drop_replaced() {
    auto& tensors = params_.tensors;
    const auto replaced = flat::repeated_names(tensors);
    for (const size_t i : replaced)
      params_.warnings.add("tensor {} appears twice; the last is shown", quoted(tensors[i].name));
    tensors.erase(replaced);
  }

  const SourcePtr& file_;
  Budget& budget_;
  Cursor in_;
  Params params_;
  std::map<TypeKey, Type> types_;
  uint64_t tensors_charged_ = 0;
  uint64_t bytes_charged_ = 0;
  uint64_t headers_ = 0;    // bytes of names and headers so far
  uint64_t ambiguous_ = 0;  // tensors whose type code is
};

// The graph of the model whose parameters these are: `<name>.json` beside `<name>.params`.
std::optional<Part> graph_beside(const Container& container) {
  if (container.folder == nullptr || !container.name.ends_with(kParamsSuffix)) return std::nullopt;
  std::string name = container.name.substr(0, container.name.size() - kParamsSuffix.size()) + ".json";
  const auto json = container.folder->open(name);
  if (!json) return std::nullopt;
  container.budget->add_file(**json);
  if (!container.budget->charge(Cost::input, std::min((*json)->size(), kMaxGraphSize))) return std::nullopt;
  const auto keys = outline(**json, kMaxGraphSize);
  if (!keys || !holds<List>(*keys, "nodes") || !holds<List>(*keys, "arg_nodes") || !holds<List>(*keys, "heads"))
    return std::nullopt;
  return Part{.path = std::move(name), .source = Later<SourcePtr>::of(*json), .is_structure = true};
}

}  // namespace

bool is_params(std::string_view head) { return head.starts_with(kListMagicBytes); }

Result<Params> read_params(const SourcePtr& file, Budget& budget) { return ParamsReader(file, budget).read(); }

}  // namespace tvm

Match matches_tvm_params(const Probe& probe) { return tvm::is_params(probe.head) ? Match::yes : Match::no; }

Result<Model> read_tvm_params(const Container& container) {
  tvm::Params params = TRY(tvm::read_params(container.bytes, *container.budget));
  Model model;
  model.format = "tvm-params";
  model.tensors = std::move(params.tensors);
  model.string_pool = std::move(params.string_pool);
  std::move(params.warnings).move_to(model);
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  if (auto graph = tvm::graph_beside(container)) {
    Map facts;
    facts.append("graph", graph->path);
    flat::add_facts(model.metadata, model.format, std::move(facts));
    model.parts.push_back(std::move(*graph));
  }
  return model;
}

}  // namespace weightfs
