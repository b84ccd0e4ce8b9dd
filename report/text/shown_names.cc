#include "report/text/shown_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace weightfs::info {
namespace {

constexpr std::string_view kBreaks = "./_";
constexpr std::string_view kWeightEnd = ".weight";
constexpr size_t kMaxComponents = 16;  // of a beginning: each is searched in all names

// The scripts of kohya replace the dots in the name of a module.
std::string_view separators_of(std::string_view name) { return name.starts_with("lora_") ? "./_" : "./"; }

// The first component with its separator; empty for a number, and for the last one.
std::string_view leading_component(std::string_view name, std::string_view separators) {
  const size_t separator = name.find_first_of(separators);
  if (separator == name.npos || separator + 1 == name.size()) return {};
  const bool is_number = name.substr(0, separator).find_first_not_of("0123456789") == name.npos;
  return is_number ? std::string_view() : name.substr(0, separator + 1);
}

// The component that more than half of the names have after `beginning`; empty if there is none. The algorithm of Boyer
// and Moore finds the only candidate without a table of all components, of which a hostile file has as many as it
// likes.
std::string common_component(size_t rows, const std::function<std::string(size_t)>& name_of,
                             const std::string& beginning) {
  const auto each = [&](const auto& use) {
    for (size_t row = 0; row < rows; ++row) {
      const std::string name = name_of(row);
      if (name.starts_with(beginning))
        use(leading_component(std::string_view(name).substr(beginning.size()), separators_of(name)));
    }
  };
  std::string candidate;
  size_t votes = 0, count = 0;
  each([&](std::string_view component) {
    if (votes == 0) candidate = component;
    votes = candidate == component ? votes + 1 : votes - 1;
  });
  each([&](std::string_view component) { count += component == candidate; });
  return count > rows / 2 ? candidate : "";
}

// How many different texts there are. Two of the same hash count as one.
size_t distinct(std::vector<size_t>& hashes) {
  std::ranges::sort(hashes);
  return static_cast<size_t>(std::unique(hashes.begin(), hashes.end()) - hashes.begin());
}

}  // namespace

ShownNames::ShownNames(size_t rows, const std::function<std::string(size_t)>& name_of) {
  for (size_t i = 0; i < kMaxComponents && rows > 1; ++i) {
    const std::string next = common_component(rows, name_of, beginning_);
    if (next.empty()) break;
    beginning_ += next;
  }
  std::array<std::vector<size_t>, kForms.size()> hashes;
  for (size_t row = 0; row < rows; ++row) {
    const std::string name = name_of(row);
    has_weight_ = has_weight_ || name.ends_with(kWeightEnd);
    for (size_t form = 0; form < kForms.size(); ++form) {
      const std::string_view text = shown(name, kForms[form]);
      widths_[form] = std::max(widths_[form], width_of(text));
      hashes[form].push_back(std::hash<std::string_view>()(text));
    }
  }
  const size_t names = distinct(hashes[0]);
  for (size_t form = 1; form < kForms.size() && distinct(hashes[form]) == names; ++form) shortest_ = kForms[form];
}

std::string_view ShownNames::shown(std::string_view name, NameForm form) const {
  if (form == NameForm::whole) return name;
  if (name.size() > beginning_.size() && name.starts_with(beginning_)) name.remove_prefix(beginning_.size());
  if (form == NameForm::without_weight && name.size() > kWeightEnd.size() && name.ends_with(kWeightEnd))
    name.remove_suffix(kWeightEnd.size());
  return name;
}

std::string ShownNames::header(std::string_view word, NameForm form, const Style& style) const {
  if (form == NameForm::whole) return std::string(word);
  const bool lacks_weight = form == NameForm::without_weight && has_weight_;
  const std::string lost = beginning_ + (lacks_weight ? fmt::format("{}{}", style.ellipsis(), kWeightEnd) : "");
  return lost.empty() ? std::string(word) : fmt::format("{} ({})", word, lost);
}

std::vector<std::string> broken_name(std::string_view name, size_t width) {
  std::vector<std::string> lines;
  while (width_of(name) > width) {
    const size_t most = end_of_columns(name, width);
    const size_t separator = name.substr(0, most).find_last_of(kBreaks);
    const size_t end = separator != name.npos && separator + 1 > most / 2 ? separator + 1 : std::max<size_t>(most, 1);
    lines.emplace_back(name.substr(0, end));
    name.remove_prefix(end);
  }
  if (!name.empty() || lines.empty()) lines.emplace_back(name);
  return lines;
}

}  // namespace weightfs::info
