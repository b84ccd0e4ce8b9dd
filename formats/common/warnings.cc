#include "formats/common/warnings.h"

#include <iterator>

namespace weightfs {

void Warnings::append(const Warnings& others, std::string_view subject) {
  for (const std::string& line : others.lines_) add("{}{}", subject, line);
  omitted_ += others.omitted_;
  if (others.lacks_.is_set()) lacks_.edit().add(*others.lacks_, subject);
}

void Warnings::append(const Model& read, std::string_view subject) {
  for (const std::string& line : read.warnings) add("{}{}", subject, line);
  if (read.lacks.is_set()) lacks_.edit().add(*read.lacks, subject);
}

void Warnings::move_to(Model& model) && {
  if (lacks_.is_set()) model.lacks.edit().add(*lacks_, "");
  if (omitted_ > 0) lines_.push_back(more());
  std::move(lines_.begin(), lines_.end(), std::back_inserter(model.warnings));
}

std::vector<std::string> Warnings::lines() const {
  std::vector<std::string> lines = lines_;
  if (omitted_ > 0) lines.push_back(more());
  return lines;
}

std::string Warnings::more() const { return fmt::format("... and {} more", omitted_); }

void Warnings::lack(Code code, std::string line) {
  Lacks::Group& group = lacks_.edit().by_code[static_cast<size_t>(code)];
  if (group.count++ == 0) group.first = line;
  add("{}", line);
}

}  // namespace weightfs
