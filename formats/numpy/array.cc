#include "formats/numpy/array.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/common/strided.h"

namespace weightfs::numpy {
namespace {

// The maximum size of elements that are reordered: each read takes memory for whole elements.
constexpr uint64_t kMaxGathered = 64 << 10;

constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};

// The time of parsing a byte of a header, besides its values, is that of this many bytes of input.
constexpr uint64_t kInputPerByte = 6;

// Magic number, version, and the length of the dict: two bytes in version 1.0, then four.
struct Prefix {
  uint8_t major = 0, minor = 0;
  uint64_t size = 0;  // of itself
  uint64_t dict = 0;  // the bytes that follow
};

Result<Prefix> parse_prefix(std::string_view head) {
  Prefix prefix;
  if (!head.starts_with(kMagic)) return failure(Code::corrupt, "no magic number of a .npy file");
  if (head.size() < kMagic.size() + 2) return failure(Code::corrupt, "ends after the magic number");
  prefix.major = static_cast<uint8_t>(head[6]);
  prefix.minor = static_cast<uint8_t>(head[7]);
  if (prefix.major < 1 || prefix.major > 3 || prefix.minor != 0)
    return failure(Code::unsupported,
                   fmt::format("version {}.{}; 1.0, 2.0 and 3.0 are read", prefix.major, prefix.minor));
  const size_t width = prefix.major == 1 ? 2 : 4;
  prefix.size = kMagic.size() + 2 + width;
  if (head.size() < prefix.size) return failure(Code::corrupt, "ends before the length of the header");
  prefix.dict = little_endian(head.substr(8, width));
  if (prefix.dict > kMaxHeaderSize)
    return failure(Code::unsupported,
                   fmt::format("a header of {} bytes, at most {} are read", prefix.dict, kMaxHeaderSize));
  return prefix;
}

std::string utf8_of_latin1(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) out += static_cast<char>(0xC0 | byte >> 6);
    out += byte >= 0x80 ? static_cast<char>(0x80 | (byte & 0x3F)) : c;
  }
  return out;
}

// The last value of a key counts, as in Python.
const Literal* find(const Dict& dict, std::string_view key) {
  const auto last = std::find_if(dict.rbegin(), dict.rend(), [&](const auto& entry) { return entry.first == key; });
  return last == dict.rend() ? nullptr : &last->second;
}

Result<void> check_keys(const Dict& dict) {
  for (const auto& [key, value] : dict)
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      return failure(Code::corrupt, fmt::format("header: unknown key {}", quoted(key)));
  for (const std::string_view key : kKeys)
    if (find(dict, key) == nullptr) return failure(Code::corrupt, fmt::format("header: no {}", key));
  return {};
}

Result<Shape> shape_of(const Literal& literal) {
  const auto* const sizes = std::get_if<Sequence>(&literal);
  if (sizes == nullptr || sizes->kind != Sequence::Kind::tuple)
    return failure(Code::corrupt, "header: the shape is not a tuple");
  if (sizes->items.size() > kMaxDimensions)
    return failure(Code::unsupported, fmt::format("{} dimensions, at most {}", sizes->items.size(), kMaxDimensions));
  Shape shape;
  for (const Literal& item : sizes->items) {
    const auto* const size = std::get_if<int64_t>(&item);
    if (size == nullptr) return failure(Code::corrupt, "header: a dimension is not an integer");
    if (*size < 0) return failure(Code::corrupt, fmt::format("header: a dimension of size {}", *size));
    shape.push_back(static_cast<uint64_t>(*size));
  }
  return shape;
}

// As NumPy computes it: dimensions of 0 do not hide an overflow of the others.
Result<uint64_t> size_of(const Shape& shape, uint64_t element) {
  bool is_empty = element == 0;
  uint64_t bytes = std::max<uint64_t>(element, 1);
  for (const uint64_t size : shape) {
    is_empty = is_empty || size == 0;
    if (__builtin_mul_overflow(bytes, std::max<uint64_t>(size, 1), &bytes) || bytes > INT64_MAX)
      return failure(Code::corrupt, "header: an array of 2^63 bytes or more");
  }
  return is_empty ? 0 : bytes;
}

Result<Header> parse_dict(std::string_view text, Charges& charges) {
  const Literal literal = TRY(parse_literal(text, charges).map_error([](const Error& error) {
    return Error{error.code, "header: " + error.message};
  }));
  const auto* const dict = std::get_if<Dict>(&literal);
  if (dict == nullptr) return failure(Code::corrupt, "header: not a dict");
  TRY_VOID(check_keys(*dict));
  Header header;
  const auto* const fortran = std::get_if<bool>(find(*dict, "fortran_order"));
  if (fortran == nullptr) return failure(Code::corrupt, "header: fortran_order is neither True nor False");
  header.fortran_order = *fortran;
  header.type = TRY(element_type(*find(*dict, "descr")));
  header.shape = TRY(shape_of(*find(*dict, "shape")));
  header.nbytes = TRY(size_of(header.shape, header.type.bytes));
  return header;
}

}  // namespace

Result<Header> read_header(std::string head, const ReadHead& read_head, Budget& budget) {
  const Prefix prefix = TRY(parse_prefix(head));
  const uint64_t size = prefix.size + prefix.dict;
  // Charged before the header is decoded and parsed, so that headers that exceed the budget cost nothing.
  TRY_VOID(budget.charge(Cost::input, kInputPerByte * size));
  if (head.size() < size) head = TRY(read_head(static_cast<size_t>(size)));
  if (head.size() < size)
    return failure(Code::corrupt, fmt::format("was cut: a header of {} bytes, the file has {}", size, head.size()));
  Charges charges(budget);
  TRY_VOID(charges.charge(Cost::kept, 3 * prefix.dict));
  std::string text = head.substr(static_cast<size_t>(prefix.size), static_cast<size_t>(prefix.dict));
  if (prefix.major < 3) text = utf8_of_latin1(text);
  if (!is_utf8(text)) return failure(Code::corrupt, "header: not UTF-8");
  Header header = TRY(parse_dict(text, charges));
  header.version = fmt::format("{}.{}", prefix.major, prefix.minor);
  header.data = size;
  return header;
}

Result<Slice> elements_of(const Header& header, const Slice& file) {
  const auto& [version, type, shape, fortran_order, data, nbytes] = header;
  if (type.has_objects) return failure(Code::unsupported, "pickled objects, which are never opened");
  if (data > file.size() || nbytes > file.size() - data)
    return failure(Code::corrupt, fmt::format("{} bytes of data needed, {} in the file", nbytes,
                                              file.size() - std::min(data, file.size())));
  const Slice stored = TRY(slice(file.whole(), file.offset() + data, nbytes));
  if (nbytes == 0 || (!fortran_order && type.swap == 0)) return stored;
  if (type.bytes > kMaxGathered)
    return failure(Code::unsupported, fmt::format("Fortran order of elements of {} bytes, at most {} are reordered",
                                                  type.bytes, kMaxGathered));
  const DType element{"", 1, static_cast<uint32_t>(type.bytes), "", false};
  return strided(stored, 0, element, shape, fortran_order ? fortran_strides(shape) : c_strides(shape),
                 {.swap = type.swap});
}

std::string_view array_name(std::string_view path) {
  if (path.ends_with(kSuffix)) path.remove_suffix(kSuffix.size());
  return path;
}

Result<Tensor> ArrayAdder::new_tensor(std::string_view name, size_t kept) {
  TRY_VOID(budget_.charge(Cost::tensor));
  TRY_VOID(budget_.charge(Cost::kept, name.size() + kept));
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = &kUnknownDType;
  return tensor;
}

Result<void> ArrayAdder::add(std::string_view name, const Header& header, const Slice& file) {
  constexpr size_t kNpyFile = 100;  // an entry of Model::npy_files
  Tensor tensor = TRY(new_tensor(name, kNpyFile + header.type.text.size() + 8 * header.shape.size()));
  tensor.dtype = header.type.dtype;
  tensor.stored_dtype = spellings_.add(header.type.text);
  tensor.shape = header.shape;
  auto elements = elements_of(header, file);
  if (elements && header.fortran_order) {
    if (const auto charged = charge_gathering(budget_, *elements, file); !charged)
      elements = tl::unexpected(charged.error());
  }
  if (!elements && !is_about_the_bytes(elements.error())) return tl::unexpected(elements.error());
  if (!elements) {
    warnings_.refuse(elements.error().code, "tensor {}: {}: refused", quoted(name), elements.error().message);
    model_.tensors.push_back(tensor);
    return {};
  }
  tensor.source = std::move(*elements);
  if (tensor.dtype == &kUnknownDType)
    model_.per_tensor.edit().npy_files.emplace(model_.tensors.size(),
                                               TRY(slice(file.whole(), file.offset(), header.data + header.nbytes)));
  model_.tensors.push_back(tensor);
  return {};
}

Result<void> ArrayAdder::add_refused(std::string_view name, std::string_view reason) {
  model_.tensors.push_back(TRY(new_tensor(name, 0)));
  warnings_.refuse(Code::corrupt, "tensor {}: {}: refused", quoted(name), reason);
  return {};
}

}  // namespace weightfs::numpy
