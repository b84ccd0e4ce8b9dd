// Writes lists of a FlatBuffer as JSON, straight from the buffer: as Values, numbers would take ten times their size.
#pragma once

#include <string>

#include "base/values/rendering.h"
#include "formats/flatbuffer/flatbuffer.h"

namespace weightfs::flatbuffer {

/// Fails with unsupported if the text is beyond its budget, so that its writer ends.
inline Result<void> check_size(const TextSink& out) {
  if (!out.stopped()) return {};
  return failure(Code::unsupported, "a document beyond the budget");
}

/// Appends the numbers of a list as a JSON list. `text` returns the JSON of a number. Fails as check_size() and as the
/// budget of the buffer does.
template <class Number, class Text>
Result<void> append_list(TextSink& out, const List& numbers, const Text& text) {
  TRY_VOID(numbers.charge());
  out.append(1, '[');
  for (uint64_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) out.append(1, ',');
    const auto number = TRY(numbers.template number<Number>(i));
    out.append(text(number));
    TRY_VOID(check_size(out));
  }
  out.append(1, ']');
  return {};
}

/// Appends a list of integers.
template <class Number>
Result<void> append_integers(TextSink& out, const List& numbers) {
  return append_list<Number>(out, numbers, [](Number number) { return std::to_string(number); });
}

}  // namespace weightfs::flatbuffer
