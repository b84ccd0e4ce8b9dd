// What a container lacks, as its reader found it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weightfs {

/// What the reader of a container found missing.
struct Lacks {
  /// The things that are missing or refused for one reason.
  struct Group {
    uint64_t count = 0;
    std::string first;  ///< the warning about the first of them
  };

  /// A file of the model that is missing or cannot be read, and the tensors that an index lists for it.
  struct LostFile {
    Error reason;
    std::vector<std::string> tensors;  ///< their names
  };

  std::array<Group, kCodes> by_code;  ///< by the Code of the reason
  uint64_t files = 0;            ///< of the things, those that are files of the model: shards, external data, layers
  uint64_t missing_tensors = 0;  ///< that the container lists, and that are not in the list of tensors
  std::vector<LostFile> lost;    ///< of the files, those whose tensors are known
  uint64_t passed_over_tensors = 0;  ///< refused ones that are whole: no tensor can have their elements
  bool has_other_numbers = false;    ///< the model has numbers that are not tensors, such as trees
  uint64_t short_by = 0;             ///< bytes by which files end before the tensors that their headers list

  /// Adds those of one of several files; `subject` comes before each text.
  void add(const Lacks& others, std::string_view subject);
};

}  // namespace weightfs
