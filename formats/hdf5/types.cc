#include "formats/hdf5/types.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::hdf5 {
namespace {

constexpr int kMaxTypeDepth = 16;

// The maximum length of a type's name; the names of a compound's members may take any length.
constexpr size_t kMaxTypeName = 240;

// What begins every datatype.
struct TypeHead {
  uint64_t version;
  TypeClass type_class;
  uint64_t flags;  // 24 bits
  uint64_t size;

  bool big_endian() const { return (flags & 1) != 0; }
};

Result<TypeHead> read_head(Fields& fields) {
  const uint64_t first = TRY(fields.number(1));
  TypeHead head{first >> 4, static_cast<TypeClass>(first & 15), 0, 0};
  head.flags = TRY(fields.number(3));
  head.size = TRY(fields.number(4));
  if (head.version < 1 || head.version > 5)
    return failure(Code::unsupported, fmt::format("a datatype of version {}", head.version));
  return head;
}

void set_numbers(Type& type, const TypeHead& head, std::string_view dtype, std::string_view name) {
  type.dtype = dtype_named(dtype);
  if (head.big_endian() && head.size > 1) type.swap = static_cast<uint32_t>(head.size);
  type.name = fmt::format("{}{}", name, head.big_endian() ? "BE" : "LE");
}

Result<Type> read_integer(Fields& fields, const TypeHead& head) {
  Type type;
  const uint64_t offset = TRY(fields.number(2));
  const uint64_t precision = TRY(fields.number(2));
  const bool has_sign = (head.flags & 8) != 0;
  type.name = fmt::format("H5T_INTEGER of {} bits in {} bytes", precision, head.size);
  constexpr std::array<uint64_t, 4> kSizes = {1, 2, 4, 8};
  if (std::ranges::find(kSizes, head.size) != kSizes.end() && offset == 0 && precision == 8 * head.size)
    set_numbers(type, head, fmt::format("{}int{}", has_sign ? "" : "u", precision),
                fmt::format("H5T_STD_{}{}", has_sign ? 'I' : 'U', precision));
  return type;
}

// The places of a floating-point number's fields, in bits.
struct FloatLayout {
  uint64_t size, exponent_at, exponent, mantissa_at, mantissa, bias;
  bool operator==(const FloatLayout&) const = default;
};

struct FloatRow {
  FloatLayout layout;
  std::string_view dtype, name;
};

constexpr std::array kFloats = {
    FloatRow{{2, 10, 5, 0, 10, 15}, "float16", "H5T_IEEE_F16"},
    FloatRow{{4, 23, 8, 0, 23, 127}, "float32", "H5T_IEEE_F32"},
    FloatRow{{8, 52, 11, 0, 52, 1023}, "float64", "H5T_IEEE_F64"},
    FloatRow{{2, 7, 8, 0, 7, 127}, "bfloat16", "H5T_FLOAT_BFLOAT16"},
};

Result<Type> read_floating(Fields& fields, const TypeHead& head) {
  constexpr uint64_t kVax = 0x40, kImpliedBit = 2;
  Type type;
  const uint64_t offset = TRY(fields.number(2));
  const uint64_t precision = TRY(fields.number(2));
  FloatLayout layout{};
  layout.size = head.size;
  for (uint64_t* field : {&layout.exponent_at, &layout.exponent, &layout.mantissa_at, &layout.mantissa})
    *field = TRY(fields.number(1));
  layout.bias = TRY(fields.number(4));
  type.name = fmt::format("H5T_FLOAT of {} bits in {} bytes", precision, head.size);
  const auto row = std::ranges::find(kFloats, layout, &FloatRow::layout);
  const bool plain = offset == 0 && precision == 8 * head.size && (head.flags & kVax) == 0 &&
                     (head.flags >> 4 & 3) == kImpliedBit && (head.flags >> 8 & 0xFF) == precision - 1;
  if (row != kFloats.end() && plain) set_numbers(type, head, row->dtype, row->name);
  return type;
}

// h5py reads bit fields as integers of their size.
Result<Type> read_bits(Fields& fields, const TypeHead& head) {
  Type type;
  const uint64_t offset = TRY(fields.number(2));
  const uint64_t precision = TRY(fields.number(2));
  type.name = fmt::format("H5T_BITFIELD of {} bits in {} bytes", precision, head.size);
  const bool is_whole = offset == 0 && precision == 8 * head.size;
  if (head.size == 1 || head.size == 2 || head.size == 4 || head.size == 8)
    set_numbers(type, head, fmt::format("uint{}", 8 * head.size),
                is_whole ? fmt::format("H5T_STD_B{}", 8 * head.size) : type.name + " ");
  return type;
}

Type text_type(const TypeHead& head) {
  Type type;
  type.is_text = true;
  type.padding = static_cast<Padding>(head.flags & 15);
  type.name = fmt::format("H5T_STRING of {} bytes", head.size);
  return type;
}

Result<Type> read(Fields& fields, int depth);

// The name of a member of a compound or an enumeration.
Result<std::string_view> read_name(Fields& fields, const TypeHead& head) {
  const uint64_t begin = fields.position();
  const auto name = TRY(fields.terminated());
  if (head.version < 3) TRY_VOID(fields.skip((8 - (fields.position() - begin) % 8) % 8));
  return name;
}

struct Member {
  std::string_view name;
  uint64_t offset;
  Type type;
};

Result<Member> read_member(Fields& fields, const TypeHead& head, int depth) {
  Member member{TRY(read_name(fields, head)), 0, {}};
  member.offset = TRY(fields.number(head.version < 3 ? 4 : bytes_for(head.size)));
  if (head.version == 1) TRY_VOID(fields.skip(28));
  member.type = TRY(read(fields, depth));
  return member;
}

// Two equal floating-point numbers are complex numbers, as h5py, PyTables and Julia write them.
void detect_complex(Type& type, const TypeHead& head, const std::vector<Member>& members) {
  if (members.size() != 2) return;
  const Member &real = members[0], &imaginary = members[1];
  const auto has_name = [](const Member& member, std::string_view first) { return member.name.starts_with(first); };
  const bool named = (has_name(real, "r") && has_name(imaginary, "i")) || (real.name == "0" && imaginary.name == "1");
  const std::string_view number = real.type.dtype->name;
  if (!named || real.type.name != imaginary.type.name || (number != "float32" && number != "float64")) return;
  if (real.offset != 0 || imaginary.offset != real.type.size || head.size != 2 * real.type.size) return;
  type.dtype = dtype_named(number == "float32" ? "complex64" : "complex128");
  type.swap = real.type.swap;
}

Result<Type> read_compound(Fields& fields, const TypeHead& head, int depth) {
  Type type;
  std::vector<Member> members;
  for (uint64_t left = head.flags & 0xFFFF; left > 0; --left) {
    members.push_back(TRY(read_member(fields, head, depth)));
    const Member& member = members.back();
    type.points_elsewhere |= member.type.points_elsewhere;
    if (type.name.size() < kMaxTypeName)
      type.name += fmt::format("{}{}: {}", type.name.empty() ? "" : ", ", printable(member.name), member.type.name);
  }
  if (type.name.size() > kMaxTypeName) type.name = type.name.substr(0, kMaxTypeName) + "...";
  type.name = fmt::format("H5T_COMPOUND {{{}}}", printable(type.name));
  detect_complex(type, head, members);
  return type;
}

// h5py stores bool as an enumeration of FALSE and TRUE.
Result<Type> read_enumeration(Fields& fields, const TypeHead& head, int depth) {
  Type type = TRY(read(fields, depth));
  const uint64_t count = head.flags & 0xFFFF;
  std::vector<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) names.push_back(TRY(read_name(fields, head)));
  const auto values = TRY(fields.text(count * type.size));
  type.name = fmt::format("H5T_ENUM of {}", type.name);
  const bool is_bool = names.size() == 2 && names[0] == "FALSE" && names[1] == "TRUE";
  if (is_bool && values == std::string_view("\0\1", 2)) type.dtype = dtype_named("bool");
  return type;
}

Result<Type> read_variable(Fields& fields, const TypeHead& head, int depth) {
  Type base = TRY(read(fields, depth));
  Type type;
  type.is_text = (head.flags & 15) == 1;
  type.points_elsewhere = true;
  type.name = type.is_text ? "H5T_STRING of variable length" : fmt::format("H5T_VLEN of {}", base.name);
  return type;
}

Result<Type> read_array(Fields& fields, const TypeHead& head, int depth) {
  const uint64_t rank = TRY(fields.number(1));
  if (rank > kMaxRank) return failure(Code::corrupt, fmt::format("an array of rank {}, at most {}", rank, kMaxRank));
  if (head.version < 3) TRY_VOID(fields.skip(3));
  Shape dimensions;
  for (uint64_t i = 0; i < rank; ++i) dimensions.push_back(TRY(fields.number(4)));
  if (head.version < 3) TRY_VOID(fields.skip(4 * rank));
  Type type = TRY(read(fields, depth));
  const uint64_t size = elements_of(dimensions, type.size).value_or(0);
  if (size != head.size) return failure(Code::corrupt, fmt::format("an array of {} bytes, not {}", head.size, size));
  type.dimensions.insert(type.dimensions.begin(), dimensions.begin(), dimensions.end());
  type.name = fmt::format("H5T_ARRAY of {}", type.name);
  return type;
}

Result<Type> read_complex(Fields& fields, int depth) {
  Type type = TRY(read(fields, depth));
  const std::string_view number = type.dtype->name;
  type.dtype = number == "float32"   ? dtype_named("complex64")
               : number == "float64" ? dtype_named("complex128")
                                     : &kUnknownDType;
  type.name = fmt::format("H5T_COMPLEX of {}", type.name);
  return type;
}

Result<Type> read_of_class(Fields& fields, const TypeHead& head, int depth) {
  switch (head.type_class) {
    case TypeClass::integer:
      return read_integer(fields, head);
    case TypeClass::floating:
      return read_floating(fields, head);
    case TypeClass::bits:
      return read_bits(fields, head);
    case TypeClass::string:
      return text_type(head);
    case TypeClass::compound:
      return read_compound(fields, head, depth);
    case TypeClass::enumeration:
      return read_enumeration(fields, head, depth);
    case TypeClass::variable:
      return read_variable(fields, head, depth);
    case TypeClass::array:
      return read_array(fields, head, depth);
    case TypeClass::complex:
      return read_complex(fields, depth);
    default:
      break;
  }
  Type type;
  type.points_elsewhere = head.type_class == TypeClass::reference;
  // Their fields matter only where another type follows.
  if (head.type_class == TypeClass::opaque) TRY_VOID(fields.skip(head.flags & 0xFF));
  if (head.type_class == TypeClass::time) TRY_VOID(fields.skip(2));
  type.name = head.type_class == TypeClass::reference ? "H5T_REFERENCE"
              : head.type_class == TypeClass::opaque  ? fmt::format("H5T_OPAQUE of {} bytes", head.size)
                                                      : fmt::format("datatype of class {}", int(head.type_class));
  return type;
}

Result<Type> read(Fields& fields, int depth) {
  if (depth > kMaxTypeDepth) return failure(Code::unsupported, "datatypes nested too deep");
  const TypeHead head = TRY(read_head(fields));
  Type type = TRY(read_of_class(fields, head, depth + 1));
  type.type_class = head.type_class;
  type.size = head.size;
  if (head.type_class != TypeClass::array) type.value_size = head.size;
  return type;
}

}  // namespace

Result<Type> read_type(Fields& fields) { return read(fields, 0); }

const DType* opaque_dtype(const Type& type, std::string_view attribute) {
  const DType* const dtype = dtype_named(attribute);
  return type.type_class == TypeClass::opaque && dtype != nullptr && dtype->block == 1 &&
                 dtype->block_bytes == type.size
             ? dtype
             : nullptr;
}

}  // namespace weightfs::hdf5
