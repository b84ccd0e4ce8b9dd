#include "formats/python/wrapped.h"

namespace weightfs::python {
namespace {

using pickle::Index;
using pickle::Kind;
using pickle::kNoValue;
using pickle::Meaning;
using pickle::Pickle;

bool is_array(const Pickle& pickle, Index value) {
  if (pickle.kind(value) != Kind::call) return false;
  const std::string function = numpy::numpy_name(pickle.global(pickle.call(value).callable));
  return function == "numpy.core.multiarray._reconstruct" || function == "numpy.core.numeric._frombuffer";
}

// tuple((name, array)): a Tensor of Paddle.
Index array_of_tuple(const Pickle& pickle, const pickle::Call& call) {
  if (pickle::in_python_3(pickle.global(call.callable)) != "builtins.tuple") return kNoValue;
  const std::vector<Index> arguments = pickle.items(call.arguments, 2);
  const std::vector<Index> pair = arguments.size() == 1 ? pickle.items(arguments[0], 3) : std::vector<Index>();
  const bool is_tensor = pair.size() == 2 && pickle.kind(pair[0]) == Kind::text && is_array(pickle, pair[1]);
  return is_tensor ? pair[1] : kNoValue;
}

}  // namespace

Index array_of_eval(const Pickle& pickle, Index call) {
  if (pickle.kind(call) != Kind::call) return kNoValue;
  const std::vector<Index> arguments = pickle.items(pickle.call(call).arguments, 3);
  if (arguments.size() != 2 || pickle.text(arguments[0]) != "data" || pickle.kind(arguments[1]) != Kind::dict)
    return kNoValue;
  const std::vector<Index> items = pickle.items(arguments[1], 3);
  const bool is_tensor = items.size() == 2 && pickle.text(items[0]) == "data" && is_array(pickle, items[1]);
  return is_tensor ? items[1] : kNoValue;
}

Result<std::optional<Meaning>> WrappedArrays::meaning(const std::string& name, Index value) {
  if (pickle_.kind(value) != Kind::call) return std::nullopt;
  const pickle::Call call = pickle_.call(value);
  const auto same_as = [](Index array) { return Meaning{.kind = Meaning::Kind::other, .index = array}; };
  if (const Index array = array_of_tuple(pickle_, call); array != kNoValue) return same_as(array);
  const std::string function = pickle::in_python_3(pickle_.global(call.callable));
  if (function == "builtins.eval")
    if (const Index array = array_of_eval(pickle_, value); array != kNoValue) return same_as(array);
  // The function of NumPy, its arguments, the array's state, whether its type is weak.
  if (function == "jax._src.array._reconstruct_array" || function == "jax.interpreters.xla._reconstruct_device_array" ||
      function == "jax._src.device_array.reconstruct_device_array") {
    const std::vector<Index> arguments = pickle_.items(call.arguments, 4);
    if (arguments.size() > 2)
      return arrays_.add_state(name, arguments[2]).map([](Meaning meaning) {
        return std::optional(std::move(meaning));
      });
  }
  return std::nullopt;
}

}  // namespace weightfs::python
