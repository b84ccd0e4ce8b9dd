#include "formats/tfjs/weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/common/cursor.h"
#include "formats/common/limits.h"
#include "formats/common/relative_path.h"
#include "formats/grouped.h"

namespace weightfs::tfjs {
namespace {

constexpr size_t kMaxFiles = 10'000;  // each stays an open file
constexpr size_t kMaxPaths = 1'000'000;

template <class T>
Result<const T*> field(const Map& map, const char* key, const char* kind) {
  if (const T* const value = map.find_as<T>(key)) return value;
  return failure(Code::corrupt, fmt::format("{} expected at {}", kind, quoted(key)));
}

Result<const Map*> object(const Value& value) {
  if (const Map* const map = std::get_if<Map>(&value)) return map;
  return failure(Code::corrupt, "an object expected");
}

// The dtype that a weight is stored in, by its own and that of its quantisation; null if tfjs has none.
const DType* dtype_of(std::string_view dtype, std::string_view quantised) {
  constexpr auto kPlain = std::to_array<std::string_view>({"float32", "int32", "bool", "complex64", "string"});
  constexpr auto kQuantised = std::to_array<std::string_view>({"uint8", "uint16"});
  if (std::ranges::find(kPlain, dtype) == kPlain.end()) return nullptr;
  if (quantised.empty()) return dtype_named(dtype);
  const bool is_number = dtype == "float32" || dtype == "int32";
  if (quantised == "float16") return dtype == "float32" ? dtype_named(quantised) : nullptr;
  return is_number && std::ranges::find(kQuantised, quantised) != kQuantised.end() ? dtype_named(quantised) : nullptr;
}

std::optional<double> number_in(const Map& map, const char* key) {
  const Value* const value = map.find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* const real = std::get_if<double>(value)) return *real;
  if (const auto* const integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  if (const auto* const natural = std::get_if<uint64_t>(value)) return static_cast<double>(*natural);
  return std::nullopt;
}

// What the stored numbers mean; nothing for float16, which has no scale.
std::optional<AffineNumbers> numbers_of(const Map& quantization, std::string_view dtype) {
  const auto scale = number_in(quantization, "scale");
  const auto minimum = number_in(quantization, "min");
  if (!scale || !minimum || text_in(quantization, "dtype") == "float16") return std::nullopt;
  return AffineNumbers{*scale, *minimum, dtype == "int32"};
}

// Whether it says how the numbers are stored, and what they mean.
bool is_complete(const Map& quantization) {
  const std::string_view dtype = text_in(quantization, "dtype");
  if (dtype != "uint8" && dtype != "uint16") return !dtype.empty();
  return number_in(quantization, "scale") && number_in(quantization, "min");
}

Result<Shape> shape_of(const List& list) {
  if (list.size() > kMaxDimensions)
    return failure(Code::unsupported, fmt::format("more than {} dimensions", kMaxDimensions));
  Shape shape;
  for (const Value& value : list) {
    const auto* const size = std::get_if<int64_t>(&value);
    if (size == nullptr || *size < 0) return failure(Code::corrupt, fmt::format("dimension {}", to_json_line(value)));
    shape.push_back(static_cast<uint64_t>(*size));
  }
  return shape;
}

using Strings = std::shared_ptr<const std::vector<std::string>>;

// Each has its length in front.
Result<Strings> read_strings(const Source& bytes, uint64_t count, Budget& budget) {
  constexpr uint64_t kUtf8Growth = 3;
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::input, bytes.size()));
  Cursor cursor(bytes, 0, bytes.size());
  TRY_VOID(cursor.bounded(count, sizeof(uint32_t)));
  TRY_VOID(charges.charge(Cost::kept, kUtf8Growth * bytes.size() + sizeof(std::string) * count));
  auto strings = std::make_shared<std::vector<std::string>>();
  strings->reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto size = TRY(cursor.number<uint32_t>());
    strings->push_back(to_utf8(TRY(cursor.text(size))));
  }
  charges.keep();
  return strings;
}

}  // namespace

Result<void> Weights::add(const Value& manifest) {
  const auto* const groups = std::get_if<List>(&manifest);
  if (groups == nullptr) return failure(Code::corrupt, "\"weightsManifest\" is not a list");
  for (size_t i = 0; i < groups->size(); ++i) {
    const auto about = [&](const Error& error) {
      return with_message(error, fmt::format("group {}: {}", i, error.message));
    };
    const Map* const group = TRY(object((*groups)[i]).map_error(about));
    TRY_VOID(add_group(*group).map_error(about));
  }
  return {};
}

Result<void> Weights::add_group(const Map& map) {
  const List& paths = *TRY(field<List>(map, "paths", "a list"));
  const List& weights = *TRY(field<List>(map, "weights", "a list"));
  Group group = TRY(open(paths));
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto about = [&](const Error& error) {
      return with_message(error, fmt::format("weight {}: {}", i, error.message));
    };
    const Map* const weight = TRY(object(weights[i]).map_error(about));
    TRY_VOID(add_weight(*weight, group).map_error(about));
  }
  const uint64_t end = group.bytes->size();
  if (group.lost == nullptr && !group.is_unknown && group.at > end) warnings_.add_short_by(group.at - end);
  if (group.refused > 0) {
    warnings_.miss_file(group.lost->reason.code, "{}: {}; {}", quoted(group.lost_name), group.lost->reason.message,
                        lost_tensors(group.refused, "refused"));
    warnings_.lose(group.lost->reason, {});
  }
  return {};
}

Result<Weights::Group> Weights::open(const List& paths) {
  if (paths.size() > kMaxPaths) return failure(Code::unsupported, fmt::format("more than {} paths", kMaxPaths));
  Group group;
  std::vector<SourcePtr> parts;
  for (const Value& value : paths) {
    const auto* const path = std::get_if<std::string>(&value);
    if (path == nullptr) return failure(Code::corrupt, "a path that is not a text");
    TRY_VOID(container_.budget->charge(Cost::value, 2));
    const File* const file = TRY(file_at(*path));
    if (group.lost != nullptr) continue;
    if (file->bytes == nullptr) {
      group.lost = file;
      group.lost_name = *path;
      continue;
    }
    const uint64_t before = group.ends.empty() ? 0 : group.ends.back();
    if (file->bytes->size() > UINT64_MAX - before) return failure(Code::corrupt, "its files exceed 64 bits");
    group.files.push_back(file);
    group.ends.push_back(before + file->bytes->size());
    parts.push_back(file->bytes);
  }
  group.bytes = concat(std::move(parts));
  return group;
}

// A file may be in several groups, or more than once in one; it is opened once.
Result<const Weights::File*> Weights::file_at(const std::string& path) {
  const auto clean = relative_path(path);
  const auto [row, is_new] = files_.try_emplace(clean.value_or(path));
  File& file = row->second;
  if (!is_new) return &file;
  if (files_.size() > kMaxFiles) return failure(Code::unsupported, fmt::format("more than {} files", kMaxFiles));
  TRY_VOID(container_.budget->charge(Cost::member, 2));
  TRY_VOID(container_.budget->charge(Cost::kept, 3 * path.size()));
  Result<SourcePtr> bytes = failure(Code::unsupported, "no other files in its directory");
  if (!clean)
    bytes = tl::unexpected(clean.error());
  else if (container_.folder != nullptr)
    bytes = open_below(container_, *clean);
  if (bytes)
    file.bytes = std::move(*bytes);
  else if (is_fatal(container_, bytes.error()))
    return tl::unexpected(bytes.error());
  else
    file.reason = bytes.error();
  return &file;
}

Result<void> Weights::add_weight(const Map& weight, Group& group) {
  const std::string& name = *TRY(field<std::string>(weight, "name", "a text"));
  const std::string& dtype = *TRY(field<std::string>(weight, "dtype", "a text"));
  const List& shape = *TRY(field<List>(weight, "shape", "a list"));
  const auto* const quantization = weight.find_as<Map>("quantization");
  const std::string_view stored = quantization == nullptr ? std::string_view() : text_in(*quantization, "dtype");
  if (name.size() > kMaxNameLength)
    return failure(Code::unsupported, fmt::format("a name of {} bytes, at most {}", name.size(), kMaxNameLength));
  TRY_VOID(container_.budget->charge(Cost::tensor));
  TRY_VOID(container_.budget->charge(Cost::kept, name.size() + sizeof(uint64_t) * shape.size()));
  const bool is_unclear = quantization != nullptr && !is_complete(*quantization);
  const DType* const known = is_unclear && stored.empty() ? nullptr : dtype_of(dtype, stored);
  const auto stored_dtype = TRY(pool_.add(stored.empty() ? std::string_view(dtype) : stored, *container_.budget));
  Tensor tensor{.name = name,
                .dtype = known == nullptr ? &kUnknownDType : known,
                .stored_dtype = stored_dtype,
                .scope = {},
                .shape = {},
                .source = {}};
  auto bytes = place(tensor, shape, group);
  if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
  if (is_unclear) bytes = failure(Code::corrupt, "quantization without dtype, scale or min");
  if (bytes)
    tensor.source = std::move(*bytes);
  else if (!group.is_unknown && group.lost != nullptr)
    ++group.refused;
  else
    warnings_.refuse(bytes.error().code, "tensor {}: {}: refused", quoted(name), bytes.error().message);
  if (bytes && known->name == "string")
    model_.per_tensor.edit().strings.emplace(
        model_.tensors.size(),
        Later<Strings>([source = tensor.source, count = *elements_of(tensor.shape), budget = container_.budget] {
          return read_strings(source, count, *budget);
        }));
  if (quantization != nullptr) {
    TRY_VOID(add_quantization(tensor, *quantization));
    if (const auto numbers = numbers_of(*quantization, dtype); numbers && !tensor.source.refused())
      model_.per_tensor.edit().affine_numbers.emplace(model_.tensors.size(), *numbers);
  }
  model_.tensors.push_back(tensor);
  return {};
}

// The bytes of a weight, which is the next one of its group. Where they end is not known if it is refused.
Result<Slice> Weights::place(Tensor& tensor, const List& list, Group& group) {
  if (group.is_unknown) return failure(Code::corrupt, "the size of a weight before it is not known");
  const bool is_lost = group.lost != nullptr;
  group.is_unknown = true;
  if (tensor.dtype == &kUnknownDType)
    return failure(Code::unsupported, fmt::format("dtype {}", quoted(tensor.stored_dtype)));
  tensor.shape = TRY(shape_of(list));
  const auto elements = elements_of(tensor.shape);
  if (!elements) return failure(Code::corrupt, "the number of its elements overflows 64 bits");
  const bool is_text = tensor.dtype->name == "string";
  const auto size = is_text ? TRY(size_of_strings(group, *elements)) : size_in_bytes(*tensor.dtype, tensor.shape);
  if (!size) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
  auto bytes = range_of(group, *size);
  group.is_unknown = false;
  if (bytes)
    group.at += *size;
  else
    group.at = is_lost || *size > UINT64_MAX - group.at ? UINT64_MAX : group.at + *size;
  return bytes;
}

// A range of one file, or of all of them.
Result<Slice> Weights::range_of(const Group& group, uint64_t size) const {
  const uint64_t end = group.bytes->size();
  if (group.at > end || size > end - group.at)
    return failure(Code::corrupt, fmt::format("{} bytes at {}, but its group has {}", size, group.at, end));
  const auto next = std::ranges::upper_bound(group.ends, group.at);
  if (next == group.ends.end()) return slice(group.bytes, group.at, size);
  const SourcePtr& file = group.files[static_cast<size_t>(next - group.ends.begin())]->bytes;
  const uint64_t begin = *next - file->size();
  return size <= *next - group.at ? slice(file, group.at - begin, size) : slice(group.bytes, group.at, size);
}

// Each string has its length in front, so the lengths are read.
Result<uint64_t> Weights::size_of_strings(const Group& group, uint64_t count) {
  const uint64_t end = group.bytes->size();
  if (group.at > end)
    return failure(Code::corrupt, fmt::format("its group has {} bytes, it begins at {}", end, group.at));
  Cursor cursor(*group.bytes, group.at, end);
  TRY_VOID(cursor.bounded(count, sizeof(uint32_t)));
  TRY_VOID(container_.budget->charge(Cost::step, count));
  for (uint64_t i = 0; i < count; ++i) {
    const auto size = TRY(cursor.number<uint32_t>());
    TRY_VOID(cursor.skip(size));
  }
  return cursor.position() - group.at;
}

Result<void> Weights::add_quantization(const Tensor& tensor, const Map& quantization) {
  constexpr uint64_t kValues = 7;  // of the map: itself, the name, and keys
  TRY_VOID(charge({kValues, tensor.name.size()}, *container_.budget));
  Map shown;
  shown.append("name", tensor.name);
  for (const char* const key : {"dtype", "original_dtype", "min", "scale"}) {
    const Value* const value = quantization.find(key);
    if (value == nullptr) continue;
    TRY_VOID(charge(footprint(*value), *container_.budget));
    shown.append(key, *value);
  }
  quantization_.emplace_back(std::move(shown));
  return {};
}

void Weights::finish() {
  for (const auto& [path, file] : files_)
    if (file.bytes != nullptr && path != container_.name)
      model_.parts.push_back({path, Later<SourcePtr>::of(file.bytes)});
  if (quantization_.empty()) return;
  if (quantization_.size() <= kMaxInlineList) {
    model_.metadata.append("quantization", std::move(quantization_));
    return;
  }
  const auto list = std::make_shared<const Value>(std::move(quantization_));
  model_.documents.push_back(
      {"metadata/quantization.json", Later<SourcePtr>([list, budget = container_.budget]() -> Result<SourcePtr> {
         return in_memory(TRY(to_json(*list, *budget)));
       })});
}

}  // namespace weightfs::tfjs
