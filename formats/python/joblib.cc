#include "formats/python/joblib.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/common/strided.h"
#include "formats/grouped.h"
#include "formats/numpy/array.h"
#include "formats/python/compression.h"

namespace weightfs::python {
namespace {

using pickle::Index;
using pickle::Kind;
using pickle::kNoValue;
using pickle::Meaning;
using pickle::Pickle;

constexpr std::string_view kWrapper = "joblib.numpy_pickle.NumpyArrayWrapper";

// The value of an attribute; kNoValue if there is none.
Index attribute(const Pickle& pickle, Index state, std::string_view name) {
  constexpr size_t kMost = 32;
  return pickle.value_of(state, name, kMost);
}

}  // namespace

std::string class_of(const Pickle& pickle, Index object) {
  if (pickle.kind(object) != Kind::call) return {};
  const pickle::Call call = pickle.call(object);
  std::string name = pickle::in_python_3(pickle.global(call.callable));
  if (name == "copyreg._reconstructor" || name == "copyreg.__newobj__") {
    const std::vector<Index> arguments = pickle.items(call.arguments, 1);
    name = arguments.empty() ? std::string() : std::string(pickle.global(arguments[0]));
  }
  constexpr std::string_view kOldPlace = "sklearn.externals.";
  return name.starts_with(kOldPlace) ? name.substr(kOldPlace.size()) : name;
}

Result<std::optional<pickle::Inline>> JoblibBytes::after(const Pickle& pickle, Index object) const {
  if (class_of(pickle, object) != kWrapper) return std::nullopt;
  const Index state = pickle.call(object).state;
  // With a second state the array itself would get it.
  if (pickle.kind(state) != Kind::dict) return std::nullopt;
  const Index dtype = attribute(pickle, state, "dtype");
  if (dtype == kNoValue) return failure(Code::corrupt, "an array of joblib without a dtype");
  auto known = types_.find(dtype);
  if (known == types_.end()) {
    constexpr uint64_t kType = 256;
    const numpy::PickledType type = TRY(numpy::pickled_type(pickle, dtype, budget_));
    TRY_VOID(budget_.charge(Cost::kept, kType));
    known = types_.emplace(dtype, type.type).first;
  }
  if (known->second.has_objects) return pickle::Inline{.is_pickle = true};
  const Index alignment = attribute(pickle, state, "numpy_array_alignment_bytes");
  const Index axes = attribute(pickle, state, "shape");
  if (axes == kNoValue) return failure(Code::corrupt, "an array of joblib without a shape");
  const Shape shape = TRY(numpy::pickled_shape(pickle, axes));
  const uint64_t size = TRY(numpy::pickled_size(shape, known->second.bytes));
  return pickle::Inline{.has_padding = alignment != kNoValue && pickle.kind(alignment) != Kind::none, .size = size};
}

Result<std::optional<Meaning>> JoblibArrays::meaning(const std::string& name, Index value) {
  const std::string type = class_of(pickle_, value);
  if (!type.starts_with("joblib.numpy_pickle")) return std::nullopt;
  const std::string_view word = std::string_view(type).substr(type.rfind('.') + 1);
  const Index state = pickle_.call(value).state;
  const auto found = [](Meaning meaning) { return std::optional(std::move(meaning)); };
  if (word == "NDArrayWrapper" || word == "ZNDArrayWrapper")
    return add_companion(name, state, word == "ZNDArrayWrapper").map(found);
  if (type != kWrapper || state == kNoValue) return std::nullopt;
  const std::vector<Index> both = pickle_.kind(state) == Kind::tuple ? pickle_.items(state, 2) : std::vector<Index>();
  if (both.size() != 2 || pickle_.kind(both[0]) != Kind::dict)
    return arrays_.refuse(name, {Code::corrupt, "an array of joblib that got two states"}).map(found);
  const auto [attributes, data] = std::pair(both[0], both[1]);
  if (pickle_.kind(data) != Kind::bytes) return Meaning{.kind = Meaning::Kind::other, .index = data};
  const Index order = attribute(pickle_, attributes, "order");
  const bool fortran_order = order != kNoValue && pickle_.text(order) == "F";
  const numpy::PickledArray array{attribute(pickle_, attributes, "dtype"), attribute(pickle_, attributes, "shape"),
                                  fortran_order, data};
  return arrays_.add(name, array).map(found);
}

// The array in another file of the directory. joblib itself follows any path.
Result<Meaning> JoblibArrays::add_companion(const std::string& name, Index state, bool is_compressed) {
  const Index file_name = state == kNoValue ? kNoValue : attribute(pickle_, state, "filename");
  const std::string file(file_name == kNoValue ? "" : pickle_.text(file_name));
  const auto read = [&]() -> Result<void> {
    if (file.empty() || file.find('/') != file.npos || file == "." || file == ".." || file == container_.name)
      return failure(Code::corrupt, fmt::format("its file {} is not another file of the directory", quoted(file)));
    if (container_.folder == nullptr)
      return failure(Code::not_found, fmt::format("its file {} is not here", quoted(file)));
    const SourcePtr bytes = TRY(open_below(container_, file));
    TRY_VOID(is_compressed ? add_compressed(name, bytes, state) : add_npy(name, bytes));
    companions_.push_back({file, Later<SourcePtr>::of(bytes)});
    return {};
  };
  const auto added = read();
  if (!added && !is_about_the_bytes(added.error()) && is_fatal(container_, added.error()))
    return tl::unexpected(added.error());
  return added ? Meaning{} : arrays_.refuse(name, added.error());
}

Result<void> JoblibArrays::add_npy(const std::string& name, const SourcePtr& file) {
  const Slice all = TRY(slice(file, 0, file->size()));
  const auto head = [&](size_t most) -> Result<std::string> {
    const uint64_t size = std::min<uint64_t>(most, all.size());
    TRY_VOID(out_.charges.charge(Cost::input, size));
    return read_text(all, 0, size);
  };
  std::string first = TRY(head(numpy::kUsualHeaderSize));
  const numpy::Header header = TRY(numpy::read_header(std::move(first), head, *container_.budget));
  if (header.type.has_objects) {
    const pickle::File around{file, container_.blobs, container_.budget, container_.depth};
    return numpy::add_objects(name, file, header.data, around, out_);
  }
  Tensor tensor = TRY(arrays_.new_tensor(name, header.type, header.shape));
  tensor.source = TRY(numpy::elements_of(header, all));
  TRY_VOID(charge_gathering(out_.charges, tensor.source, all));
  return arrays_.add_tensor(tensor);
}

// The file has the bytes of the array, which the state describes: {filename, init_args, state: (version, shape, dtype,
// Fortran order)}.
Result<void> JoblibArrays::add_compressed(const std::string& name, const SourcePtr& file, Index state) {
  const Index inner = attribute(pickle_, state, "state");
  const std::vector<Index> items = inner == kNoValue ? std::vector<Index>() : pickle_.items(inner, 5);
  if (items.size() != 4) return failure(Code::corrupt, "an array in a file without a state");
  const numpy::PickledType type = TRY(numpy::pickled_type(pickle_, items[2], *container_.budget));
  if (type.type.has_objects) return failure(Code::unsupported, "an array of objects in a file of its own");
  const Shape shape = TRY(numpy::pickled_shape(pickle_, items[1]));
  const uint64_t size = TRY(numpy::pickled_size(shape, type.type.bytes));
  const std::string head = TRY(read_text(*file, 0, std::min<uint64_t>(file->size(), kHeadSize)));
  const auto compression = compression_of(head);
  if (!compression) return failure(Code::corrupt, "its file is not compressed");
  const SourcePtr bytes = TRY(decompressed(file, *compression, container_));
  if (bytes->size() != size)
    return failure(Code::corrupt, fmt::format("{} needed, its file has {}", counted_bytes(size), bytes->size()));
  Tensor tensor = TRY(arrays_.new_tensor(name, type.type, shape));
  const bool fortran_order = pickle_.integer(items[3]).value_or(0) != 0;
  const Slice all = TRY(slice(bytes, 0, size));
  tensor.source = TRY(numpy::elements_of({"", type.type, shape, fortran_order, 0, size}, all));
  TRY_VOID(charge_gathering(out_.charges, tensor.source, all));
  return arrays_.add_tensor(tensor);
}

}  // namespace weightfs::python
