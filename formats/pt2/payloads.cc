#include "formats/pt2/payloads.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/archive/zip.h"
#include "formats/common/strided.h"
#include "formats/pt2/program.h"
#include "formats/pytorch/saved.h"

namespace weightfs::pt2 {
namespace {

// ScalarType and Layout of torch/_export/serde/schema.py.
constexpr auto kTypes = std::to_array<std::pair<uint64_t, std::string_view>>({
    {1, "torch.uint8"},
    {2, "torch.int8"},
    {3, "torch.int16"},
    {4, "torch.int32"},
    {5, "torch.int64"},
    {6, "torch.float16"},
    {7, "torch.float32"},
    {8, "torch.float64"},
    {9, "torch.complex32"},
    {10, "torch.complex64"},
    {11, "torch.complex128"},
    {12, "torch.bool"},
    {13, "torch.bfloat16"},
    {28, "torch.uint16"},
    {29, "torch.float8_e4m3fn"},
    {30, "torch.float8_e5m2"},
    {31, "torch.float8_e4m3fnuz"},
    {32, "torch.float8_e5m2fnuz"},
    {33, "torch.float8_e8m0fnu"},
    {34, "torch.uint32"},
    {35, "torch.uint64"},
});
constexpr uint64_t kStrided = 7;

std::optional<uint64_t> number_of(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (const auto* const n = std::get_if<uint64_t>(value)) return *n;
  const auto* const n = std::get_if<int64_t>(value);
  return n != nullptr && *n >= 0 ? std::optional(static_cast<uint64_t>(*n)) : std::nullopt;
}

// A SymInt: {"as_int": 3}; an expression is the other form.
std::optional<uint64_t> size_of(const Value* value) {
  const auto* const map = value == nullptr ? nullptr : std::get_if<Map>(value);
  return map == nullptr ? std::nullopt : number_of(map->find("as_int"));
}

Result<std::vector<uint64_t>> sizes_of(const Map& meta, std::string_view key) {
  const auto* const list = meta.find_as<List>(key);
  if (list == nullptr) return failure(Code::corrupt, fmt::format("no {}", key));
  if (list->size() > kMaxDimensions)
    return failure(Code::unsupported, fmt::format("{} dimensions, at most {} are read", list->size(), kMaxDimensions));
  std::vector<uint64_t> sizes;
  for (const Value& value : *list) {
    const auto size = size_of(&value);
    if (!size) return failure(Code::corrupt, fmt::format("its {} are not numbers", key));
    sizes.push_back(*size);
  }
  return sizes;
}

Result<const pytorch::TorchType*> type_of(const Map& meta) {
  const auto number = number_of(meta.find("dtype"));
  const auto* const row = std::ranges::find_if(kTypes, [&](const auto& each) { return each.first == number; });
  if (row == kTypes.end()) return failure(Code::unsupported, "its dtype is unknown");
  return pytorch::type_of_dtype(row->second);
}

}  // namespace

Result<void> Payloads::add(const Source& config, const std::string& directory, std::string_view scope) {
  if (config.size() > kMaxJson)
    return failure(Code::unsupported, fmt::format("{} bytes of JSON, at most {} are read", config.size(), kMaxJson));
  scope_ = TRY(scopes_.add(scope, out_.budget));
  const Value json = TRY(parse_json(config, 0, config.size(), out_.budget));
  const auto* const map = std::get_if<Map>(&json);
  const auto* const entries = map == nullptr ? nullptr : map->find_as<Map>("config");
  if (entries == nullptr) return failure(Code::corrupt, "JSON without a \"config\"");
  objects_ = 0;
  for (const auto& [name, value] : *entries) {
    const auto* const entry = std::get_if<Map>(&value);
    if (entry == nullptr) return failure(Code::corrupt, fmt::format("{}: not an object", quoted(name)));
    TRY_VOID(add_tensor(name, *entry, directory));
  }
  if (objects_ > 0) out_.warnings.add("{}: {} objects that are not tensors are not shown", directory, objects_);
  release(footprint(json), out_.budget);
  return {};
}

Result<void> Payloads::add_tensor(const std::string& name, const Map& entry, const std::string& directory) {
  const auto* const meta = entry.find_as<Map>("tensor_meta");
  if (meta == nullptr) {
    ++objects_;
    return {};
  }
  TRY_VOID(out_.charges.charge(Cost::tensor));
  TRY_VOID(out_.charges.charge(Cost::step));
  TRY_VOID(out_.charges.charge(Cost::kept, name.size()));
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = &kUnknownDType;
  tensor.stored_dtype = "unknown";
  tensor.scope = scope_;
  const auto type = describe(*meta, tensor);
  if (!type) return refuse(std::move(tensor), type.error());
  const auto* const is_pickled = entry.find_as<bool>("use_pickle");
  if (is_pickled != nullptr && *is_pickled) return add_pickled(entry, directory, std::move(tensor));
  auto bytes = read(entry, *meta, directory, **type, tensor.shape);
  if (!bytes) return refuse(std::move(tensor), bytes.error());
  tensor.source = std::move(*bytes);
  out_.tensors.push_back(tensor);
  return {};
}

Result<void> Payloads::refuse(Tensor tensor, const Error& reason) {
  if (!is_about_the_bytes(reason)) return tl::unexpected(reason);
  out_.warnings.refuse(reason.code, "tensor {}: {}", quoted(tensor.name), reason.message);
  out_.tensors.push_back(tensor);
  return {};
}

// A member that is a file of torch.save with the tensor.
Result<void> Payloads::add_pickled(const Map& entry, const std::string& directory, Tensor tensor) {
  const size_t before = out_.tensors.size();
  const auto read = [&]() -> Result<void> {
    const SourcePtr stored = TRY(member(entry, directory));
    const auto charge = std::make_shared<codec::DecodeCharge>(container_.budget);
    const codec::DecodeCharge::Active active(charge);
    const SourcePtr bytes = TRY(archive::bytes_to_parse(stored, charge));
    const Container zip{.name = tensor.name,
                        .bytes = bytes,
                        .blobs = container_.blobs,
                        .depth = container_.depth + 1,
                        .budget = container_.budget};
    return pytorch::add_saved(zip, tensor.name, fmt::format("{}: ", quoted(tensor.name)), out_);
  };
  const auto done = read();
  if (!done) return refuse(std::move(tensor), done.error());
  if (out_.tensors.size() == before) return refuse(std::move(tensor), {Code::corrupt, "its member has no tensor"});
  return {};
}

// Sets the shape and the type, as far as they are known.
Result<const pytorch::TorchType*> Payloads::describe(const Map& meta, Tensor& tensor) {
  Shape shape = TRY(sizes_of(meta, "sizes"));
  TRY_VOID(out_.charges.charge(Cost::kept, 2 * sizeof(uint64_t) * shape.size()));
  tensor.shape = std::move(shape);
  const pytorch::TorchType* const type = TRY(type_of(meta));
  tensor.dtype = type->dtype;
  tensor.stored_dtype = type->name;
  return type;
}

Result<Slice> Payloads::read(const Map& entry, const Map& meta, const std::string& directory,
                             const pytorch::TorchType& type, const Shape& shape) {
  const auto layout = meta.find("layout");
  if (layout != nullptr && number_of(layout) != kStrided)
    return failure(Code::unsupported, "its layout is not strided");
  const Strides strides = TRY(sizes_of(meta, "strides"));
  const auto offset = size_of(meta.find("storage_offset"));
  if (!offset) return failure(Code::corrupt, "its storage_offset is not a number");
  const SourcePtr bytes = TRY(member(entry, directory));
  const Slice storage = TRY(slice(bytes, 0, bytes->size()));
  TRY_VOID(pytorch::check_expansion(type, shape, storage));
  Conversion how;
  if (big_endian_ && type.swapped > 1) how.swap = type.swapped;
  Slice elements = TRY(strided(storage, *offset, type.layout, shape, strides, how));
  TRY_VOID(charge_gathering(out_.charges, elements, storage));
  return elements;
}

// A name is looked up among the members: it is never a path out of the directory.
Result<SourcePtr> Payloads::member(const Map& entry, const std::string& directory) const {
  const std::string_view name = text_in(entry, "path_name");
  const Part* const part = archive_.find(fmt::format("{}{}", directory, name));
  if (part == nullptr || !part->link_target.empty())
    return failure(Code::corrupt, fmt::format("its storage {} is not in the archive", quoted(name)));
  return part->source.get();
}

}  // namespace weightfs::pt2
