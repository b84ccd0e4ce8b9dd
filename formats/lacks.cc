#include "formats/lacks.h"

#include <fmt/core.h>

#include <utility>

namespace weightfs {

void Lacks::add(const Lacks& others, std::string_view subject) {
  for (size_t code = 0; code < by_code.size(); ++code) {
    Group& own = by_code[code];
    const Group& other = others.by_code[code];
    if (own.count == 0 && other.count > 0) own.first = fmt::format("{}{}", subject, other.first);
    own.count += other.count;
  }
  files += others.files;
  missing_tensors += others.missing_tensors;
  passed_over_tensors += others.passed_over_tensors;
  has_other_numbers |= others.has_other_numbers;
  for (LostFile file : others.lost) {
    file.reason.message.insert(0, subject);
    lost.push_back(std::move(file));
  }
  short_by += others.short_by;
}

}  // namespace weightfs
