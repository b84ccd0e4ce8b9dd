// Warnings about a container, and what the model lacks because of them. Their number is bounded, so that a hostile
// container cannot exhaust memory.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/model.h"

namespace weightfs {

/// The number of warnings that are kept; further ones are counted.
inline constexpr size_t kMaxWarnings = 100;

class Warnings {
 public:
  /// Adds a warning, formatted as by fmt::format(), about something that is shown nevertheless.
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    if (lines_.size() < kMaxWarnings)
      lines_.push_back(fmt::format(format, std::forward<Values>(values)...));
    else
      ++omitted_;
  }

  /// Adds a warning about a tensor that is refused, for a reason of this code: corrupt for damage, unsupported for a
  /// form that is not read.
  template <class... Values>
  void refuse(Code code, fmt::format_string<Values...> format, Values&&... values) {
    lack(code, fmt::format(format, std::forward<Values>(values)...));
  }

  /// Adds a warning about a tensor that is refused because its elements have no form as a tensor: addresses, lists of
  /// several lengths. The model is complete without it.
  template <class... Values>
  void pass_over_tensor(fmt::format_string<Values...> format, Values&&... values) {
    ++lacks_.edit().passed_over_tensors;
    add(format, std::forward<Values>(values)...);
  }

  /// Adds a warning about numbers of the model that are not tensors, and are not shown. The model is complete, but the
  /// number of its parameters is not known.
  template <class... Values>
  void pass_over_numbers(fmt::format_string<Values...> format, Values&&... values) {
    lacks_.edit().has_other_numbers = true;
    add(format, std::forward<Values>(values)...);
  }

  /// Adds a warning about tensors that the container lists, and that are not shown at all.
  template <class... Values>
  void miss_tensors(uint64_t count, Code code, fmt::format_string<Values...> format, Values&&... values) {
    lacks_.edit().missing_tensors += count;
    lack(code, fmt::format(format, std::forward<Values>(values)...));
  }

  /// Adds a warning about a file of the model that is missing or cannot be read, for a reason of this code.
  template <class... Values>
  void miss_file(Code code, fmt::format_string<Values...> format, Values&&... values) {
    ++lacks_.edit().files;
    lack(code, fmt::format(format, std::forward<Values>(values)...));
  }

  /// Tensors that are not shown because a file is missing.
  void add_missing_tensors(uint64_t count) { lacks_.edit().missing_tensors += count; }

  /// Tells which tensors an index lists for a file that is missing or cannot be read; a warning about it was added.
  void lose(Error reason, std::vector<std::string> tensors) {
    lacks_.edit().lost.push_back({std::move(reason), std::move(tensors)});
  }

  /// A file ends so many bytes before the last tensor that its header lists; those tensors are refused.
  void add_short_by(uint64_t bytes) { lacks_.edit().short_by += bytes; }

  /// Adds the warnings about one of several files, with `subject` before each.
  void append(const Warnings& others, std::string_view subject);
  /// Adds the warnings of a model in the container.
  void append(const Model& read, std::string_view subject);

  uint64_t size() const { return lines_.size() + omitted_; }

  /// Adds all lines to the model's, the last one with the number of omitted warnings, and what the model lacks.
  void move_to(Model& model) &&;

  /// All lines; the last one has the number of omitted warnings.
  std::vector<std::string> lines() const;

 private:
  void lack(Code code, std::string line);
  std::string more() const;

  std::vector<std::string> lines_;
  uint64_t omitted_ = 0;
  Rare<Lacks> lacks_;
};

}  // namespace weightfs
