#include "formats/pytorch/tensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/pytorch/stated_type.h"

namespace weightfs::pytorch {
namespace {

// Parts of sparse tensors are dense, and so are the scales of quantized ones.
constexpr int kMaxParts = 1;

// The parts of a sparse tensor by its layout (torch/_utils.py, _rebuild_sparse_tensor).
struct SparseLayout {
  std::string_view name;
  std::array<std::string_view, 3> parts;  // "" for the shape
};
constexpr std::array kSparseLayouts = {
    SparseLayout{"torch.sparse_coo", {"indices", "values", ""}},
    SparseLayout{"torch.sparse_csr", {"crow_indices", "col_indices", "values"}},
    SparseLayout{"torch.sparse_bsr", {"crow_indices", "col_indices", "values"}},
    SparseLayout{"torch.sparse_csc", {"ccol_indices", "row_indices", "values"}},
    SparseLayout{"torch.sparse_bsc", {"ccol_indices", "row_indices", "values"}},
};

// The number of arguments that a function needs.
size_t needed(Rebuild function) {
  return function == Rebuild::tensor ? 4 : function == Rebuild::tensor_v3 ? 7 : function == Rebuild::meta ? 3 : 5;
}

// A layout is a call with its name: torch.serialization._get_layout("torch.sparse_coo").
std::string_view layout_name(const Pickle& pickle, Index value) {
  if (pickle.kind(value) == Kind::global) return pickle.global(value);
  if (pickle.kind(value) != Kind::call) return pickle.text(value);
  const std::vector<Index> arguments = pickle.items(pickle.call(value).arguments, 1);
  return arguments.empty() ? std::string_view() : pickle.text(arguments[0]);
}

// Whether a call makes a storage of a whole file of torch before 1.6.
bool is_loaded_file(const Pickle& pickle, Index value) {
  return pickle.kind(value) == Kind::call &&
         pickle.global(pickle.call(value).callable) == "torch.storage._load_from_bytes";
}

// The number that a scale or a zero point is.
Value number(const Pickle& pickle, Index value) {
  if (const auto n = pickle.integer(value)) return *n;
  return pickle.kind(value) == Kind::real ? Value(pickle.real(value)) : Value();
}

}  // namespace

Result<void> check_expansion(const TorchType& type, const Shape& shape, const Slice& storage) {
  const auto size = size_in_bytes(type.layout, shape);
  if (!size || *size <= storage.size() || *size <= kMaxExpanded) return {};
  return failure(Code::unsupported, fmt::format("{} bytes that repeat a storage of {}, at most {} are served", *size,
                                                storage.size(), kMaxExpanded));
}

Result<std::optional<pickle::Meaning>> TensorReader::meaning(const std::string& name, Index value) {
  const auto added = []() -> std::optional<pickle::Meaning> { return pickle::Meaning{}; };
  if (const auto call = tensor_call(pickle_, value)) return add(name, *call).map(added);
  if (const Index parts = parts_of(pickle_, value); parts != pickle::kNoValue)
    return pickle::Meaning{.kind = pickle::Meaning::Kind::other, .index = parts};
  if (const auto script = script_of(value)) return add_script(name, *script).map(added);
  const bool is_file = storages_.load && is_loaded_file(pickle_, value);
  if (pickle_.kind(value) != Kind::persistent && !is_file) return std::nullopt;
  const std::vector<Index> identifier = is_file ? std::vector<Index>() : pickle_.items(pickle_.identifier(value), 1);
  const std::string_view what = identifier.empty() ? "module" : pickle_.text(identifier[0]);
  if (!is_file && (what == "module" || what == "reduce_package")) return std::nullopt;
  if (is_file) {
    const auto storage = storage_of(value);
    if (!storage && !is_about_the_bytes(storage.error())) return tl::unexpected(storage.error());
    if (!storage) {  // another object, which is shown as its call
      out_.warnings.miss_tensors(1, storage.error().code, "{}: {}", quoted(name), storage.error().message);
      return std::nullopt;
    }
  }
  return add_storage(name, value).map(added);
}

// The number of the module of TorchScript that a persistent value of torch.package is: ("reduce_package", [number],
// function, (number of the module,)).
std::optional<std::string> TensorReader::script_of(Index value) const {
  if (!storages_.script || pickle_.kind(value) != Kind::persistent) return std::nullopt;
  const std::vector<Index> items = pickle_.items(pickle_.identifier(value), 4);
  if (items.size() < 3 || pickle_.text(items[0]) != "reduce_package") return std::nullopt;
  const bool is_module = pickle_.global(items[items.size() - 2]).ends_with(".unpackage_script_module");
  const std::vector<Index> arguments = pickle_.items(items.back(), 1);
  if (!is_module || arguments.empty()) return std::nullopt;
  if (const auto number = pickle_.integer(arguments[0])) return std::to_string(*number);
  return std::string(pickle_.text(arguments[0]));
}

Result<void> TensorReader::add_script(const std::string& name, const std::string& id) {
  auto added = storages_.script(name, id);
  if (added || !is_about_the_bytes(added.error())) return added;
  out_.warnings.miss_tensors(1, added.error().code, "{}: {}", quoted(name), added.error().message);
  return {};
}

// The storage of a persistent identifier, or of a file in bytes.
Result<LoadedStorage> TensorReader::storage_of(Index value) {
  if (storages_.load && is_loaded_file(pickle_, value)) {
    if (const auto known = loaded_.find(value); known != loaded_.end()) return known->second;
    constexpr uint64_t kLoaded = 256;
    TRY_VOID(out_.charges.charge(Cost::kept, kLoaded));
    const std::vector<Index> arguments = pickle_.items(pickle_.call(value).arguments, 1);
    if (arguments.empty()) return failure(Code::corrupt, "_load_from_bytes without bytes");
    const Slice bytes = TRY(pickle::bytes_of(pickle_, arguments[0], file_));
    auto loaded = storages_.load(bytes);
    if (!loaded && !is_about_the_bytes(loaded.error())) return loaded;
    return loaded_.emplace(value, std::move(loaded)).first->second;
  }
  if (pickle_.kind(value) != Kind::persistent) return failure(Code::corrupt, "its storage is not a storage");
  const StorageId id = TRY(parse_storage_id(pickle_, value));
  auto bytes = TRY(storage_bytes(id, storages_));
  return LoadedStorage{id.type, std::move(bytes)};
}

Result<void> TensorReader::add(const std::string& name, const TensorCall& call, int depth) {
  const std::vector<Index> arguments = pickle_.items(call.arguments, 2);
  if (call.function == Rebuild::array) return add_array(name, call.arguments);
  if (call.function == Rebuild::nested) return add_nested(name, call.arguments, depth);
  if (call.function == Rebuild::sparse && depth < kMaxParts) return add_sparse(name, arguments, depth);
  return add_dense(name, call, depth);
}

Result<void> TensorReader::add_read(Tensor tensor, const Result<void>& problem) {
  const bool is_missing = !problem && problem.error().code == Code::not_found;
  if (!problem && !is_missing && !is_about_the_bytes(problem.error())) return tl::unexpected(problem.error());
  if (!problem) {
    tensor.source = Slice();
    out_.warnings.refuse(problem.error().code, "tensor {}: {}", quoted(tensor.name), problem.error().message);
  }
  out_.tensors.push_back(tensor);
  return {};
}

Result<void> TensorReader::add_dense(const std::string& name, const TensorCall& call, int depth) {
  const std::vector<Index> arguments = pickle_.items(call.arguments, 5);
  const size_t place = call.function == Rebuild::meta ? 1 : 2;
  const uint64_t dimensions = arguments.size() > place ? pickle_.item_count(arguments[place]) : 0;
  TRY_VOID(out_.charges.charge(Cost::tensor));
  TRY_VOID(out_.charges.charge(Cost::step));
  TRY_VOID(out_.charges.charge(Cost::kept,
                               name.size() + 2 * sizeof(uint64_t) * std::min<uint64_t>(dimensions, kMaxDimensions)));
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = &kUnknownDType;
  tensor.stored_dtype = "unknown";
  const auto result = read(tensor, call);
  TRY_VOID(add_read(std::move(tensor), result));
  if (call.function == Rebuild::quantized && arguments.size() == 5 && depth < kMaxParts)
    return add_quantizer(name, arguments[4]);
  return {};
}

Result<void> TensorReader::read(Tensor& tensor, const TensorCall& call) {
  const std::vector<Index> arguments = pickle_.items(call.arguments, 8);
  if (call.function == Rebuild::sparse)
    return failure(Code::unsupported, "a sparse tensor of an unknown layout, or inside of another tensor");
  if (arguments.size() < needed(call.function))
    return failure(Code::corrupt, fmt::format("{} arguments, {} needed", arguments.size(), needed(call.function)));
  if (call.function == Rebuild::meta) return read_meta(tensor, arguments);
  tensor.shape = TRY(sizes_in(pickle_, arguments[2], "size"));
  const LoadedStorage loaded = TRY(storage_of(arguments[0]));
  const bool names_type = call.function == Rebuild::tensor_v3;
  const std::string_view named = names_type ? pickle_.global(arguments[6]) : "torch.uint8";
  const TorchType* const type = names_type || loaded.type == nullptr ? type_of_dtype(named) : loaded.type;
  if (type == nullptr) return read_unknown(tensor, named, arguments, loaded.bytes);
  if (type->dtype == &kUnknownDType && out_.opaque.insert(type->name).second)
    out_.warnings.add("tensor {}: elements of type {} are shown as bytes", quoted(tensor.name), type->name);
  tensor.dtype = type->dtype;
  tensor.stored_dtype = type->name;
  const Strides strides = TRY(sizes_in(pickle_, arguments[3], "stride"));
  const auto offset = pickle_.integer(arguments[1]);
  if (!offset || *offset < 0) return failure(Code::corrupt, "an offset that is not a number of elements");
  const Slice& storage = loaded.bytes;
  TRY_VOID(check_expansion(*type, tensor.shape, storage));
  const Slice elements = TRY(strided(storage, static_cast<uint64_t>(*offset), type->layout, tensor.shape, strides,
                                     conversion(*type, call, arguments)));
  TRY_VOID(charge_gathering(out_.charges, elements, storage));
  tensor.source = elements;
  return {};
}

// A type of a later torch. Its elements are known where they fill their storage in order.
Result<void> TensorReader::read_unknown(Tensor& tensor, std::string_view type, const std::vector<Index>& arguments,
                                        const Slice& storage) {
  constexpr uint64_t kMostBytes = 16;  // of an element
  const auto elements = size_in_bytes(DType{type, 1, 1, "", false}, tensor.shape);
  const Strides strides = TRY(sizes_in(pickle_, arguments[3], "stride"));
  const bool is_whole = pickle_.integer(arguments[1]) == 0 && strides == c_strides(tensor.shape) && elements &&
                        *elements > 0 && storage.size() % *elements == 0 && storage.size() / *elements <= kMostBytes;
  const std::string_view name = type.substr(type.rfind('.') + 1);
  if (name.empty()) return failure(Code::corrupt, "its dtype is not a name");
  if (!is_whole || storage.size() == 0)
    return failure(Code::unsupported, fmt::format("its dtype {} is unknown", quoted(name)));
  TRY_VOID(out_.charges.charge(Cost::kept, name.size()));
  tensor.stored_dtype = out_.string_pool.emplace_back(name);
  tensor.source = storage;
  out_.warnings.add("tensor {}: dtype {} is unknown; shown as bytes", quoted(tensor.name), quoted(name));
  return {};
}

// The numbers of an array, as the dtype that the call states.
Result<void> TensorReader::add_array(const std::string& name, Index arguments) {
  const std::vector<Index> given = pickle_.items(arguments, 2);
  const size_t before = out_.tensors.size();
  const auto meaning = given.size() < 2 ? std::nullopt : TRY(arrays_.meaning(name, given[0]));
  if (!meaning || meaning->kind != pickle::Meaning::Kind::tensors) {
    out_.warnings.miss_tensors(1, Code::corrupt, "tensor {}: not an array; omitted", quoted(name));
    return {};
  }
  if (out_.tensors.size() != before + 1) return {};
  return state_type(before, pickle_.global(given[1]), out_);
}

// Those of its parts that are tensors: torch 1.13 may have none of the last three.
Result<void> TensorReader::add_nested(const std::string& name, Index arguments, int depth) {
  constexpr std::array<std::string_view, 4> kParts = {"values", "sizes", "strides", "offsets"};
  const std::vector<Index> parts = pickle_.items(arguments, kParts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_part = i == 0 || tensor_call(pickle_, parts[i]);
    if (is_part && depth < kMaxParts) TRY_VOID(add_part(fmt::format("{}.{}", name, kParts[i]), parts[i], depth + 1));
  }
  return {};
}

Result<void> TensorReader::read_meta(Tensor& tensor, const std::vector<Index>& arguments) const {
  tensor.shape = TRY(sizes_in(pickle_, arguments[1], "size"));
  if (const TorchType* const type = type_of_dtype(pickle_.global(arguments[0]))) {
    tensor.dtype = type->dtype;
    tensor.stored_dtype = type->name;
  }
  return failure(Code::unsupported, "a tensor of the device meta, which has no bytes");
}

Conversion TensorReader::conversion(const TorchType& type, const TensorCall& call,
                                    const std::vector<Index>& arguments) const {
  Conversion how;
  if (storages_.big_endian && type.swapped > 1) how.swap = type.swapped;
  const size_t place = call.function == Rebuild::tensor_v3 ? 7 : 6;
  if (call.function != Rebuild::tensor && call.function != Rebuild::quantized && arguments.size() > place) {
    how.conjugate = flag(arguments[place], "conj");
    how.negate = flag(arguments[place], "neg");
  }
  return how;
}

bool TensorReader::flag(Index dict, std::string_view key) const {
  constexpr size_t kFlags = 16;  // of keys and values: there are two flags
  const std::vector<Index> items = pickle_.items(dict, kFlags);
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (pickle_.text(items[i]) == key) return pickle_.integer(items[i + 1]).value_or(0) != 0;
  return false;
}

Result<void> TensorReader::add_sparse(const std::string& name, const std::vector<Index>& arguments, int depth) {
  const std::string_view layout = arguments.size() < 2 ? "" : layout_name(pickle_, arguments[0]);
  const auto row = std::find_if(kSparseLayouts.begin(), kSparseLayouts.end(),
                                [&](const SparseLayout& l) { return l.name == layout; });
  if (row == kSparseLayouts.end())
    return add_dense(name, {Rebuild::sparse, arguments.empty() ? pickle_.root() : arguments[0]}, depth);
  const std::vector<Index> parts = pickle_.items(arguments[1], 4);
  Map fact;
  fact.append("layout", layout);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = i < row->parts.size() ? row->parts[i] : "";
    if (!part.empty()) {
      TRY_VOID(add_part(fmt::format("{}.{}", name, part), parts[i], depth + 1));
    } else if (const auto shape = sizes_in(pickle_, parts[i], "size")) {
      TRY_VOID(out_.charges.charge(Cost::value, shape->size()));
      fact.set("shape", List(shape->begin(), shape->end()));
    }
  }
  TRY_VOID(out_.charges.charge(Cost::value, 8));
  TRY_VOID(out_.charges.charge(Cost::kept, name.size() + layout.size()));
  out_.sparse.append(name, std::move(fact));
  return {};
}

Result<void> TensorReader::add_part(const std::string& name, Index value, int depth) {
  if (const auto call = tensor_call(pickle_, value)) return add(name, *call, depth);
  out_.warnings.miss_tensors(1, Code::corrupt, "tensor {}: not a tensor; omitted", quoted(name));
  return {};
}

// The scales or zero points of the channels: a tensor, before torch 1.5 a list of numbers.
Result<void> TensorReader::add_channels(const std::string& name, const char* what, Index value, Map& fact) {
  if (pickle_.kind(value) != Kind::list) return add_part(fmt::format("{}.{}", name, what), value, kMaxParts);
  TRY_VOID(out_.charges.charge(Cost::value, pickle_.item_count(value)));
  List numbers;
  for (const Index item : pickle_.items(value)) numbers.push_back(number(pickle_, item));
  fact.append(what, std::move(numbers));
  return {};
}

// (scheme, scale, zero point), or (scheme, scales, zero points, axis).
Result<void> TensorReader::add_quantizer(const std::string& name, Index quantizer) {
  const std::vector<Index> parts = pickle_.items(quantizer, 4);
  if (parts.size() < 3) return {};
  TRY_VOID(out_.charges.charge(Cost::value, 10));
  TRY_VOID(out_.charges.charge(Cost::kept, name.size() + 100));
  Map fact;
  fact.append("scheme", pickle_.global(parts[0]));
  if (parts.size() == 4) {
    TRY_VOID(add_channels(name, "scales", parts[1], fact));
    TRY_VOID(add_channels(name, "zero_points", parts[2], fact));
    fact.append("axis", number(pickle_, parts[3]));
  } else {
    fact.append("scale", number(pickle_, parts[1]));
    fact.append("zero_point", number(pickle_, parts[2]));
  }
  out_.quantized.append(name, std::move(fact));
  return {};
}

Result<void> TensorReader::add_storage(const std::string& name, Index value) {
  TRY_VOID(out_.charges.charge(Cost::tensor));
  TRY_VOID(out_.charges.charge(Cost::kept, name.size() + sizeof(uint64_t)));
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = dtype_named("uint8");
  tensor.stored_dtype = "uint8";
  const auto read = [&]() -> Result<void> {
    const LoadedStorage storage = TRY(storage_of(value));
    if (storage.type != nullptr) {
      tensor.dtype = storage.type->dtype;
      tensor.stored_dtype = storage.type->name;
    }
    const DType& layout = storage.type == nullptr ? *tensor.dtype : storage.type->layout;
    tensor.shape = {storage.bytes.size() / layout.block_bytes * layout.block};
    Conversion how;
    if (storages_.big_endian && storage.type != nullptr && storage.type->swapped > 1) how.swap = storage.type->swapped;
    tensor.source = TRY(strided(storage.bytes, 0, layout, tensor.shape, {1}, how));
    return {};
  };
  const auto result = read();
  return add_read(std::move(tensor), result);
}

}  // namespace weightfs::pytorch
