#include "formats/pytorch/walk.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/common/flat.h"
#include "formats/common/limits.h"

namespace weightfs::pytorch {
namespace {

// The number of values that are kept as metadata.
constexpr uint64_t kMaxMetadata = flat::kMaxMetadataValues;

// The name of a tensor that is the whole pickle.
constexpr std::string_view kBareTensor = "tensor";

// Attributes of a torch.nn.Module that its state_dict() leaves out of names.
constexpr std::array<std::string_view, 3> kModuleDicts = {"_parameters", "_buffers", "_modules"};

// Types that are created from one dict, or from a list of pairs.
bool is_dict_type(std::string_view name) {
  return name == "collections.OrderedDict" || name == "collections.Counter" || name == "builtins.dict" ||
         name == "__builtin__.dict";
}

// Created from the function that makes its values: nothing of it is shown.
constexpr std::string_view kDefaultDict = "collections.defaultdict";

// Types that are created from one list.
bool is_list_type(std::string_view name) {
  constexpr std::array<std::string_view, 9> kNames = {
      "torch.Size",      "builtins.tuple",   "builtins.list",     "builtins.set",         "builtins.frozenset",
      "__builtin__.set", "__builtin__.list", "__builtin__.tuple", "__builtin__.frozenset"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

class Walker {
 public:
  Walker(const Pickle& pickle, const StorageBytes& storages, Contents& out)
      : pickle_(pickle), tensors_(pickle, storages, out), out_(out), on_path_(pickle.size()) {}

  Result<void> walk(const std::string& prefix);

 private:
  // What a value is in the metadata; nothing for a tensor, and for a container that has only tensors.
  using Kept = std::optional<Value>;

  Result<Kept> visit(Index value, int depth);
  Result<void> enter(std::string_view component);
  Result<Kept> visit_inside(Index value, int depth);
  Result<Kept> visit_list(Index value, int depth);
  Result<Kept> visit_object(Index value, int depth);
  Result<Kept> visit_persistent(Index value, int depth);
  Result<Kept> visit_call(const Call& call, int depth);
  Result<void> visit_arguments(const Call& call, const std::vector<Index>& arguments, int depth, Map& out);
  Result<void> visit_unknown_arguments(const Call& call, int depth, Map& out);
  Result<void> visit_state(Index state, int depth, Map& out);
  Result<void> add_items(Index dict, int depth, bool is_state, Map& out);
  Result<void> add_pairs(Index list, int depth, Map& out);
  Result<void> add_item(std::string key, Index value, int depth, bool is_named, Map& out);
  Result<Kept> scalar(Index value);
  Result<Kept> kept(Value value, uint64_t bytes = 0);
  Result<Kept> kept(Map map, bool is_empty);
  std::string key_text(Index key, int depth = 0) const;
  std::string callable_text(Index callable, int depth = 0) const;
  std::string tensor_name(int depth) const { return depth == 0 && path_.empty() ? std::string(kBareTensor) : path_; }

  const Pickle& pickle_;
  TensorReader tensors_;
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
    out_.metadata.set(prefix.empty() ? "object" : prefix, std::move(*root));
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
      return visit_object(value, depth);
    case Kind::persistent:
      return visit_persistent(value, depth);
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
      if (text.size() != pickle_.length(value) || (pickle_.kind(value) == Kind::bytes && !is_utf8(text)))
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
  const std::vector<Index> items = pickle_.items(dict);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    std::string key = key_text(items[i]);
    const bool left_out = is_state && pickle_.kind(items[i + 1]) != Kind::none &&
                          std::find(kModuleDicts.begin(), kModuleDicts.end(), key) != kModuleDicts.end();
    TRY_VOID(add_item(std::move(key), items[i + 1], depth, !left_out, out));
  }
  return {};
}

Result<void> Walker::add_pairs(Index list, int depth, Map& out) {
  for (const Index pair : pickle_.items(list)) {
    TRY_VOID(out_.charges.charge(Cost::step));  // of a list that many calls share
    const std::vector<Index> both = pickle_.items(pair, 2);
    if (both.size() == 2) TRY_VOID(add_item(key_text(both[0]), both[1], depth, true, out));
  }
  return {};
}

Result<Walker::Kept> Walker::visit_object(Index value, int depth) {
  if (const auto call = tensor_call(pickle_, value)) {
    TRY_VOID(tensors_.add(tensor_name(depth), *call));
    return Kept();
  }
  return visit_call(pickle_.call(value), depth);
}

// An object: what it was created from, its attributes, its items.
Result<Walker::Kept> Walker::visit_call(const Call& call, int depth) {
  const std::string_view type = pickle_.global(call.callable);
  const std::vector<Index> arguments = pickle_.items(call.arguments, 2);
  if (is_list_type(type) && arguments.size() == 1) return visit(arguments[0], depth + 1);
  Map map;
  TRY_VOID(visit_arguments(call, arguments, depth, map));
  if (call.dict != kNoValue) TRY_VOID(add_items(call.dict, depth, false, map));
  if (call.list != kNoValue) {
    auto list = TRY(visit(call.list, depth));
    if (list && map.empty() && call.state == kNoValue) return list;
    if (list) map.append("items", std::move(*list));
  }
  if (call.state != kNoValue) TRY_VOID(visit_state(call.state, depth, map));
  const bool has_nothing = call.dict == kNoValue && call.list == kNoValue && call.state == kNoValue;
  if (map.empty() && has_nothing && arguments.empty() && !is_dict_type(type) && type != kDefaultDict) {
    std::string text = callable_text(call.callable);
    const size_t size = text.size();
    return kept(std::move(text), size);
  }
  return kept(std::move(map), has_nothing);
}

// `arguments`: the first two. Those of a dict are its items.
Result<void> Walker::visit_arguments(const Call& call, const std::vector<Index>& arguments, int depth, Map& out) {
  const std::string_view type = pickle_.global(call.callable);
  if (arguments.empty() || type == kDefaultDict) return {};
  if (!is_dict_type(type) || arguments.size() != 1) return visit_unknown_arguments(call, depth, out);
  if (pickle_.kind(arguments[0]) == Kind::dict) return add_items(arguments[0], depth, false, out);
  return add_pairs(arguments[0], depth, out);
}

// The arguments of a call that is not understood: {"posix.system": ["…"]}. Tensors among them are named by their place.
Result<void> Walker::visit_unknown_arguments(const Call& call, int depth, Map& out) {
  if (pickle_.kind(call.callable) == Kind::call) TRY_VOID(add_item("callable", call.callable, depth, false, out));
  auto found = TRY(visit(call.arguments, depth + 1));
  if (!found) return {};
  std::string name = callable_text(call.callable);
  TRY_VOID(out_.charges.charge(Cost::value));
  TRY_VOID(out_.charges.charge(Cost::kept, name.size()));
  out.append(std::move(name), std::move(*found));
  return {};
}

// A dict of attributes, or a tuple of two: a dict, and one for __slots__.
Result<void> Walker::visit_state(Index state, int depth, Map& out) {
  if (on_path_[state]) return {};
  if (pickle_.kind(state) == Kind::dict) {
    on_path_[state] = true;
    auto added = add_items(state, depth, true, out);
    on_path_[state] = false;
    return added;
  }
  if (pickle_.kind(state) == Kind::tuple && pickle_.item_count(state) == 2 && depth < kMaxValueDepth) {
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

Result<Walker::Kept> Walker::visit_persistent(Index value, int depth) {
  const std::vector<Index> identifier = pickle_.items(pickle_.identifier(value), 2);
  if (!identifier.empty() && pickle_.text(identifier[0]) == "module" && identifier.size() == 2)
    return scalar(identifier[1]);
  TRY_VOID(tensors_.add_storage(tensor_name(depth), value));
  return Kept();
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
    default:
      return "?";
  }
}

// "module.name", or that of the call that would return the function, with parentheses.
std::string Walker::callable_text(Index callable, int depth) const {
  constexpr int kMaxCalls = 8;
  if (pickle_.kind(callable) == Kind::call && depth < kMaxCalls)
    return callable_text(pickle_.call(callable).callable, depth + 1) + "()";
  if (pickle_.kind(callable) == Kind::persistent) {
    const std::vector<Index> identifier = pickle_.items(pickle_.identifier(callable), 2);
    if (identifier.size() == 2) callable = identifier[1];
  }
  return pickle_.kind(callable) == Kind::global ? std::string(pickle_.global(callable)) : "?";
}

}  // namespace

Result<void> walk(const Pickle& pickle, const StorageBytes& storages, const std::string& prefix, Contents& out) {
  return Walker(pickle, storages, out).walk(prefix);
}

}  // namespace weightfs::pytorch
