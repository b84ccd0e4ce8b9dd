// The tensors of a model: a page of the table, the tree of their names, and one of them.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/cancel.h"
#include "base/files/leaf.h"
#include "base/text.h"
#include "fs/tree/listing.h"
#include "numbers/elements.h"
#include "numbers/grid.h"
#include "report/compare/select_tensors.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

constexpr uint64_t kMaxPage = 1000;
constexpr size_t kMaxChildren = 2000;

List shape_list(ShapeView shape) {
  List out;
  for (const uint64_t size : shape) out.emplace_back(size);
  return out;
}

double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// "whole", "blocks" or "transport" (docs/semantics.md); nothing for bytes whose digest is not known.
Value verification_of(const TensorView& tensor) {
  const std::string_view text = tensor.source.refused() ? std::string_view() : to_text(tensor.source.verification());
  return text.empty() ? Value(nullptr) : Value(text);
}

Map row_of(const OpenModel& of, size_t index) {
  const TensorList& tensors = of.model().tensors;
  const uint64_t bytes = listed_bytes(tensors, index);
  return map_of({{"index", index},
                 {"name", of.name(index)},
                 {"dtype", dtype_text(tensors[index])},
                 {"shape", shape_list(tensors.shape(index))},
                 {"parameters", of.parameters(index)},
                 {"bytes", bytes},
                 {"share", share_of(bytes, of.total_bytes())},
                 {"verification", verification_of(tensors[index])},
                 {"numbers", numbers::Elements::of(tensors[index]).has_value()},
                 {"ready", tensors.is_refused(index) || is_ready(tensors[index].source)},
                 {"refused", tensors.is_refused(index)}});
}

Accepted<Filter> filter_of(const Query& query) {
  return Filter{.words = ACCEPT(query.words("q")),
                .under = query.text("under"),
                .dtype = query.text("dtype"),
                .layer = query.text("layer")};
}

// What all names begin with, up to a point or a slash.
class CommonPrefix {
 public:
  void add(const OpenModel& of, size_t index) {
    if (text_ && text_->empty()) return;
    const std::string name = of.name(index);
    std::string_view rest = text_ ? std::string_view(*text_) : std::string_view(name);
    const auto differing = std::ranges::mismatch(rest, name).in1;
    rest = rest.substr(0, static_cast<size_t>(differing - rest.begin()));
    text_ = std::string(rest.substr(0, rest.find_last_of("./") + 1));
  }
  std::string text() const { return text_.value_or(""); }

 private:
  std::optional<std::string> text_;
};

// A child of a prefix: a tensor, or all tensors whose names go on in the same way.
struct Child {
  std::string label;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t parameters = 0;
  uint64_t content = 0;  // a hash of the rest of the names, the types and the shapes
  std::optional<size_t> leaf;
  char separator = '.';
};

Result<std::vector<Child>> children_of(const OpenModel& of, const std::string& under,
                                       const std::vector<char>& matching) {
  const TensorList& tensors = of.model().tensors;
  std::unordered_map<std::string, size_t> places;
  std::vector<Child> children;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (matching[i] == 0) continue;
    if (is_cancelled()) return cancelled();
    const std::string name = of.name(i);
    const std::string_view rest = std::string_view(name).substr(under.size());
    const size_t end = rest.find_first_of("./");
    const bool is_leaf = end == rest.npos || end + 1 == rest.size();
    std::string key(rest.substr(0, is_leaf ? rest.size() : end + 1));
    if (is_leaf) key += '\n';
    const auto [place, is_new] = places.try_emplace(std::move(key), children.size());
    if (is_new) children.push_back({.label = std::string(rest.substr(0, is_leaf ? rest.size() : end)), .leaf = {}});
    Child& child = children[place->second];
    if (is_leaf) child.leaf = i;
    if (!is_leaf) child.separator = rest[end];
    ++child.tensors;
    child.bytes += listed_bytes(tensors, i);
    child.parameters += of.parameters(i);
    uint64_t hash = std::hash<std::string_view>()(is_leaf ? std::string_view() : rest.substr(end));
    for (const uint64_t size : tensors.shape(i)) hash = (hash ^ size) * 0x9E3779B97F4A7C15ULL;
    child.content += (hash ^ reinterpret_cast<uintptr_t>(tensors.dtype(i))) * 0xD6E8FEB86659FD93ULL;
  }
  return children;
}

std::optional<uint64_t> number_in(const std::string& label) { return parse_number<uint64_t>(label); }

bool are_alike(const Child& a, const Child& b) {
  return !a.leaf && !b.leaf && a.content == b.content && a.tensors == b.tensors && a.bytes == b.bytes &&
         number_in(a.label) && number_in(b.label) == *number_in(a.label) + 1;
}

Map entry_of(const std::vector<Child>& children, size_t first, size_t last, const std::string& under) {
  const Child& child = children[first];
  uint64_t tensors = 0, bytes = 0, parameters = 0;
  for (size_t i = first; i <= last; ++i) {
    tensors += children[i].tensors;
    bytes += children[i].bytes;
    parameters += children[i].parameters;
  }
  const bool is_fold = last > first;
  const auto number = [&](const Child& of) { return is_fold ? Value(*number_in(of.label)) : Value(nullptr); };
  return map_of({{"label", is_fold ? fmt::format("{}…{}", child.label, children[last].label) : child.label},
                 {"under", child.leaf ? Value(nullptr) : Value(under + child.label + child.separator)},
                 {"tensors", tensors},
                 {"bytes", bytes},
                 {"parameters", parameters},
                 {"leaf", child.leaf ? Value(*child.leaf) : Value(nullptr)},
                 {"first", number(child)},
                 {"last", number(children[last])}});
}

// The files of a tensor that can be downloaded.
List downloads_of(const Call& call, const OpenModel& of, size_t index) {
  struct Form {
    const char* name;
    const char* directory;
    const char* suffix;
  };
  constexpr std::array kForms = {Form{"raw", "tensors/", ""}, Form{"npy", "npy/", ".npy"},
                                 Form{"float32", "float32/", ".npy"}};
  List out;
  // Most names are paths.
  const std::string begin = of.path().empty() ? "" : of.path() + "/";
  const auto plain = call.forest.resolve(begin + "tensors/" + of.name(index), Forest::FinalLink::followed);
  const auto there = plain ? call.forest.tensor_of(*plain) : std::nullopt;
  const bool is_path = there && there->model == of.pointer() && there->index == index;
  const std::string file = is_path ? of.name(index) : of.file_path(index);
  for (const Form& form : kForms) {
    if (file.empty()) break;
    const std::string path = begin + form.directory + file + form.suffix;
    const auto ino = call.forest.resolve(path, Forest::FinalLink::followed);
    if (!ino) continue;
    const auto attributes = call.forest.known_attributes(*ino);
    out.emplace_back(map_of({{"form", form.name},
                             {"href", call.href(path)},
                             {"bytes", attributes ? Value(attributes->size) : Value(nullptr)}}));
  }
  return out;
}

}  // namespace

Accepted<Named> tensor_of(const Call& call) {
  const OpenModelPtr model = ACCEPT(call.model());
  const auto index = ACCEPT(call.query.number("t"));
  if (!index || *index >= model->model().tensors.size()) return httpd::refused(404, "t: the model has no such tensor");
  return Named{model, static_cast<size_t>(*index), model->tensor(static_cast<size_t>(*index))};
}

Accepted<std::optional<Named>> second_tensor_of(const Call& call) {
  const auto index = ACCEPT(call.query.number("t2"));
  if (!index) return std::optional<Named>();
  const OpenModelPtr model = ACCEPT(call.model("model2"));
  if (*index >= model->model().tensors.size()) return httpd::refused(404, "t2: the model has no such tensor");
  return std::optional(Named{model, static_cast<size_t>(*index), model->tensor(static_cast<size_t>(*index))});
}

Accepted<Content> list_tensors(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const uint64_t offset = ACCEPT(call.query.number("offset", 0, UINT64_MAX));
  const uint64_t limit = ACCEPT(call.query.number("limit", 200, kMaxPage));
  const auto order = static_cast<Order>(ACCEPT(
      call.query.choice("sort", {"index", "name", "dtype", "shape", "parameters", "bytes", "share", "verification"})));
  const bool is_descending = ACCEPT(call.query.choice("order", {"asc", "desc"})) == 1;
  const auto all = ACCEPT(accepted(of->in_order(order)));
  const Filter filter = ACCEPT(filter_of(call.query));
  std::shared_ptr<const std::vector<char>> matching;
  if (!filter.is_empty()) matching = ACCEPT(accepted(of->matching(filter)));
  List rows;
  CommonPrefix prefix;
  uint64_t total = 0;
  for (size_t i = 0; i < all->size(); ++i) {
    const uint32_t index = (*all)[is_descending ? all->size() - 1 - i : i];
    if (matching != nullptr && (*matching)[index] == 0) continue;
    if (total >= offset && total - offset < limit) rows.emplace_back(row_of(*of, index));
    if (offset == 0) prefix.add(*of, index);
    ++total;
  }
  Map out = map_of({{"total", total}, {"offset", offset}, {"tensors", std::move(rows)}});
  if (offset == 0) out.append("prefix", prefix.text());
  return json_content(out);
}

Accepted<Content> list_names(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const Filter filter = ACCEPT(filter_of(call.query));
  const std::string& under = filter.under;
  const auto matching = ACCEPT(accepted(of->matching(filter)));
  const auto children = ACCEPT(accepted(children_of(*of, under, *matching)));
  const bool is_folded = !call.query.flag("each");
  List entries;
  size_t i = 0;
  for (; i < children.size() && entries.size() < kMaxChildren; ++i) {
    const size_t first = i;
    while (is_folded && i + 1 < children.size() && are_alike(children[i], children[i + 1])) ++i;
    entries.emplace_back(entry_of(children, first, i, under));
  }
  return json_content(map_of({{"entries", std::move(entries)}, {"truncated", i < children.size()}}));
}

Accepted<Content> describe_tensor(const Call& call) {
  const Named named = ACCEPT(tensor_of(call));
  const OpenModel& of = *named.model;
  const TensorView& tensor = named.tensor.tensor;
  Map out = row_of(of, named.index);
  const auto elements = numbers::Elements::of(tensor);
  const numbers::MatrixView matrix = numbers::matrix_of(tensor.shape);
  const size_t count = of.model().tensors.size();
  out.append("model", of.path());
  out.append("v", of.version());
  out.append("bits", of.parameters(named.index) == 0 ? Value(nullptr)
                                                     : Value(8.0 * static_cast<double>(tensor.nbytes()) /
                                                             static_cast<double>(of.parameters(named.index))));
  out.append("previous", named.index == 0 ? Value(nullptr) : Value(named.index - 1));
  out.append("next", named.index + 1 >= count ? Value(nullptr) : Value(named.index + 1));
  out.append("error", elements ? Value(nullptr) : Value(elements.error().message));
  out.append("rows", matrix.rows);
  out.append("columns", matrix.columns);
  out.append("downloads", downloads_of(call, of, named.index));
  return json_content(out);
}

}  // namespace weightfs::api
