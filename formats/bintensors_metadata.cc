#include <algorithm>
#include <array>

#include "base/cursor.h"
#include "base/text.h"
#include "formats/bintensors.h"

namespace weightfs::bintensors {
namespace {

// The reference's bincode limit. It is no count of bytes: each number claims its width in memory, each element of a
// list the size of its Rust type from when the list's length is known until the element is decoded. Claimed here too,
// because it is also what keeps a small file from asking for a large memory.
constexpr uint64_t kMostClaimed = 100'000'000;

// The sizes of the Rust types of elements, in bytes.
constexpr uint64_t kTextPair = 48;     // (String, String)
constexpr uint64_t kNamedTensor = 72;  // (String, TensorInfo)
constexpr uint64_t kTensorInfo = 48;
constexpr uint64_t kNamedIndex = 32;  // (String, usize)
constexpr uint64_t kDimension = 8;    // usize

struct StoredDType {
  std::string_view stored;
  const DType* dtype;
};

// enum Dtype of bintensors/src/tensor.rs, by discriminant.
const StoredDType* find_dtype(uint64_t discriminant) {
  static const std::array table = {
      StoredDType{"BOOL", dtype_named("bool")},
      StoredDType{"U8", dtype_named("uint8")},
      StoredDType{"I8", dtype_named("int8")},
      StoredDType{"F8_E5M2", dtype_named("float8_e5m2")},
      StoredDType{"F8_E4M3", dtype_named("float8_e4m3fn")},
      StoredDType{"I16", dtype_named("int16")},
      StoredDType{"U16", dtype_named("uint16")},
      StoredDType{"F16", dtype_named("float16")},
      StoredDType{"BF16", dtype_named("bfloat16")},
      StoredDType{"I32", dtype_named("int32")},
      StoredDType{"U32", dtype_named("uint32")},
      StoredDType{"F32", dtype_named("float32")},
      StoredDType{"F64", dtype_named("float64")},
      StoredDType{"I64", dtype_named("int64")},
      StoredDType{"U64", dtype_named("uint64")},
  };
  return discriminant < table.size() ? &table[static_cast<size_t>(discriminant)] : nullptr;
}

// bincode's primitives, each with its claim.
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
    if (byte > 1) return failure(Code::corrupt, str("an option of ", int{byte}, ", 0 or 1 expected"));
    return byte == 1;
  }

  Result<std::string> text() {
    const uint64_t size = TRY(number());
    TRY_VOID(claim(size, 1));
    std::string text = TRY(cursor_.text(size));
    if (!is_utf8(text)) return failure(Code::corrupt, str(quoted(text), " is not UTF-8"));
    return text;
  }

  /// The length of a list whose elements take at least `smallest` bytes in the file and claim `claimed`.
  Result<uint64_t> count(uint64_t smallest, uint64_t claimed) {
    const uint64_t n = TRY(number());
    TRY_VOID(claim(n, claimed));
    return cursor_.bounded(n, smallest);
  }

  /// An element of such a list is about to be decoded.
  void element(uint64_t claimed) { claimed_ -= claimed; }

 private:
  static constexpr uint8_t kLargestPlain = 250;
  static constexpr uint8_t kIs16 = 251;
  static constexpr uint8_t kWidest32 = 252;
  static constexpr uint8_t kWidest64 = 253;

  // A plain byte, or a marker and a number of 2, 4 or 8 bytes, however small. 254 marks a u128, 255 nothing.
  Result<uint64_t> varint(uint8_t widest) {
    const uint64_t at = cursor_.position();
    const auto first = TRY(cursor_.number<uint8_t>());
    if (first <= kLargestPlain) return first;
    if (first > widest)
      return failure(Code::corrupt, str("a number marked ", int{first}, " at ", at, ", ", int{widest}, " at most"));
    if (first == kIs16) return uint64_t{TRY(cursor_.number<uint16_t>())};
    if (first == kWidest32) return uint64_t{TRY(cursor_.number<uint32_t>())};
    return cursor_.number<uint64_t>();
  }

  Result<void> claim(uint64_t count, uint64_t size) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > kMostClaimed - claimed_)
      return failure(Code::corrupt, str("a count of ", count, " at ", cursor_.position(),
                                        " is beyond bincode's limit of ", kMostClaimed));
    claimed_ += bytes;
    return {};
  }

  Cursor& cursor_;
  uint64_t claimed_ = 0;
};

Result<Map> decode_map(Decoder& in) {
  Map map;
  if (!TRY(in.some())) return map;
  const uint64_t count = TRY(in.count(2, kTextPair));
  for (uint64_t i = 0; i < count; ++i) {
    in.element(kTextPair);
    std::string key = TRY(in.text());
    std::string value = TRY(in.text());
    map.append(std::move(key), std::move(value));
  }
  map.keep_last_of_each_key();
  return map;
}

Result<void> decode_info(Decoder& in, Tensor& tensor, flat::Range& range) {
  const uint64_t discriminant = TRY(in.discriminant());
  const auto* const dtype = find_dtype(discriminant);
  if (dtype == nullptr) return failure(Code::corrupt, str("dtype ", discriminant, ", 14 at most"));
  tensor.dtype = dtype->dtype;
  tensor.stored_dtype = dtype->stored;
  const uint64_t dimensions = TRY(in.count(1, kDimension));
  tensor.shape.reserve(static_cast<size_t>(dimensions));
  for (uint64_t i = 0; i < dimensions; ++i) {
    in.element(kDimension);
    tensor.shape.push_back(TRY(in.number()));
  }
  range.begin = TRY(in.number());
  range.end = TRY(in.number());
  return {};
}

// The shortest tensor takes a byte each for its dtype, its number of dimensions and its two offsets, and for its name's
// length.
Result<void> decode_tensors(Decoder& in, flat::Header& header, Layout layout) {
  const bool named = layout == Layout::release;
  const uint64_t claimed = named ? kNamedTensor : kTensorInfo;
  const uint64_t count = TRY(in.count(named ? 5 : 4, claimed));
  header.tensors.reserve(static_cast<size_t>(count));
  header.ranges.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    in.element(claimed);
    Tensor& tensor = header.tensors.emplace_back();
    if (named) tensor.name = TRY(in.text());
    const auto info = decode_info(in, tensor, header.ranges.emplace_back());
    if (!info) {
      const std::string tensor_name = named ? str(" ", quoted(tensor.name)) : "";
      return failure(info.error().code, str("tensor ", i, tensor_name, ": ", info.error().message));
    }
  }
  return {};
}

// The legacy map from name to index. The reference never looks at the indices until they are used; here each tensor
// must have one name, for one without is lost and one with two is shown as neither meant.
Result<void> decode_index(Decoder& in, flat::Header& header) {
  const uint64_t count = TRY(in.count(2, kNamedIndex));
  const size_t tensors = header.tensors.size();
  if (count != tensors) return failure(Code::corrupt, str(count, " names for ", tensors, " tensors"));
  std::vector<bool> named(tensors);
  for (uint64_t i = 0; i < count; ++i) {
    in.element(kNamedIndex);
    std::string name = TRY(in.text());
    const uint64_t index = TRY(in.number());
    if (index >= tensors)
      return failure(Code::corrupt, str("name ", quoted(name), ": index ", index, " of ", tensors, " tensors"));
    const auto at = static_cast<size_t>(index);
    if (named[at])
      return failure(Code::corrupt,
                     str("names ", quoted(header.tensors[at].name), " and ", quoted(name), ": both of tensor ", index));
    named[at] = true;
    header.tensors[at].name = std::move(name);
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

Result<Metadata> decode(const Source& bytes, uint64_t begin, uint64_t size, Layout layout) {
  Cursor cursor(bytes, begin, begin + size);
  Decoder in(cursor);
  Metadata metadata;
  flat::Header& header = metadata.header;
  header.metadata = TRY(decode_map(in));
  TRY_VOID(decode_tensors(in, header, layout));
  if (layout == Layout::legacy) TRY_VOID(decode_index(in, header));
  if (const auto repeated = flat::repeated_names(header.tensors); !repeated.empty())
    return failure(Code::corrupt, str("tensor ", quoted(header.tensors[repeated[0]].name), " stands twice"));
  metadata.left = cursor.left();
  metadata.padded_as_written = TRY(is_padding(cursor));
  return metadata;
}

}  // namespace weightfs::bintensors
