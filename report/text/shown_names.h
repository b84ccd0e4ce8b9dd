// Names of tensors in the rows of a table: what most of them have in common is in the header instead. Rows whose names
// differ look different at any width.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/text/style.h"

namespace weightfs::info {

/// What names lose, each more than the one before.
enum class NameForm { whole, without_beginning, without_weight };

class ShownNames {
 public:
  static constexpr std::array kForms = {NameForm::whole, NameForm::without_beginning, NameForm::without_weight};

  /// `name_of(row)` is the clean name of a row, which may be called several times for each of `rows`.
  ShownNames(size_t rows, const std::function<std::string(size_t)>& name_of);

  /// The form of fewest columns in which names that differ look different.
  NameForm shortest() const { return shortest_; }

  /// The name of a row: without the components that most names begin with, which never have a number, and without
  /// `.weight`.
  std::string_view shown(std::string_view name, NameForm form) const;

  /// "tensor (model.layers.….weight)": `word`, and what names in this form lack.
  std::string header(std::string_view word, NameForm form, const Style& style) const;

  /// The columns of the widest name in this form.
  size_t width(NameForm form) const { return widths_[static_cast<size_t>(form)]; }

 private:
  std::string beginning_;    // ends with a separator; may be empty
  bool has_weight_ = false;  // a name ends with `.weight`
  std::array<size_t, kForms.size()> widths_{};
  NameForm shortest_ = NameForm::whole;
};

/// A name in lines of at most `width` columns, broken after a separator where a line is at least half full.
std::vector<std::string> broken_name(std::string_view name, size_t width);

}  // namespace weightfs::info
