#include "formats/code/list.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr const char* kField = "code";
constexpr size_t kMaxText = 300;  // of a text of an item

// "and 12 others": the item behind the last one that is kept.
constexpr std::string_view kOthers = "and ";

std::string bounded(std::string text) {
  text = printable(text);
  if (text.size() <= kMaxText) return text;
  text.resize(kMaxText);
  return to_utf8(text) + "…";
}

}  // namespace

uint64_t others_in(const CodeItem& item) {
  std::string_view what = item.what;
  if (!what.starts_with(kOthers)) return 0;
  what.remove_prefix(kOthers.size());
  return parse_number<uint64_t>(what.substr(0, what.find(' '))).value_or(0);
}

void CodeList::add(CodeItem item) {
  item = {bounded(std::move(item.what)), bounded(std::move(item.where)), bounded(std::move(item.runs))};
  if (items_.size() >= kMaxCodeItems) {
    others_ += known_.contains({item.what, item.where}) ? 0U : 1U;
    return;
  }
  if (known_.emplace(item.what, item.where).second) items_.push_back(std::move(item));
}

void CodeList::add_pickled(std::string_view names, const char* runs) {
  constexpr std::string_view kSeparator = ", ";
  while (!names.empty()) {
    const size_t end = std::min(names.find(kSeparator), names.size());
    add({std::string(names.substr(0, end)), "", runs});
    names.remove_prefix(std::min(names.size(), end + kSeparator.size()));
  }
}

void CodeList::append(const Map& common, std::string_view file) {
  const auto* const list = common.find_as<List>(kField);
  if (list == nullptr) return;
  for (const Value& value : *list) {
    const auto* const map = std::get_if<Map>(&value);
    if (map == nullptr) continue;
    const std::string_view what = text_in(*map, "what"), where = text_in(*map, "where");
    if (const uint64_t others = where.empty() ? others_in({std::string(what), "", ""}) : 0; others > 0)
      others_ += others;
    else
      add({std::string(what), std::string(where.empty() ? file : where), std::string(text_in(*map, "runs"))});
  }
}

std::vector<CodeItem> CodeList::items() const {
  std::vector<CodeItem> all = items_;
  if (others_ > 0) all.push_back({fmt::format("{}{} others", kOthers, others_), "", ""});
  return all;
}

void CodeList::move_to(Map& common) && {
  CodeList all;
  all.append(common, "");
  for (CodeItem& item : items_) all.add(std::move(item));
  all.others_ += others_;
  if (!all.empty()) common.set(kField, to_list(all.items()));
}

List to_list(const std::vector<CodeItem>& items) {
  List list;
  for (const CodeItem& item : items) {
    Map map;
    map.append("what", item.what);
    map.append("where", item.where);
    map.append("runs", item.runs);
    list.emplace_back(std::move(map));
  }
  return list;
}

std::string names_of(const std::vector<CodeItem>& items) {
  constexpr size_t kShown = 10;
  std::string names;
  for (size_t i = 0; i < std::min(kShown, items.size()); ++i) names += (i == 0 ? "" : ", ") + items[i].what;
  return items.size() <= kShown ? names : fmt::format("{} and {} more", names, items.size() - kShown);
}

void add_pickled_code(Map& common, std::string_view names, const char* runs) {
  CodeList list;
  list.add_pickled(names, runs);
  std::move(list).move_to(common);
}

}  // namespace weightfs
