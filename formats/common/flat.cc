#include "formats/common/flat.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/common/limits.h"
#include "formats/grouped.h"
#include "formats/output.h"

namespace weightfs::flat {
namespace {

Error wrong(const TensorView& tensor, const std::string& why) {
  return Error{Code::corrupt, fmt::format("tensor {}: {}", quoted(tensor.name), why)};
}

Result<void> check_size(const TensorList& tensors, size_t i, Range range) {
  if (tensors.dtype(i) == &kUnknownDType) return {};
  const auto needed = size_in_bytes(*tensors.dtype(i), tensors.shape(i));
  const uint64_t size = range.end - range.begin;
  if (size == needed) return {};
  const TensorView tensor = tensors[i];
  if (!needed) {
    const char* const why = " that overflows 64 bits or does not fill whole bytes";
    return tl::unexpected(wrong(tensor, fmt::format("a shape of {}{}", tensor.stored_dtype, why)));
  }
  return tl::unexpected(
      wrong(tensor, fmt::format("{} bytes, but its shape and dtype {} need {}", size, tensor.stored_dtype, *needed)));
}

// What models have in common, as their writers spell it: https://github.com/Stability-AI/ModelSpec, and the "format"
// that transformers insists on.
Map common_of(const Map& metadata) {
  constexpr std::array<std::pair<std::string_view, const char*>, 6> kNames = {{
      {"modelspec.title", "name"},
      {"modelspec.description", "description"},
      {"modelspec.license", "license"},
      {"modelspec.author", "author"},
      {"modelspec.architecture", "architecture"},
      {"format", "framework"},
  }};
  Map common;
  for (const auto& [stored, name] : kNames)
    if (const Value* value = metadata.find(stored); value != nullptr && std::holds_alternative<std::string>(*value))
      common.append(name, *value);
  return common;
}

// enum Dtype of safetensors/src/tensor.rs, by the names that ml_dtypes has for them. BinTensors has some of them.
const auto& stored_dtypes() {
  static const std::array table = {
      StoredDType{"F32", dtype_named("float32"), 17},
      StoredDType{"F16", dtype_named("float16"), 13},
      StoredDType{"BF16", dtype_named("bfloat16"), 14},
      StoredDType{"F64", dtype_named("float64"), 19},
      StoredDType{"C64", dtype_named("complex64"), 18},
      StoredDType{"F8_E4M3", dtype_named("float8_e4m3fn"), 7},
      StoredDType{"F8_E5M2", dtype_named("float8_e5m2"), 6},
      StoredDType{"F8_E8M0", dtype_named("float8_e8m0fnu"), 8},
      StoredDType{"F8_E4M3FNUZ", dtype_named("float8_e4m3fnuz"), 9},
      StoredDType{"F8_E5M2FNUZ", dtype_named("float8_e5m2fnuz"), 10},
      StoredDType{"F4", dtype_named("float4_e2m1fn"), 1},
      StoredDType{"F6_E2M3", dtype_named("float6_e2m3fn"), 2},
      StoredDType{"F6_E3M2", dtype_named("float6_e3m2fn"), 3},
      StoredDType{"BOOL", dtype_named("bool"), 0},
      StoredDType{"U8", dtype_named("uint8"), 4},
      StoredDType{"I8", dtype_named("int8"), 5},
      StoredDType{"U16", dtype_named("uint16"), 12},
      StoredDType{"I16", dtype_named("int16"), 11},
      StoredDType{"U32", dtype_named("uint32"), 16},
      StoredDType{"I32", dtype_named("int32"), 15},
      StoredDType{"U64", dtype_named("uint64"), 21},
      StoredDType{"I64", dtype_named("int64"), 20},
  };
  return table;
}

}  // namespace

const StoredDType* find_dtype(std::string_view stored) {
  const auto& table = stored_dtypes();
  const auto row = std::find_if(table.begin(), table.end(), [&](const StoredDType& d) { return d.stored == stored; });
  return row == table.end() ? nullptr : &*row;
}

uint64_t length_in(std::string_view head) { return head.size() < kPrefix ? 0 : little_endian(head.substr(0, kPrefix)); }

Result<uint64_t> read_length(const Source& bytes) {
  if (bytes.size() < kPrefix)
    return failure(Code::corrupt, fmt::format("{} bytes, 8 needed for the length of the header", bytes.size()));
  const uint64_t length = length_in(TRY(read_text(bytes, 0, kPrefix)));
  if (length > kMaxHeaderSize)
    return failure(Code::corrupt, fmt::format("header of {} bytes, {} at most", length, kMaxHeaderSize));
  if (const uint64_t there = bytes.size() - kPrefix; length > there)
    return failure(Code::corrupt, fmt::format("the header is {} bytes long, the file has {} after it", grouped(length),
                                              grouped(there)));
  return length;
}

std::vector<size_t> repeated_names(const TensorList& tensors) {
  struct Key {  // of eight bytes: there may be a million
    uint32_t hash;
    uint32_t place;
  };
  std::vector<uint32_t> hashes(tensors.size());
  for (size_t i = 0; i < hashes.size(); ++i)
    hashes[i] = static_cast<uint32_t>(std::hash<std::string_view>{}(tensors.name(i)));
  // Few names share a bucket, so few are compared.
  const size_t buckets = std::bit_ceil(8 * (hashes.size() + 1));
  std::vector<bool> used(buckets), shared(buckets);
  for (const uint32_t hash : hashes) {
    const size_t bucket = hash % buckets;
    if (used[bucket])
      shared[bucket] = true;
    else
      used[bucket] = true;
  }
  std::vector<Key> keys;
  for (size_t i = 0; i < hashes.size(); ++i)
    if (shared[hashes[i] % buckets]) keys.push_back({hashes[i], static_cast<uint32_t>(i)});
  // Sorted, not put into a hash table: names that were made to collide cost little more than others.
  std::sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    const int by_name = tensors.name(a.place).compare(tensors.name(b.place));
    return by_name != 0 ? by_name < 0 : a.place < b.place;
  });
  std::vector<size_t> places;
  for (size_t i = 1; i < keys.size(); ++i) {
    const Key &one = keys[i - 1], &next = keys[i];
    if (one.hash == next.hash && tensors.name(one.place) == tensors.name(next.place)) places.push_back(one.place);
  }
  std::sort(places.begin(), places.end());
  return places;
}

Result<void> place(Header& header, const SourcePtr& file, uint64_t length, Order order, Ends ends) {
  std::vector<uint32_t> places(header.tensors.size());
  std::iota(places.begin(), places.end(), uint32_t{0});
  // An empty tensor may begin where another one does: the end orders them.
  const auto is_before = [&](uint32_t a, uint32_t b) {
    const Range one = header.range(a), other = header.range(b);
    return std::tie(one.begin, one.end, a) < std::tie(other.begin, other.end, b);
  };
  if (order == Order::any && !std::is_sorted(places.begin(), places.end(), is_before))
    std::sort(places.begin(), places.end(), is_before);
  uint64_t end = 0;
  for (const uint32_t i : places) {
    const auto [begin, next] = header.range(i);
    const size_t length_of_name = header.tensors.name(i).size();
    if (length_of_name > kMaxNameLength)
      return tl::unexpected(
          wrong(header.tensors[i], fmt::format("a name of {} bytes, more than {}", length_of_name, kMaxNameLength)));
    if (begin != end || next < begin)
      return tl::unexpected(
          wrong(header.tensors[i], fmt::format("bytes [{}, {}) where byte {} is next", begin, next, end)));
    TRY_VOID(check_size(header.tensors, i, {begin, next}));
    end = next;
  }
  const uint64_t there = file->size() - kPrefix - length;
  if (end != there && ends == Ends::with_last_tensor)
    return failure(Code::corrupt,
                   fmt::format("tensors of {} in all, {} after the header", counted_bytes(end), counted_bytes(there)));
  if (end < there)
    header.warnings.add("{}{} after the last tensor", grouped(there - end), there - end == 1 ? " byte" : " bytes");
  TensorList& tensors = header.tensors;
  uint64_t refused = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ByteRange range{tensors.offset(i), tensors.offset(i) + tensors.nbytes(i)};
    const bool is_whole = range.to <= there;
    refused += is_whole ? 0 : 1;
    const uint64_t begin = kPrefix + length;
    if (is_whole)
      TRY_VOID(tensors.set_source(i, file, {begin + range.from, begin + range.to}));
    else
      tensors.set_source(i, Slice());
  }
  if (refused > 0)
    header.warnings.refuse(Code::corrupt, "the file ends {} early: {} of {} tensors refused", exact_size(end - there),
                           refused, tensors.size());
  if (end > there) header.warnings.add_short_by(end - there);
  return {};
}

void add_facts(Map& metadata, const std::string& key, Map facts) {
  if (const Value* own = metadata.find(key)) facts.append("value", *own);
  metadata.set(key, std::move(facts));
}

Model model_of(Header header, const Container& container, std::string format, Map facts) {
  header.charges.keep();
  Model model;
  model.common = common_of(header.metadata);
  add_facts(header.metadata, format, std::move(facts));
  model.format = std::move(format);
  model.metadata = std::move(header.metadata);
  model.tensors = std::move(header.tensors);
  // What was reserved for a small header counts in a directory of many models; a large one is not copied.
  constexpr size_t kSmall = 1000;
  if (model.tensors.size() < kSmall) model.tensors.shrink_to_fit();
  std::move(header.warnings).move_to(model);
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  return model;
}

}  // namespace weightfs::flat

namespace weightfs {

// Elements of four bits in whole bytes are the same bytes with and without packed rows.
std::optional<SafetensorsType> safetensors_type(const TensorView& tensor) {
  const DType& dtype = *tensor.dtype;
  const auto& table = flat::stored_dtypes();
  const auto row = std::find_if(table.begin(), table.end(), [&](const flat::StoredDType& stored) {
    return stored.dtype == &dtype || (dtype.packed_bits > 0 && dtype.name == "float4_e2m1fn" && stored.stored == "F4");
  });
  if (row == table.end() || size_in_bytes(*row->dtype, tensor.shape) != tensor.nbytes()) return std::nullopt;
  return SafetensorsType{row->stored, row->rank};
}

}  // namespace weightfs
