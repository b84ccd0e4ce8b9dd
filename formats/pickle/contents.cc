#include "formats/pickle/contents.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/text.h"
#include "formats/code/list.h"
#include "formats/common/flat.h"
#include "formats/pickle/pickle.h"

namespace weightfs::pickle {
namespace {

// Places of the tensors, those of the same bytes next to each other.
std::vector<size_t> sorted_by_bytes(const TensorList& tensors) {
  std::vector<size_t> places(tensors.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto key = [&](size_t i) {
    const Slice bytes = tensors[i].source;
    return std::tuple(bytes.whole().get(), bytes.offset(), bytes.size(), i);
  };
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return places;
}

bool same_tensor(const TensorView& a, const TensorView& b) {
  return !a.source.refused() && a.nbytes() > 0 && a.source.whole() == b.source.whole() &&
         a.source.offset() == b.source.offset() && a.dtype == b.dtype && a.shape == b.shape;
}

// The names of tensors with the same bytes, one list for each such tensor.
Result<List> tied(const TensorList& tensors, Charges& charges) {
  const std::vector<size_t> places = sorted_by_bytes(tensors);
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 1; i < places.size(); ++i) {
    if (!same_tensor(tensors[places[i - 1]], tensors[places[i]])) continue;
    const bool starts = groups.empty() || groups.back().back() != places[i - 1];
    if (starts && groups.size() == kMaxInlineList) break;
    if (starts) groups.push_back({places[i - 1]});
    groups.back().push_back(places[i]);
  }
  std::sort(groups.begin(), groups.end());
  List lists;
  for (const auto& group : groups) {
    List names;
    for (const size_t place : group) {
      TRY_VOID(charges.charge(Cost::value, 2));
      TRY_VOID(charges.charge(Cost::kept, tensors[place].name.size()));
      if (names.size() < kMaxInlineList) names.emplace_back(tensors[place].name);
    }
    lists.emplace_back(std::move(names));
  }
  return lists;
}

// `first`: the place of the first tensor in the model.
void add_npy_files(Model& model, size_t first, const Contents& contents) {
  for (const auto& [place, file] : contents.npy_files) model.per_tensor.edit().npy_files.emplace(first + place, file);
}

// Whether it is getattr(Class, 'NAME'), with a name of capital letters.
bool is_member_of_class(const Pickle& pickle, Index call) {
  if (pickle.kind(call) != Kind::call) return false;
  const std::vector<Index> arguments = pickle.items(pickle.call(call).arguments, 3);
  if (arguments.size() != 2 || pickle.kind(arguments[1]) != Kind::text) return false;
  const std::string_view name = pickle.text(arguments[1]);
  const Global* const of = pickle.global_of(arguments[0]);
  if (of == nullptr || can_run_code(*of) || name.empty() || name[0] < 'A' || name[0] > 'Z') return false;
  const char first = of->text[std::min(of->text.rfind('.') + 1, of->text.size() - 1)];
  const bool is_class = first >= 'A' && first <= 'Z';
  return is_class && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == name.npos;
}

}  // namespace

Standing standing_in(const Pickle& pickle, const Global& global) {
  const Standing standing = standing_of(global);
  if (standing != Standing::dangerous || in_python_3(global.text) != "builtins.getattr") return standing;
  const std::vector<Index> calls = pickle.calls_of(global.text);
  const bool are_members = std::ranges::all_of(calls, [&](Index call) { return is_member_of_class(pickle, call); });
  return are_members && !calls.empty() ? Standing::unknown : standing;
}

Result<void> add_unknown(const std::string& name, Contents& out) {
  constexpr uint64_t kEntry = 64;
  const std::string shown = printable(name);
  TRY_VOID(out.charges.charge(Cost::value));
  TRY_VOID(out.charges.charge(Cost::kept, kEntry + 2 * shown.size()));
  out.unknown.insert(shown);
  return {};
}

Result<void> add_unknown(const Pickle& pickle, Contents& out) {
  for (const Global& global : pickle.globals())
    if (standing_in(pickle, global) == Standing::unknown) TRY_VOID(add_unknown(in_python_3(global.text), out));
  return {};
}

void add_names(Model& model, Contents& contents) {
  if (!contents.dangerous.empty()) {
    add_pickled_code(model.common, contents.dangerous, kUnpickled);
    model.common.append("dangerous_globals", std::move(contents.dangerous));
  }
  if (!contents.unknown.empty())
    model.common.append("unknown_globals", List(contents.unknown.begin(), contents.unknown.end()));
}

Result<void> report_globals(const Pickle& pickle, bool (*is_plain)(std::string_view), const IsHarmless& is_harmless,
                            Contents& out) {
  TRY_VOID(add_unknown(pickle, out));
  for (const Global& global : pickle.globals()) {
    if (is_plain(global.text)) continue;
    TRY_VOID(out.charges.charge(Cost::kept, 3 * global.text.size()));
    TRY_VOID(out.charges.charge(Cost::value));
    const std::string name = in_python_3(global.text);
    out.globals.emplace_back(name);
    if (standing_in(pickle, global) != Standing::dangerous || (is_harmless && is_harmless(global.text))) continue;
    const std::string shown = printable(name);
    out.warnings.add("names {}: pickle.load and joblib.load can run code from this file; weightfs ran nothing", shown);
    out.dangerous += (out.dangerous.empty() ? "" : ", ") + shown;
  }
  return {};
}

void erase_tensors(Contents& contents, std::span<const size_t> places) {
  std::map<size_t, Slice> left;
  for (auto& [place, file] : contents.npy_files) {
    const auto after = std::ranges::lower_bound(places, place);
    if (after != places.end() && *after == place) continue;
    left.emplace_hint(left.end(), place - static_cast<size_t>(after - places.begin()), std::move(file));
  }
  contents.npy_files = std::move(left);
  contents.tensors.erase(places);
}

void add_to(Model& model, Warnings& warnings, Contents contents) {
  contents.charges.keep();
  contents.metadata.keep_last_of_each_key();
  model.metadata = std::move(contents.metadata);
  add_npy_files(model, model.tensors.size(), contents);
  model.tensors.append(contents.tensors);
  model.string_pool.splice(model.string_pool.end(), contents.string_pool);
  warnings.append(contents.warnings, "");
  add_names(model, contents);
}

Result<void> add_contents(Model& model, Contents contents, Map facts) {
  for (const size_t place : flat::repeated_names(contents.tensors))
    contents.warnings.add("tensor {}: duplicate name", quoted(contents.tensors[place].name));
  List ties = TRY(tied(contents.tensors, contents.charges));
  if (!contents.globals.empty()) facts.append("globals", std::move(contents.globals));
  if (!ties.empty()) facts.append("tied", std::move(ties));
  contents.charges.keep();
  add_names(model, contents);
  contents.metadata.keep_last_of_each_key();
  model.metadata = std::move(contents.metadata);
  flat::add_facts(model.metadata, model.format, std::move(facts));
  add_npy_files(model, 0, contents);
  model.tensors = std::move(contents.tensors);
  model.string_pool.splice(model.string_pool.end(), contents.string_pool);
  std::move(contents.warnings).move_to(model);
  return {};
}

}  // namespace weightfs::pickle
