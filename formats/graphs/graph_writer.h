// Writes graph.json and other documents about graphs as JSON, straight to their text: as Values, numbers would take ten
// times their size. Memory holds the text and one line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/values/rendering.h"

namespace weightfs {

/// Writes elements, and the commas between them. An element of an object is a key with its value.
class GraphWriter {
 public:
  explicit GraphWriter(TextSink& out) : out_(out) {}

  /// Begins an object `{` or a list `[`.
  void begin(char bracket) {
    separate();
    out_.append(1, bracket);
    is_first_ = true;
  }

  void begin(std::string_view name, char bracket) {
    key(name);
    begin(bracket);
  }

  /// Ends it, or several: "]}". Fails as check_size() does.
  Result<void> end(std::string_view brackets) {
    out_.append(brackets);
    is_first_ = false;
    return check_size();
  }

  /// Begins a line for the next element of a list, or the next key.
  void line(size_t indent = 0) {
    separate();
    out_.append(1, '\n');
    out_.append(2 * indent, ' ');
    is_first_ = true;
  }

  /// Begins a node: an object on a line of its own.
  void begin_node(size_t indent = 0) {
    line(indent);
    begin('{');
  }

  void key(std::string_view name) {
    text(name);
    out_.append(1, ':');
    is_first_ = true;
  }

  void text(std::string_view value) {
    separate();
    append_json_string(out_, value);
    is_first_ = false;
  }

  /// Appends a value that is JSON already.
  void json(std::string_view value) {
    separate();
    out_.append(value);
    is_first_ = false;
  }

  /// Appends a key and its value, which is JSON already. Fails as check_size() does.
  Result<void> attribute(std::string_view name, std::string_view value) {
    key(name);
    json(value);
    return check_size();
  }
  Result<void> text_attribute(std::string_view name, std::string_view value) {
    key(name);
    text(value);
    return check_size();
  }

  /// Appends a key and a list of `count` values. `value_at(i)` returns the JSON of one as a Result. Fails as it and
  /// check_size() do.
  template <class ValueAt>
  Result<void> list(std::string_view name, size_t count, const ValueAt& value_at) {
    begin(name, '[');
    for (size_t i = 0; i < count; ++i) {
      json(TRY(value_at(i)));
      TRY_VOID(check_size());
    }
    return end("]");
  }

  /// Fails with unsupported if the text is beyond its budget, so that its writer ends.
  Result<void> check_size() const {
    if (!out_.stopped()) return {};
    return failure(Code::unsupported, "a document beyond the budget");
  }

 private:
  void separate() {
    if (!is_first_) out_.append(1, ',');
  }

  TextSink& out_;
  bool is_first_ = true;  // nothing is to be separated from the next element
};

/// The text of a document, with a line break at its end. `write` is called twice with a GraphWriter, and returns a
/// Result<void>, whose failure is returned.
template <class Write>
Result<std::string> graph_document(Budget& budget, const Write& write) {
  return rendered(budget, [&](TextSink& out) -> Result<void> {
    GraphWriter writer(out);
    TRY_VOID(write(writer));
    out.append(1, '\n');
    return {};
  });
}

/// A document in place of one whose content is invalid: an object with the message as its `problem`.
inline Result<std::string> problem_document(Budget& budget, const Error& problem) {
  return graph_document(budget, [&](GraphWriter& writer) -> Result<void> {
    writer.begin('{');
    TRY_VOID(writer.text_attribute("problem", problem.message));
    return writer.end("}");
  });
}

}  // namespace weightfs
