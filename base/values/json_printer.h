// Writes JSON value by value: the figures of a million tensors are never in memory at once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/values/value.h"

namespace weightfs {

/// Writes an object, with the bytes that to_json() or to_json_line() of the whole object has.
class JsonPrinter {
 public:
  enum class Form { indented, line };
  using Write = std::function<void(std::string_view text)>;

  JsonPrinter(Form form, Write write) : form_(form), write_(std::move(write)) {}

  void member(std::string_view key, const Value& value);
  /// A member that is a list; its items follow.
  void begin_list(std::string_view key);
  void item(const Value& value);
  void end_list();
  /// Ends the object.
  void end();

 private:
  void begin_member(std::string_view key);
  void append(const Value& value, int depth);
  void flush();
  bool is_line() const { return form_ == Form::line; }

  const Form form_;
  const Write write_;
  std::string text_;  // that was not written
  bool has_members_ = false;
  bool has_items_ = false;
};

}  // namespace weightfs
