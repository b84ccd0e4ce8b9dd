#include "formats/pickle/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/common/flat.h"
#include "formats/common/limits.h"
#include "formats/pickle/replaced_keys.h"

namespace weightfs::pickle {
namespace {

// The time of an object that libraries are asked about, besides that of a value.
constexpr uint64_t kObjectSteps = 3;

// The number of objects whose class is kept.
constexpr size_t kMaxClasses = 256;

// The number of values that are kept as metadata.
constexpr uint64_t kMaxMetadata = flat::kMaxMetadataValues;

// The name of a tensor that is the whole pickle.
constexpr std::string_view kBareTensor = "tensor";

// Attributes of a torch.nn.Module that its state_dict() leaves out of names.
constexpr std::array<std::string_view, 3> kModuleDicts = {"_parameters", "_buffers", "_modules"};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Types that are created from one dict, or from a list of pairs.
bool is_dict_type(std::string_view name) {
  return is_one_of(name, {"collections.OrderedDict", "collections.Counter", "builtins.dict"});
}

// Created from the function that makes its values, or from a maximum: nothing of it is shown.
bool is_filled_later(std::string_view name) {
  return is_one_of(name, {"collections.defaultdict", "collections.deque"});
}

// Types that are created from one list.
bool is_list_type(std::string_view name) {
  return is_one_of(name, {"torch.Size", "builtins.tuple", "builtins.list", "builtins.set", "builtins.frozenset"});
}

// Functions that create an object of the class that is their first argument (Lib/copyreg.py).
bool is_constructor(std::string_view name) {
  return is_one_of(name, {"copyreg._reconstructor", "copyreg.__newobj__", "copyreg.__newobj_ex__"});
}

// Whether it is what copyreg makes of an object with __slots__: its dict or None, and their dict.
bool has_slots(const Pickle& pickle, Index state) {
  const std::vector<Index> parts = pickle.items(state, 3);
  return pickle.kind(state) == Kind::tuple && parts.size() == 2 && pickle.kind(parts[1]) == Kind::dict &&
         (pickle.kind(parts[0]) == Kind::dict || pickle.kind(parts[0]) == Kind::none);
}

// The state of an object. That of a class of TorchScript outside of it, such as packed weights of torch.quantization,
// is a tuple with the name of the class: torch.ScriptObject in torch/csrc/jit/python/script_init.cpp.
Index state_of(const Pickle& pickle, const Call& call) {
  if (pickle.global(call.callable) != "torch.ScriptObject") return call.state;
  const std::vector<Index> parts = pickle.items(call.state, 3);
  return parts.size() == 2 && pickle.kind(parts[1]) == Kind::text ? parts[0] : call.state;
}

class Walker {
 public:
  Walker(const Pickle& pickle, std::span<Objects* const> libraries, Contents& out)
      : pickle_(pickle), libraries_(libraries), out_(out), on_path_(pickle.size()) {}

  Result<void> walk(const std::string& prefix);

 private:
  // What a value is in the metadata; nothing for a tensor, and for a container that has only tensors.
  using Kept = std::optional<Value>;

  Result<Kept> visit(Index value, int depth);
  Result<void> enter(std::string_view component);
  Result<Kept> visit_inside(Index value, int depth);
  Result<Kept> visit_list(Index value, int depth);
  Result<Kept> visit_object(Index value, int depth);
  Result<Kept> visit_meaning(Meaning meaning, int depth);
  Result<Kept> visit_elements(const Meaning& elements, int depth);
  Result<Kept> visit_persistent(Index value);
  Result<Kept> visit_call(const Call& call, int depth);
  Result<void> add_class(const Call& call, std::string_view type);
  Result<void> visit_arguments(const Call& call, const std::vector<Index>& arguments, int depth, Map& out);
  Result<void> visit_unknown_arguments(const Call& call, int depth, Map& out);
  Result<void> visit_state(Index state, int depth, Map& out);
  Result<void> add_items(Index dict, int depth, bool is_state, Map& out);
  Result<void> add_items(const std::vector<Index>& items, int depth, bool is_state, Map& out);
  Result<void> add_pairs(Index list, int depth, Map& out);
  Result<void> add_item(std::string key, Index value, int depth, bool is_named, Map& out);
  void leave_out(size_t first, std::string_view callable);
  Result<Kept> scalar(Index value);
  Result<Kept> kept(Value value, uint64_t bytes = 0);
  Result<Kept> kept(Map map, bool is_empty);
  std::string key_text(Index key, int depth = 0) const;
  std::string tensor_name(int depth) const { return depth == 0 && path_.empty() ? std::string(kBareTensor) : path_; }

  const Pickle& pickle_;
  std::span<Objects* const> libraries_;
  Contents& out_;
  std::vector<bool> on_path_;  // values that are being visited
  std::string path_;           // of the value that is being visited
  uint64_t metadata_ = 0;
};

Result<void> Walker::walk(const std::string& prefix) {
  path_ = prefix;
  Kept root = TRY(visit(pickle_.root(), 0));
  if (metadata_ > kMaxMetadata)
    out_.warnings.add("more than {} values that are not tensors; the others are left out of the metadata",
                      kMaxMetadata);
  if (!root) return {};
  Map* const map = prefix.empty() ? std::get_if<Map>(&*root) : nullptr;
  if (map != nullptr)
    out_.metadata = std::move(*map);
  else
    out_.metadata.append(prefix.empty() ? "object" : prefix, std::move(*root));
  return {};
}

Result<Walker::Kept> Walker::visit(Index value, int depth) {
  if (depth > kMaxValueDepth)
    return failure(Code::unsupported, fmt::format("pickle: values nested deeper than {}", kMaxValueDepth));
  TRY_VOID(out_.charges.charge(Cost::step));
  if (on_path_[value]) return kept("(contains itself)");
  on_path_[value] = true;
  auto found = visit_inside(value, depth);
  on_path_[value] = false;
  return found;
}

Result<Walker::Kept> Walker::visit_inside(Index value, int depth) {
  switch (pickle_.kind(value)) {
    case Kind::list:
    case Kind::tuple:
    case Kind::set:
      return visit_list(value, depth);
    case Kind::dict: {
      Map map;
      TRY_VOID(add_items(value, depth, false, map));
      return kept(std::move(map), pickle_.item_count(value) == 0);
    }
    case Kind::call:
    case Kind::persistent:
      return visit_object(value, depth);
    default:
      return scalar(value);
  }
}

Result<Walker::Kept> Walker::kept(Value value, uint64_t bytes) {
  if (metadata_++ >= kMaxMetadata) return Kept();
  TRY_VOID(out_.charges.charge(Cost::value));
  TRY_VOID(out_.charges.charge(Cost::kept, bytes));
  return Kept(std::move(value));
}

// A dict that has only tensors is not kept, unlike an empty one.
Result<Walker::Kept> Walker::kept(Map map, bool is_empty) {
  if (map.empty() && !is_empty) return Kept();
  map.keep_last_of_each_key();
  return kept(Value(std::move(map)));
}

Result<Walker::Kept> Walker::scalar(Index value) {
  const std::string_view text = pickle_.text(value);
  switch (pickle_.kind(value)) {
    case Kind::boolean:
      return kept(pickle_.integer(value) != 0);
    case Kind::integer:
      return kept(*pickle_.integer(value));
    case Kind::real:
      return kept(pickle_.real(value));
    case Kind::big_integer:
      return kept(text, text.size());
    case Kind::text:
    case Kind::bytes:
    case Kind::byte_array:
      if (text.size() != pickle_.length(value) || (!is_utf8(text)))
        return kept(fmt::format("({} bytes)", pickle_.length(value)));
      return kept(text, text.size());
    case Kind::global:
      return kept(pickle_.global(value), pickle_.global(value).size());
    default:
      return kept(nullptr);
  }
}

// Items that are no tensors, as a list; as a map of their indices if some are.
Result<Walker::Kept> Walker::visit_list(Index value, int depth) {
  std::vector<std::pair<size_t, Value>> others;
  const std::vector<Index> items = pickle_.items(value);
  for (size_t i = 0; i < items.size(); ++i) {
    const size_t path = path_.size();
    TRY_VOID(enter(std::to_string(i)));
    auto found = TRY(visit(items[i], depth + 1));
    path_.resize(path);
    if (found) others.emplace_back(i, std::move(*found));
  }
  if (others.size() == items.size()) {
    List list;
    list.reserve(others.size());
    for (auto& [i, found] : others) list.push_back(std::move(found));
    return kept(std::move(list));
  }
  Map map;
  TRY_VOID(out_.charges.charge(Cost::value, others.size()));
  for (auto& [i, found] : others) map.append(std::to_string(i), std::move(found));
  return kept(std::move(map), false);
}

// Appends a component to the path.
Result<void> Walker::enter(std::string_view component) {
  TRY_VOID(out_.charges.charge(Cost::input, component.size()));
  if (component.size() > kMaxNameLength - std::min(path_.size(), kMaxNameLength))
    return failure(Code::unsupported, fmt::format("pickle: a name of more than {} bytes", kMaxNameLength));
  if (!path_.empty()) path_ += '.';
  path_ += component;
  return {};
}

Result<void> Walker::add_item(std::string key, Index value, int depth, bool is_named, Map& out) {
  const size_t path = path_.size();
  if (is_named) TRY_VOID(enter(key));
  auto found = TRY(visit(value, depth + 1));
  path_.resize(path);
  if (!found) return {};
  TRY_VOID(out_.charges.charge(Cost::value));
  TRY_VOID(out_.charges.charge(Cost::kept, key.size()));
  out.append(std::move(key), std::move(*found));
  return {};
}

Result<void> Walker::add_items(Index dict, int depth, bool is_state, Map& out) {
  // The items and their keys, as long as they are compared.
  constexpr uint64_t kItem = 64;
  Charges temporary(out_.budget);
  TRY_VOID(temporary.charge(Cost::kept, kItem * pickle_.item_count(dict)));
  return add_items(pickle_.items(dict), depth, is_state, out);
}

Result<void> Walker::add_items(const std::vector<Index>& items, int depth, bool is_state, Map& out) {
  const ReplacedKeys keys = TRY(replaced_keys(pickle_, items, out_.charges));
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (keys.is_replaced(i)) continue;
    std::string key = key_text(items[keys.key_of(i)]);
    const bool left_out = is_state && pickle_.kind(items[i + 1]) != Kind::none &&
                          std::find(kModuleDicts.begin(), kModuleDicts.end(), key) != kModuleDicts.end();
    TRY_VOID(add_item(std::move(key), items[i + 1], depth, !left_out, out));
  }
  return {};
}

Result<void> Walker::add_pairs(Index list, int depth, Map& out) {
  constexpr uint64_t kPair = 128;
  Charges temporary(out_.budget);
  TRY_VOID(temporary.charge(Cost::kept, kPair * pickle_.item_count(list)));
  std::vector<Index> items;
  for (const Index pair : pickle_.items(list)) {
    TRY_VOID(out_.charges.charge(Cost::step));  // of a list that many calls share
    const std::vector<Index> both = pickle_.items(pair, 2);
    if (both.size() == 2) items.insert(items.end(), both.begin(), both.end());
  }
  return add_items(items, depth, false, out);
}

Result<Walker::Kept> Walker::visit_object(Index value, int depth) {
  TRY_VOID(out_.charges.charge(Cost::step, kObjectSteps));
  const std::string name = tensor_name(depth);
  for (Objects* const library : libraries_)
    if (auto meaning = TRY(library->meaning(name, value))) return visit_meaning(std::move(*meaning), depth);
  return pickle_.kind(value) == Kind::call ? visit_call(pickle_.call(value), depth) : visit_persistent(value);
}

Result<Walker::Kept> Walker::visit_meaning(Meaning meaning, int depth) {
  switch (meaning.kind) {
    case Meaning::Kind::tensors:
      return Kept();
    case Meaning::Kind::value:
      return kept(std::move(meaning.value));
    case Meaning::Kind::other:
      return visit(meaning.index, depth + 1);
    case Meaning::Kind::elements:
      return visit_elements(meaning, depth);
  }
  return Kept();
}

// The elements of an array: named by an index on each axis, so that those of an array without axes have its own name.
Result<Walker::Kept> Walker::visit_elements(const Meaning& elements, int depth) {
  const std::vector<Index> items = pickle_.items(elements.index);
  List list;
  std::vector<uint64_t> at(elements.shape.size());
  for (const Index item : items) {
    const size_t path = path_.size();
    for (const uint64_t index : at) TRY_VOID(enter(std::to_string(index)));
    auto found = TRY(visit(item, depth + 1));
    path_.resize(path);
    if (found) list.push_back(std::move(*found));
    for (size_t axis = at.size(); axis > 0 && ++at[axis - 1] == elements.shape[axis - 1]; --axis) at[axis - 1] = 0;
  }
  if (list.empty() && !items.empty()) return Kept();
  if (elements.shape.empty() && !list.empty()) return Kept(std::move(list.front()));
  return kept(std::move(list));
}

// An object: what it was created from, its attributes, its items.
Result<Walker::Kept> Walker::visit_call(const Call& call, int depth) {
  const std::string type = in_python_3(pickle_.global(call.callable));
  const std::vector<Index> arguments = pickle_.items(call.arguments, 3);
  if (is_list_type(type) && arguments.size() == 1) return visit(arguments[0], depth + 1);
  TRY_VOID(add_class(call, type));
  Map map;
  TRY_VOID(visit_arguments(call, arguments, depth, map));
  if (call.dict != kNoValue) TRY_VOID(add_items(call.dict, depth, false, map));
  if (call.list != kNoValue) {
    auto list = TRY(visit(call.list, depth));
    if (list && map.empty() && call.state == kNoValue) return list;
    if (list) map.append("items", std::move(*list));
  }
  if (call.state != kNoValue) TRY_VOID(visit_state(state_of(pickle_, call), depth, map));
  const bool has_nothing = call.dict == kNoValue && call.list == kNoValue && call.state == kNoValue;
  if (map.empty() && has_nothing && arguments.empty() && !is_dict_type(type) && !is_filled_later(type)) {
    std::string text = callable_text(pickle_, call.callable);
    const size_t size = text.size();
    return kept(std::move(text), size);
  }
  return kept(std::move(map), has_nothing);
}

// Keeps the class of an object that has attributes.
Result<void> Walker::add_class(const Call& call, std::string_view type) {
  if (call.state == kNoValue || out_.classes.size() == kMaxClasses) return {};
  Index named = call.callable;
  if (is_constructor(type))
    if (const std::vector<Index> arguments = pickle_.items(call.arguments, 1); !arguments.empty()) named = arguments[0];
  const std::string_view text = pickle_.global(named);
  if (text.empty() || is_dict_type(type)) return {};
  TRY_VOID(out_.charges.charge(Cost::value));
  TRY_VOID(out_.charges.charge(Cost::kept, path_.size() + text.size()));
  out_.classes.append(path_, text);
  return {};
}

// `arguments`: the first three. Those of a dict are its items; a class, its base and the value of that are the third of
// copyreg._reconstructor.
Result<void> Walker::visit_arguments(const Call& call, const std::vector<Index>& arguments, int depth, Map& out) {
  const std::string type = in_python_3(pickle_.global(call.callable));
  if (arguments.empty() || is_filled_later(type)) return {};
  if (is_constructor(type)) {
    const Index base = arguments.size() == 3 ? arguments[2] : arguments[0];
    if (pickle_.kind(base) == Kind::dict) return add_items(base, depth, false, out);
    if (pickle_.kind(base) != Kind::list && pickle_.kind(base) != Kind::tuple) return {};
    auto items = TRY(visit(base, depth + 1));
    if (items) out.append("items", std::move(*items));
    return {};
  }
  if (!is_dict_type(type) || arguments.size() != 1) return visit_unknown_arguments(call, depth, out);
  if (pickle_.kind(arguments[0]) == Kind::dict) return add_items(arguments[0], depth, false, out);
  return add_pairs(arguments[0], depth, out);
}

// The arguments of a call that is not understood: {"posix.system": ["…"]}. Tensors among them are named by their place;
// those of a call that can run code are not shown.
Result<void> Walker::visit_unknown_arguments(const Call& call, int depth, Map& out) {
  if (pickle_.kind(call.callable) == Kind::call) TRY_VOID(add_item("callable", call.callable, depth, false, out));
  const Global* const global = pickle_.global_of(call.callable);
  const size_t tensors = out_.tensors.size();
  auto found = TRY(visit(call.arguments, depth + 1));
  if (global != nullptr && can_run_code(*global)) leave_out(tensors, global->text);
  if (!found) return {};
  std::string name = callable_text(pickle_, call.callable);
  TRY_VOID(out_.charges.charge(Cost::value));
  TRY_VOID(out_.charges.charge(Cost::kept, name.size()));
  out.append(std::move(name), std::move(*found));
  return {};
}

// Leaves out the tensors from `first` on. They are arguments of a call that can run code, and what it would return is
// unknown.
void Walker::leave_out(size_t first, std::string_view callable) {
  std::vector<size_t> places(out_.tensors.size() - first);
  if (places.empty()) return;
  std::iota(places.begin(), places.end(), first);
  out_.warnings.miss_tensors(places.size(), Code::unsupported,
                             "{} tensors are given to {}, which can run code; omitted", places.size(),
                             printable(callable));
  erase_tensors(out_, places);
}

// A dict of attributes, perhaps with __slots__; else one value.
Result<void> Walker::visit_state(Index state, int depth, Map& out) {
  if (on_path_[state]) return {};
  if (pickle_.kind(state) == Kind::dict) {
    on_path_[state] = true;
    auto added = add_items(state, depth, true, out);
    on_path_[state] = false;
    return added;
  }
  if (has_slots(pickle_, state) && depth < kMaxValueDepth) {
    on_path_[state] = true;
    Result<void> added;
    for (const Index part : pickle_.items(state))
      if (added) added = visit_state(part, depth + 1, out);
    on_path_[state] = false;
    return added;
  }
  auto found = TRY(visit(state, depth + 1));
  if (found && !std::holds_alternative<std::nullptr_t>(*found)) out.append("state", std::move(*found));
  return {};
}

// An object that is not in the file: the class of a module with its source, for old files of PyTorch.
Result<Walker::Kept> Walker::visit_persistent(Index value) {
  const std::vector<Index> identifier = pickle_.items(pickle_.identifier(value), 2);
  if (identifier.size() == 2 && pickle_.text(identifier[0]) == "module") return scalar(identifier[1]);
  return scalar(pickle_.identifier(value));
}

std::string Walker::key_text(Index key, int depth) const {
  switch (pickle_.kind(key)) {
    case Kind::text:
    case Kind::bytes:
    case Kind::big_integer:
      return std::string(pickle_.text(key));
    case Kind::integer:
      return std::to_string(*pickle_.integer(key));
    case Kind::boolean:
      return *pickle_.integer(key) != 0 ? "True" : "False";
    case Kind::real:
      return fmt::format("{}", pickle_.real(key));
    case Kind::global:
      return std::string(pickle_.global(key));
    case Kind::none:
      return "None";
    case Kind::tuple: {
      constexpr size_t kShown = 8;
      std::string text;
      for (const Index item : pickle_.items(key, kShown))
        text += fmt::format("{}{}", text.empty() ? "" : ", ", depth > 1 ? "..." : key_text(item, depth + 1));
      return fmt::format("({})", text);
    }
    case Kind::call: {
      for (Objects* const library : libraries_)
        if (auto text = library->key(key)) return std::move(*text);
      return "?";
    }
    default:
      return "?";
  }
}

}  // namespace

Result<void> walk(const Pickle& pickle, std::span<Objects* const> libraries, const std::string& prefix, Contents& out) {
  return Walker(pickle, libraries, out).walk(prefix);
}

}  // namespace weightfs::pickle
