#include "report/compare/metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "report/compare/bytes.h"
#include "report/text/map_of.h"

namespace weightfs::compare {
namespace {

struct Field {
  std::string path;
  const Value* value;
};

void add_fields(std::vector<Field>& out, const std::string& prefix, const Map& map) {
  for (const auto& [key, value] : map) {
    const std::string path = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
    const auto* const inner = std::get_if<Map>(&value);
    if (inner != nullptr && !inner->empty())
      add_fields(out, path, *inner);
    else
      out.push_back({path, &value});
  }
}

std::vector<Field> fields_of(const Model& model, const Map& own) {
  std::vector<Field> out;
  add_fields(out, "", own);
  add_fields(out, "", model.common);
  std::stable_sort(out.begin(), out.end(), [](const Field& x, const Field& y) { return x.path < y.path; });
  return out;
}

// The fields that are not the model's common ones.
Map own_fields(const Model& model) {
  Map out = map_of({{"format", model.format}, {"version", model.version}});
  if (Map metadata = metadata_with_facts(model); !metadata.empty()) out.append("metadata", std::move(metadata));
  return out;
}

// Documents by their paths, which a hostile container may repeat: the first one counts.
std::map<std::string_view, const Document*> documents_of(const Model& model) {
  std::map<std::string_view, const Document*> out;
  for (const Document& document : model.documents) out.emplace(document.path, &document);
  return out;
}

class DocumentComparer {
 public:
  explicit DocumentComparer(MetadataComparison& out) : out_(out) {}

  void compare(const std::string& path, const Document* a, const Document* b) {
    const auto about = [&](const Error& error) {
      return Error{error.code, fmt::format("{}: {}", quoted(path), error.message)};
    };
    const auto changed = find_change(a, b);
    if (!changed)
      out_.unreadable.push_back(about(changed.error()));
    else if (*changed)
      out_.changes.push_back({path, (*changed)->first, (*changed)->second});
  }

 private:
  using Sizes = std::pair<std::optional<Value>, std::optional<Value>>;

  static Result<std::optional<Sizes>> find_change(const Document* a, const Document* b) {
    const SourcePtr text_a = a == nullptr ? nullptr : TRY(a->source.get());
    const SourcePtr text_b = b == nullptr ? nullptr : TRY(b->source.get());
    if (text_a != nullptr && text_b != nullptr && text_a->size() == text_b->size()) {
      const ByteRange all{0, text_a->size()};
      const auto equal = are_equal(*text_a, *text_b, all);
      if (!equal) return tl::unexpected(equal.error().error);
      if (*equal) return std::optional<Sizes>();
    }
    return std::optional(Sizes(size_text(text_a), size_text(text_b)));
  }

  static std::optional<Value> size_text(const SourcePtr& text) {
    if (text == nullptr) return std::nullopt;
    return Value(fmt::format("({} bytes)", text->size()));
  }

  MetadataComparison& out_;
};

}  // namespace

bool is_equal(const Value& a, const Value& b) {
  if (a.index() != b.index()) {
    const auto* const number = std::get_if<int64_t>(&a);
    const auto* const other = std::get_if<uint64_t>(&b);
    if (number != nullptr && other != nullptr) return std::cmp_equal(*number, *other);
    return std::holds_alternative<uint64_t>(a) && std::holds_alternative<int64_t>(b) && is_equal(b, a);
  }
  if (const auto* const list = std::get_if<List>(&a)) {
    const List& other = std::get<List>(b);
    return std::equal(list->begin(), list->end(), other.begin(), other.end(), is_equal);
  }
  if (const auto* const map = std::get_if<Map>(&a)) {
    const Map& other = std::get<Map>(b);
    return std::equal(map->begin(), map->end(), other.begin(), other.end(),
                      [](const auto& x, const auto& y) { return x.first == y.first && is_equal(x.second, y.second); });
  }
  if (const auto* const number = std::get_if<double>(&a)) {
    const double other = std::get<double>(b);
    return *number == other || (std::isnan(*number) && std::isnan(other));
  }
  if (const auto* const text = std::get_if<std::string>(&a)) return *text == std::get<std::string>(b);
  if (const auto* const number = std::get_if<int64_t>(&a)) return *number == std::get<int64_t>(b);
  if (const auto* const number = std::get_if<uint64_t>(&a)) return *number == std::get<uint64_t>(b);
  if (const auto* const flag = std::get_if<bool>(&a)) return *flag == std::get<bool>(b);
  return true;  // null
}

MetadataComparison compare_metadata(const Model& a, const Model& b) {
  MetadataComparison out;
  const Map own_a = own_fields(a);
  const Map own_b = own_fields(b);
  const std::vector<Field> fields_a = fields_of(a, own_a);
  const std::vector<Field> fields_b = fields_of(b, own_b);
  auto x = fields_a.begin();
  auto y = fields_b.begin();
  while (x != fields_a.end() || y != fields_b.end()) {
    const int order = x == fields_a.end() ? 1 : y == fields_b.end() ? -1 : x->path.compare(y->path);
    if (order < 0)
      out.changes.push_back({x->path, *x->value, {}});
    else if (order > 0)
      out.changes.push_back({y->path, {}, *y->value});
    else if (!is_equal(*x->value, *y->value))
      out.changes.push_back({x->path, *x->value, *y->value});
    if (order <= 0) ++x;
    if (order >= 0) ++y;
  }
  const auto documents_a = documents_of(a);
  const auto documents_b = documents_of(b);
  DocumentComparer documents(out);
  for (const auto& [path, document] : documents_a) {
    const auto other = documents_b.find(path);
    documents.compare(document->path, document, other == documents_b.end() ? nullptr : other->second);
  }
  for (const auto& [path, document] : documents_b)
    if (!documents_a.contains(path)) documents.compare(document->path, nullptr, document);
  return out;
}

}  // namespace weightfs::compare
