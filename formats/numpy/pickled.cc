#include "formats/numpy/pickled.h"

#include <fmt/core.h>

#include <bit>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/common/strided.h"
#include "formats/float32.h"
#include "formats/numpy/array.h"
#include "formats/numpy/npy_header.h"

namespace weightfs::numpy {
namespace {

using pickle::Index;
using pickle::Kind;
using pickle::kNoValue;
using pickle::Meaning;

// The memory of a type.
constexpr uint64_t kType = 1024;

// The maximum size of an element of a field that is a tensor.
constexpr uint64_t kMaxWidth = 1024;

// The size of the widest number that is shown as a value.
constexpr uint64_t kMaxNumber = 8;

// The value of a number that is stored in these bytes, in its own byte order; nothing for other types.
std::optional<Value> value_of(const ElementType& type, std::string bytes) {
  if (bytes.size() != type.bytes || bytes.empty()) return std::nullopt;
  if (type.swap > 1) std::reverse(bytes.begin(), bytes.end());
  const uint64_t bits = little_endian(bytes);
  const std::string_view name = type.dtype->name;
  const auto width = static_cast<int>(8 * bytes.size());
  if (name == "bool") return Value(bits != 0);
  if (name.starts_with("uint")) return Value(bits);
  if (name.starts_with("int")) return Value(static_cast<int64_t>(bits << (64 - width)) >> (64 - width));
  if (name == "float64") return Value(std::bit_cast<double>(bits));
  if (name == "float32") return Value(double{std::bit_cast<float>(static_cast<uint32_t>(bits))});
  return std::nullopt;
}

// The bytes of a field of all records, one after another. A field may begin at any byte of its record.
Result<Slice> bytes_of_field(const Slice& records, const PickledType& type, const Field& field, Shape shape,
                             bool fortran_order) {
  Strides strides = fortran_order ? fortran_strides(shape) : c_strides(shape);
  for (uint64_t& stride : strides) stride *= type.type.bytes;
  shape.push_back(TRY(pickled_size(field.shape, field.type.bytes)));
  strides.push_back(1);
  return strided(records, field.offset, DType{"", 1, 1, "", false}, shape, strides);
}

}  // namespace

Result<std::optional<Meaning>> PickledArrays::meaning(const std::string& name, Index value) {
  if (pickle_.kind(value) != Kind::call) return std::nullopt;
  const pickle::Call call = pickle_.call(value);
  const std::string function = numpy_name(pickle_.global(call.callable));
  const auto found = [](Meaning meaning) { return std::optional(std::move(meaning)); };
  if (!function.starts_with("numpy.")) return std::nullopt;
  if (function == "numpy.core.multiarray._reconstruct" || function == "numpy.ma.core._mareconstruct") {
    if (call.state == kNoValue)
      return refuse(name, {Code::corrupt, "an array without a state, whose memory NumPy leaves as it is"}).map(found);
    if (function == "numpy.ma.core._mareconstruct") TRY_VOID(add_mask(name, call.state));
    return add_state(name, call.state).map(found);
  }
  if (function == "numpy.core.numeric._frombuffer") {
    const std::vector<Index> arguments = pickle_.items(call.arguments, 4);
    if (arguments.size() != 4) return refuse(name, {Code::corrupt, "_frombuffer without four arguments"}).map(found);
    const std::string_view order = pickle_.text(arguments[3]);
    if (order != "C" && order != "F") return refuse(name, {Code::corrupt, "an order that is not C or F"}).map(found);
    return add(name, {arguments[1], arguments[2], order == "F", arguments[0]}).map(found);
  }
  if (is_type(pickle_, value)) {
    const auto type = type_of(value);
    if (!type && !is_about_the_bytes(type.error())) return tl::unexpected(type.error());
    return Meaning{.kind = Meaning::Kind::value, .value = type ? Value((*type)->type.text) : Value()};
  }
  if (auto known = TRY(number(value))) return Meaning{.kind = Meaning::Kind::value, .value = std::move(*known)};
  return std::nullopt;
}

std::optional<std::string> PickledArrays::key(Index value) {
  const auto found = number(value);
  if (!found || !*found) return std::nullopt;
  const std::optional<Value>& known = *found;
  if (const auto* const text = std::get_if<std::string>(&*known)) return *text;
  if (const auto* const real = std::get_if<double>(&*known)) return fmt::format("{}", *real);
  if (const auto* const flag = std::get_if<bool>(&*known)) return *flag ? "True" : "False";
  if (const auto* const whole = std::get_if<uint64_t>(&*known)) return std::to_string(*whole);
  return std::to_string(std::get<int64_t>(*known));
}

// numpy.core.multiarray.scalar(type, bytes)
Result<std::optional<Value>> PickledArrays::number(Index value) {
  if (pickle_.kind(value) != Kind::call) return std::nullopt;
  const pickle::Call call = pickle_.call(value);
  if (numpy_name(pickle_.global(call.callable)) != "numpy.core.multiarray.scalar") return std::nullopt;
  const std::vector<Index> arguments = pickle_.items(call.arguments, 2);
  if (arguments.size() != 2) return std::nullopt;
  const auto found = type_of(arguments[0]);
  if (!found && !is_about_the_bytes(found.error())) return tl::unexpected(found.error());
  if (!found) return std::nullopt;
  const ElementType& type = (*found)->type;
  const auto bytes = type.bytes <= kMaxNumber ? pickle::kept_bytes(pickle_, arguments[1], kMaxNumber) : std::nullopt;
  if (auto known = bytes ? value_of(type, *bytes) : std::nullopt) return known;
  return Value(fmt::format("({} of {} bytes)", type.text, type.bytes));
}

// Arrays share their types.
Result<const PickledType*> PickledArrays::type_of(Index value) {
  if (const auto known = types_.find(value); known != types_.end()) return &known->second;
  PickledType type = TRY(pickled_type(pickle_, value, *file_.budget));
  TRY_VOID(out_.charges.charge(Cost::kept, kType + type.fields.size() * kType));
  return &types_.emplace(value, std::move(type)).first->second;
}

Result<Meaning> PickledArrays::add_state(const std::string& name, Index state) {
  const std::vector<Index> items = pickle_.items(state, 8);
  const bool has_version = items.size() != 4;
  if (items.size() < 4 || pickle_.kind(state) != Kind::tuple)
    return refuse(name, {Code::corrupt, "an array with a state of another form"});
  const size_t at = has_version ? 1 : 0;
  const bool fortran_order = pickle_.integer(items[at + 2]).value_or(0) != 0;
  return add(name, {items[at + 1], items[at], fortran_order, items[at + 3]});
}

// (version, shape, type, is Fortran order, data, mask, fill value): the mask has a byte for each element.
Result<void> PickledArrays::add_mask(const std::string& name, Index state) {
  const std::vector<Index> items = pickle_.items(state, 6);
  if (items.size() != 6) return refuse(name + ".mask", {Code::corrupt, "no mask"}).map([](const Meaning&) {});
  const auto add = [&]() -> Result<Tensor> {
    const ElementType type{.dtype = dtype_named("bool"), .bytes = 1, .text = "|b1"};
    Shape shape = TRY(pickled_shape(pickle_, items[1]));
    Tensor mask = TRY(new_tensor(name + ".mask", type, std::move(shape)));
    const uint64_t size = TRY(pickled_size(mask.shape, 1));
    const Slice data = TRY(pickle::bytes_of(pickle_, items[5], file_, size));
    const bool fortran_order = pickle_.integer(items[3]).value_or(0) != 0;
    mask.source = TRY(elements_of({"", type, mask.shape, fortran_order, 0, size}, data));
    TRY_VOID(charge_gathering(out_.charges, mask.source, data));
    return mask;
  };
  const auto mask = add();
  if (!mask && !is_about_the_bytes(mask.error())) return tl::unexpected(mask.error());
  if (!mask) return refuse(name + ".mask", mask.error()).map([](const Meaning&) {});
  out_.tensors.push_back(*mask);
  return {};
}

Result<Meaning> PickledArrays::add(const std::string& name, const PickledArray& array) {
  auto found = read(name, array);
  if (!found && !is_about_the_bytes(found.error())) return tl::unexpected(found.error());
  if (!found) return refuse(name, found.error());
  return found->value_or(Meaning{});
}

// A meaning of its own for arrays of objects.
Result<std::optional<Meaning>> PickledArrays::read(const std::string& name, const PickledArray& array) {
  const PickledType& type = *TRY(type_of(array.type));
  const Shape shape = TRY(pickled_shape(pickle_, array.shape));
  const uint64_t count = TRY(pickled_size(shape, 1));
  if (type.type.has_objects) {
    if (type.type.text.find('[') != std::string::npos) return failure(Code::unsupported, "a structure of objects");
    if (pickle_.kind(array.data) != Kind::list && pickle_.kind(array.data) != Kind::tuple)
      return failure(Code::corrupt, "its objects are not a list");
    if (pickle_.item_count(array.data) != count)
      return failure(Code::corrupt, fmt::format("{} objects in a list of {}", count, pickle_.item_count(array.data)));
    return Meaning{.kind = Meaning::Kind::elements, .index = array.data, .shape = shape};
  }
  const uint64_t size = TRY(pickled_size(shape, type.type.bytes));
  const Slice data = TRY(pickle::bytes_of(pickle_, array.data, file_, size));
  Tensor tensor = TRY(new_tensor(name, type.type, shape));
  const bool is_vector = std::ranges::count_if(shape, [](uint64_t axis) { return axis != 1; }) < 2;
  const bool fortran_order = array.fortran_order && !is_vector;
  tensor.source = TRY(elements_of({"", type.type, shape, fortran_order, 0, size}, data));
  TRY_VOID(charge_gathering(out_.charges, tensor.source, data));
  TRY_VOID(add_tensor(tensor));
  if (!type.fields.empty()) TRY_VOID(add_fields(name, data, type, shape, fortran_order));
  return std::nullopt;
}

Result<Tensor> PickledArrays::new_tensor(const std::string& name, const ElementType& type, Shape shape) {
  TRY_VOID(out_.charges.charge(Cost::tensor));
  TRY_VOID(out_.charges.charge(Cost::kept, name.size() + type.text.size() + sizeof(uint64_t) * shape.size()));
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = type.dtype;
  tensor.stored_dtype = spellings_.add(type.text);
  tensor.shape = std::move(shape);
  return tensor;
}

Result<void> PickledArrays::add_tensor(const Tensor& tensor) {
  constexpr size_t kLongestType = 1000;  // a longer one may be cut
  constexpr size_t kNpyFile = 400;       // an entry of Contents::npy_files, its sources
  const std::string_view type = tensor.stored_dtype;
  const bool has_file = tensor.dtype == &kUnknownDType && type.size() <= kLongestType && is_utf8(type) &&
                        tensor.shape.size() <= kMaxNpyDimensions;
  if (has_file) {
    // A structure is a list, any other type a text.
    std::string header =
        npy_header(type.starts_with('[') ? std::string(type) : fmt::format("'{}'", type), tensor.shape);
    TRY_VOID(out_.charges.charge(Cost::kept, kNpyFile + header.size()));
    const SourcePtr file = concat({in_memory(std::move(header)), std::make_shared<Slice>(tensor.source)});
    out_.npy_files.emplace(out_.tensors.size(), TRY(slice(file, 0, file->size())));
  }
  out_.tensors.push_back(tensor);
  return {};
}

Result<Meaning> PickledArrays::refuse(const std::string& name, const Error& reason) {
  out_.tensors.push_back(TRY(new_tensor(name, ElementType{.text = "unknown"}, {})));
  out_.warnings.refuse(reason.code, "tensor {}: {}", quoted(name), reason.message);
  return Meaning{};
}

// A tensor for each field. Its elements are gathered from the records.
Result<void> PickledArrays::add_fields(const std::string& name, const Slice& records, const PickledType& type,
                                       const Shape& shape, bool fortran_order) {
  for (const Field& field : type.fields) {
    const uint64_t width = field.type.bytes;
    if (field.type.has_objects || width == 0 || width > kMaxWidth) continue;
    if (TRY(pickled_size(field.shape, 1)) == 0) continue;
    Shape all = shape;
    all.insert(all.end(), field.shape.begin(), field.shape.end());
    Tensor tensor = TRY(new_tensor(fmt::format("{}.{}", name, field.name), field.type, all));
    tensor.source = TRY(bytes_of_field(records, type, field, shape, fortran_order));
    TRY_VOID(charge_gathering(out_.charges, tensor.source, records));
    if (field.type.swap > 1) {
      const DType element{"", 1, static_cast<uint32_t>(width), "", false};
      tensor.source = TRY(strided(tensor.source, 0, element, all, c_strides(all), {.swap = field.type.swap}));
      TRY_VOID(charge_gathering(out_.charges, tensor.source, records));
    }
    TRY_VOID(add_tensor(tensor));
  }
  return {};
}

}  // namespace weightfs::numpy
