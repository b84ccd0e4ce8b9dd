#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "formats/bintensors/bintensors.h"
#include "formats/common/cursor.h"

namespace weightfs::bintensors {
namespace {

// The reference's bincode limit. It does not count bytes: each number claims its width in memory, and each element of a
// list the size of its Rust type, from the time the list's length is read until the element is decoded. The same claims
// are made here, so the same files are refused.
constexpr uint64_t kMaxClaimed = 100'000'000;

// The sizes of the Rust types of elements, in bytes.
constexpr uint64_t kTextPair = 48;     // (String, String)
constexpr uint64_t kNamedTensor = 72;  // (String, TensorInfo)
constexpr uint64_t kTensorInfo = 48;
constexpr uint64_t kNamedIndex = 32;  // (String, usize)
constexpr uint64_t kDimension = 8;    // usize

// enum Dtype of bintensors/src/tensor.rs, by discriminant.
constexpr std::array<std::string_view, 15> kDTypes = {"BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
                                                      "BF16", "I32", "U32", "F32",     "F64",     "I64", "U64"};

const flat::StoredDType& dtype_of(size_t discriminant) {
  static const auto table = [] {
    std::array<const flat::StoredDType*, kDTypes.size()> rows{};
    std::transform(kDTypes.begin(), kDTypes.end(), rows.begin(), flat::find_dtype);
    return rows;
  }();
  return *table.at(discriminant);
}

// Decodes bincode's primitives, each with its claim.
class Decoder {
 public:
  explicit Decoder(Cursor& cursor) : cursor_(cursor) {}

  /// usize, u64 and lengths.
  Result<uint64_t> number() {
    TRY_VOID(claim(1, sizeof(uint64_t)));
    return varint(kWidest64);
  }

  /// The discriminant of an enum, u32: the marker of a u64 is refused.
  Result<uint64_t> discriminant() {
    TRY_VOID(claim(1, sizeof(uint32_t)));
    return varint(kWidest32);
  }

  /// Whether an Option holds something: one raw byte.
  Result<bool> some() {
    TRY_VOID(claim(1, 1));
    const auto byte = TRY(cursor_.number<uint8_t>());
    if (byte > 1) return failure(Code::corrupt, fmt::format("an option of {}, 0 or 1 expected", int{byte}));
    return byte == 1;
  }

  Result<void> text(std::string& out) {
    const uint64_t size = TRY(number());
    TRY_VOID(claim(size, 1));
    TRY_VOID(cursor_.read_text(size, out));
    if (!is_utf8(out)) return failure(Code::corrupt, fmt::format("{} is not UTF-8", quoted(out)));
    return {};
  }

  /// The length of a list whose elements take at least `smallest` bytes in the file and claim `claimed`.
  Result<uint64_t> count(uint64_t smallest, uint64_t claimed) {
    const uint64_t n = TRY(number());
    TRY_VOID(claim(n, claimed));
    return cursor_.bounded(n, smallest);
  }

  /// Releases the claim of an element of such a list, which is decoded next.
  void element(uint64_t claimed) { claimed_ -= claimed; }

 private:
  static constexpr uint8_t kMaxPlain = 250;
  static constexpr uint8_t kIs16 = 251;
  static constexpr uint8_t kWidest32 = 252;
  static constexpr uint8_t kWidest64 = 253;

  // A plain byte, or a marker and a number of 2, 4 or 8 bytes, however small. 254 marks a u128, 255 nothing.
  Result<uint64_t> varint(uint8_t widest) {
    const uint64_t at = cursor_.position();
    const auto first = TRY(cursor_.number<uint8_t>());
    if (first <= kMaxPlain) return first;
    if (first > widest)
      return failure(Code::corrupt, fmt::format("a number marked {} at {}, {} at most", int{first}, at, int{widest}));
    if (first == kIs16) return uint64_t{TRY(cursor_.number<uint16_t>())};
    if (first == kWidest32) return uint64_t{TRY(cursor_.number<uint32_t>())};
    return cursor_.number<uint64_t>();
  }

  Result<void> claim(uint64_t count, uint64_t size) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > kMaxClaimed - claimed_)
      return failure(Code::corrupt, fmt::format("a count of {} at {} is beyond bincode's limit of {}", count,
                                                cursor_.position(), kMaxClaimed));
    claimed_ += bytes;
    return {};
  }

  Cursor& cursor_;
  uint64_t claimed_ = 0;
};

// Adds the subject to an error.
template <class T, class... Values>
Result<T> about(Result<T> result, fmt::format_string<Values...> subject, Values&&... values) {
  return std::move(result).map_error([&](const Error& e) {
    return Error{e.code, fmt::format("{}: {}", fmt::format(subject, std::forward<Values>(values)...), e.message)};
  });
}

Result<Map> decode_map(Decoder& in, Charges& charges) {
  Map map;
  if (!TRY(in.some())) return map;
  const uint64_t count = TRY(in.count(2, kTextPair));
  if (count > flat::kMaxMetadataValues)
    return failure(Code::corrupt, fmt::format("metadata of {} values, {} at most", count, flat::kMaxMetadataValues));
  for (uint64_t i = 0; i < count; ++i) {
    in.element(kTextPair);
    std::string key, value;
    TRY_VOID(about(in.text(key), "key {}", i));
    TRY_VOID(about(in.text(value), "the value of key {}", quoted(key)));
    TRY_VOID(charges.charge(Cost::value, 2));
    TRY_VOID(charges.charge(Cost::kept, key.size() + value.size()));
    map.append(std::move(key), std::move(value));
  }
  map.keep_last_of_each_key();
  return map;
}

// A tensor's name. The second empty one is refused at once: an entry without a name is much smaller than its Tensor.
Result<void> decode_name(Decoder& in, bool& unnamed, std::string& name) {
  TRY_VOID(in.text(name));
  if (name.empty() && std::exchange(unnamed, true)) return failure(Code::corrupt, "the second that is empty");
  return {};
}

Result<flat::Range> decode_info(Decoder& in, Tensor& tensor) {
  const uint64_t discriminant = TRY(in.discriminant());
  if (discriminant >= kDTypes.size())
    return failure(Code::corrupt, fmt::format("dtype {}, {} at most", discriminant, kDTypes.size() - 1));
  const flat::StoredDType& dtype = dtype_of(static_cast<size_t>(discriminant));
  tensor.dtype = dtype.dtype;
  tensor.stored_dtype = dtype.stored;
  const uint64_t dimensions = TRY(in.count(1, kDimension));
  if (dimensions > kMaxDimensions)
    return failure(Code::corrupt, fmt::format("shape: {} dimensions, {} at most", dimensions, kMaxDimensions));
  tensor.shape.resize(static_cast<size_t>(dimensions));
  for (uint64_t& size : tensor.shape) {
    in.element(kDimension);
    size = TRY(in.number());
  }
  const uint64_t begin = TRY(in.number());
  const uint64_t end = TRY(in.number());
  return flat::Range{begin, end};
}

// The minimum size of a tensor: a byte each for its dtype, its number of dimensions, its two offsets and its name's
// length.
Result<void> decode_release(Decoder& in, flat::Header& header) {
  const uint64_t count = TRY(in.count(5, kNamedTensor));
  // Reserved memory is charged when it is used: untouched pages take none.
  header.tensors.reserve(static_cast<size_t>(count));
  bool unnamed = false;
  Tensor tensor;  // its memory is used again
  for (uint64_t i = 0; i < count; ++i) {
    in.element(kNamedTensor);
    if (const auto named = decode_name(in, unnamed, tensor.name); !named) return about(named, "tensor {}: name", i);
    const auto range = decode_info(in, tensor);
    if (!range) return tl::unexpected(about(range, "tensor {} {}", i, quoted(tensor.name)).error());
    TRY_VOID(header.add(tensor, *range));
  }
  return {};
}

// Skips the legacy list of tensors; returns their number.
Result<uint64_t> skip_infos(Decoder& in) {
  const uint64_t count = TRY(in.count(4, kTensorInfo));
  Tensor tensor;
  for (uint64_t i = 0; i < count; ++i) {
    in.element(kTensorInfo);
    TRY_VOID(about(decode_info(in, tensor), "tensor {}", i));
  }
  return count;
}

// The legacy map from name to index, as the names by index. The reference checks the indices only when they are used;
// here each tensor must have exactly one name.
Result<std::vector<std::string>> decode_index(Decoder& in, uint64_t tensors, Charges& charges) {
  const uint64_t count = TRY(in.count(2, kNamedIndex));
  if (count != tensors) return failure(Code::corrupt, fmt::format("{} names for {} tensors", count, tensors));
  TRY_VOID(charges.charge(Cost::kept, tensors * sizeof(std::string)));
  std::vector<std::string> names(static_cast<size_t>(tensors));
  std::vector<bool> named(names.size());
  bool unnamed = false;
  for (uint64_t i = 0; i < count; ++i) {
    in.element(kNamedIndex);
    std::string name;
    TRY_VOID(about(decode_name(in, unnamed, name), "name {}", i));
    const uint64_t index = TRY(about(in.number(), "name {}: index", i));
    if (index >= tensors)
      return failure(Code::corrupt, fmt::format("name {}: index {} of {} tensors", quoted(name), index, tensors));
    const auto at = static_cast<size_t>(index);
    if (named[at])
      return failure(Code::corrupt,
                     fmt::format("names {} and {}: both of tensor {}", quoted(names[at]), quoted(name), index));
    named[at] = true;
    names[at] = std::move(name);
  }
  return names;
}

// Two passes over the list of tensors: no memory is used before the index is known to fit it.
Result<void> decode_legacy(Cursor& cursor, Decoder& in, flat::Header& header) {
  Cursor list = cursor;
  const uint64_t count = TRY(skip_infos(in));
  std::vector<std::string> names = TRY(decode_index(in, count, header.charges));
  Decoder again(list);
  TRY_VOID(again.count(4, kTensorInfo));
  header.tensors.reserve(static_cast<size_t>(count));
  Tensor tensor;  // its memory is used again
  for (std::string& name : names) {
    again.element(kTensorInfo);
    tensor.name = std::move(name);
    const flat::Range range = TRY(decode_info(again, tensor));
    TRY_VOID(header.add(tensor, range));
  }
  return {};
}

// The reference pads to a multiple of eight with spaces when it writes, and reads any padding.
Result<bool> is_padding(Cursor& cursor) {
  if (cursor.left() > 7) return false;
  const std::string rest = TRY(cursor.text(cursor.left()));
  return rest.find_first_not_of(' ') == std::string::npos;
}

}  // namespace

Result<Metadata> decode(const Source& bytes, uint64_t begin, uint64_t size, Layout layout, Budget& budget) {
  TRY_VOID(budget.charge(Cost::input, size));
  Cursor cursor(bytes, begin, begin + size);
  Decoder in(cursor);
  Metadata metadata(budget);
  flat::Header& header = metadata.header;
  header.metadata = TRY(decode_map(in, header.charges));
  TRY_VOID(layout == Layout::release ? decode_release(in, header) : decode_legacy(cursor, in, header));
  if (const auto repeated = flat::repeated_names(header.tensors); !repeated.empty())
    return failure(Code::corrupt, fmt::format("tensor {} appears twice", quoted(header.tensors[repeated[0]].name)));
  metadata.left = cursor.left();
  metadata.padded_as_written = TRY(is_padding(cursor));
  return metadata;
}

}  // namespace weightfs::bintensors
