#include "formats/names/name_index.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::mapping {
namespace {

constexpr char kNumberMark = '#';
constexpr size_t kMostDigits = 6;  // as in fit()

// In front of the names of a text model: of a whole model, an adapter, a model with towers, and BERT with a head.
constexpr auto kWrappers =
    std::to_array<std::string_view>({"model", "base_model", "transformer", "language_model", "text_model", "bert"});

bool is_wrapper(std::string_view component) { return std::ranges::find(kWrappers, component) != kWrappers.end(); }

// A name as the index has it.
class TableKey {
 public:
  /// False if the name is longer than any of the table, or has more or larger numbers.
  bool set(std::string_view name, NameForm form, bool is_pattern = false) {
    is_pattern_ = is_pattern;
    bool is_in_front = form == NameForm::hub;
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find_first_of("./", begin), name.size());
      const std::string_view component = name.substr(begin, end - begin);
      begin = end + 1;
      is_in_front = is_in_front && end < name.size() && is_wrapper(component);
      if (!is_in_front && !add(component)) return false;
    }
    return true;
  }

  std::string_view text() const { return {text_.data(), size_}; }
  /// Without the last component; empty if there is one.
  std::string_view module() const {
    const size_t end = text().rfind('.');
    return end == std::string_view::npos ? std::string_view() : text().substr(0, end);
  }
  size_t numbers() const { return count_; }
  uint32_t number(size_t i) const { return numbers_.at(i); }

 private:
  bool add(std::string_view component) {
    const bool is_number = !component.empty() && component.find_first_not_of("0123456789") == component.npos;
    if (is_number || (is_pattern_ && component.starts_with('{'))) {
      const bool is_plain = component.size() <= kMostDigits && (component.size() == 1 || component.front() != '0');
      if (!is_plain || count_ == numbers_.size()) return false;
      numbers_.at(count_++) = parse_number<uint32_t>(component).value_or(0);
      component = {&kNumberMark, 1};
    }
    if (size_ + component.size() + 1 > text_.size()) return false;
    if (size_ > 0) text_.at(size_++) = '.';
    std::ranges::copy(component, text_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += component.size();
    return true;
  }

  bool is_pattern_ = false;  // of the table: {} is a number
  std::array<char, 96> text_ = {};
  size_t size_ = 0;
  std::array<uint32_t, 2> numbers_ = {};
  size_t count_ = 0;
};

// The module of a pattern, whose other tensors are the same part.
std::string_view without_suffix(std::string_view pattern) {
  for (const std::string_view suffix : {".*", ".weight", ".bias"})
    if (pattern.ends_with(suffix)) return pattern.substr(0, pattern.size() - suffix.size());
  return pattern;
}

}  // namespace

NameIndex::NameIndex(const Architecture& architecture, NameForm form) : form_(form) {
  for (const NameRow& row : name_rows()) {
    const std::string_view pattern = form == NameForm::hub ? row.hub : row.gguf;
    TableKey key;
    if ((row.architectures & bit(architecture.id)) == 0 || pattern.empty()) continue;
    if (!key.set(without_suffix(pattern), form, true)) continue;
    const bool has_expert = pattern.find("{x}") != pattern.npos;
    rows_.push_back({std::string(key.text()), row.part, key.numbers(), has_expert});
  }
  std::ranges::stable_sort(rows_, {}, &Row::key);
}

const NameIndex::Row* NameIndex::row_of(std::string_view key, size_t numbers) const {
  const auto row = std::ranges::lower_bound(rows_, key, {}, [](const Row& one) { return std::string_view(one.key); });
  return row == rows_.end() || row->key != key || row->numbers != numbers ? nullptr : &*row;
}

std::optional<NameIndex::Found> NameIndex::find(std::string_view name) const {
  TableKey key;
  if (!key.set(name, form_)) return std::nullopt;
  const Row* row = row_of(key.text(), key.numbers());
  if (row == nullptr) row = row_of(key.module(), key.numbers());
  if (row == nullptr) return std::nullopt;
  Found out{row->part, {}, {}};
  if (row->numbers > 0) out.block = key.number(0);
  if (row->has_expert) out.expert = key.number(row->numbers - 1);
  return out;
}

}  // namespace weightfs::mapping
