// A repeated field of strings as a tensor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/protobuf/scanner.h"

namespace weightfs::protobuf {

/// A repeated field of strings.
struct StringsField {
  uint32_t tag = 0;
  uint64_t count = 0;
  uint64_t bytes = 0;  ///< of all strings

  void add(const Range& text) {
    ++count;
    bytes += text.size();
  }
};

using Strings = std::shared_ptr<const std::vector<std::string>>;

/// The strings of `field` of `message`; bytes that are not UTF-8 become U+FFFD. They stay charged to `budget`. Reading
/// fails as the budget does.
Later<Strings> strings_of(SourcePtr source, Message message, const StringsField& field, BudgetPtr budget);

/// The strings as a text: each one unchanged, and a newline. Its size is known without reading.
SourcePtr string_lines(SourcePtr source, Message message, const StringsField& field);

}  // namespace weightfs::protobuf
