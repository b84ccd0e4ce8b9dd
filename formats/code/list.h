// What may run code when another program loads a model: one list for all formats, the field `code` of metadata.json
// (semantics 2.7). Parsers fill the common field `code`; what files of a model say is added when it is shown.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/values/value.h"

namespace weightfs {

/// One thing that may run code.
struct CodeItem {
  std::string what;   ///< "posix.system", "Lambda layer \"scale\""
  std::string where;  ///< the path of its file; empty: the model's own file
  std::string runs;   ///< when it runs: "when …"
};

/// When the calls of a pickle run, and those of pickles behind the first one.
inline constexpr const char* kUnpickled = "when the file is unpickled";
inline constexpr const char* kUnpickledLater = "when a program unpickles what follows the first pickle";

/// The number of items that are kept; further ones are counted.
inline constexpr size_t kMaxCodeItems = 256;

/// Items in the order in which they are found, each once.
class CodeList {
 public:
  void add(CodeItem item);

  /// Adds the names of a pickle, which are joined by ", ".
  void add_pickled(std::string_view names, const char* runs);

  /// Adds the items of the common fields of a part of the model. `file` is the path of the part.
  void append(const Map& common, std::string_view file);

  /// Adds the items to the common field `code`.
  void move_to(Map& common) &&;

  bool empty() const { return items_.empty(); }

  /// All items; the last one has the number of others that were omitted.
  std::vector<CodeItem> items() const;

 private:
  std::vector<CodeItem> items_;
  std::set<std::pair<std::string, std::string>> known_;  // what and where
  uint64_t others_ = 0;
};

/// Adds the names of a pickle, which are joined by ", ", to the common field `code`.
void add_pickled_code(Map& common, std::string_view names, const char* runs);

/// "posix.system, operator ReadFile": the first ones, and how many more there are; empty if there are none.
std::string names_of(const std::vector<CodeItem>& items);

/// How many items the last one of a list that was cut stands for; 0 for any other item.
uint64_t others_in(const CodeItem& item);

/// The list in metadata.json.
List to_list(const std::vector<CodeItem>& items);

}  // namespace weightfs
