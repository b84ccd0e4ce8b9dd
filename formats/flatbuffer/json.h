// Writes lists of a FlatBuffer as JSON, straight from the buffer.
#pragma once

#include <string>

#include "formats/flatbuffer/flatbuffer.h"
#include "formats/graphs/graph_writer.h"

namespace weightfs::flatbuffer {

/// Appends a key and the numbers of a list as a JSON list. `text` returns the JSON of a number. Fails as
/// GraphWriter::list() and as the budget of the buffer do.
template <class Number, class Text>
Result<void> append_list(GraphWriter& out, std::string_view name, const List& numbers, const Text& text) {
  TRY_VOID(numbers.charge());
  return out.list(name, numbers.size(), [&](size_t i) { return numbers.template number<Number>(i).map(text); });
}

/// Appends a key and integers. Fails as append_list() does.
template <class Number>
Result<void> append_integers(GraphWriter& out, std::string_view name, const List& numbers) {
  return append_list<Number>(out, name, numbers, [](Number number) { return std::to_string(number); });
}

}  // namespace weightfs::flatbuffer
