// The output of the renderings of a Value. A text is written twice: first only counted and charged, then built in
// memory of exactly that size.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/budget.h"
#include "base/result.h"
#include "base/source.h"
#include "base/values/value.h"

namespace weightfs {

/// Whether a byte is written as it is into a string of JSON and of TOML.
inline bool is_plain(char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

/// The short escape that JSON and TOML share: `\"`, `\\`, `\b`, `\f`, `\n`, `\r` or `\t`; empty for another character.
std::string_view short_escape(char c);

class TextSink {
 public:
  /// Builds the text; `size` bytes are reserved.
  explicit TextSink(uint64_t size) { text_.reserve(size); }

  /// Only counts the text and charges `budget`. The destructor releases all charges unless finish() succeeded.
  explicit TextSink(Budget& budget) : budget_(&budget) {}

  ~TextSink();
  TextSink(const TextSink&) = delete;
  TextSink& operator=(const TextSink&) = delete;

  void append(std::string_view text) {
    if (budget_ == nullptr)
      text_ += text;
    else
      count(text.size());
  }
  void append(size_t times, char c) {
    if (budget_ == nullptr)
      text_.append(times, c);
    else
      count(times);
  }

  /// Charges the writer's own memory for `values`, and releases it.
  void hold(uint64_t values);
  void let_go(uint64_t values);

  bool stopped() const { return error_.has_value(); }  ///< over budget: the writer may end

  Result<uint64_t> finish();  ///< the size of the counted text, which stays charged
  std::string take() && { return std::move(text_); }

 private:
  void count(uint64_t bytes);
  bool charge(Cost cost, uint64_t count);

  std::string text_;
  Budget* budget_ = nullptr;
  std::optional<Error> error_;
  uint64_t size_ = 0;
  uint64_t charged_ = 0;  // of size_
  uint64_t held_ = 0;     // values
};

/// The text that `write` writes to the sink it is called with. It is called twice, and returns nothing or a
/// Result<void>, whose failure is returned.
template <class Write>
Result<std::string> rendered(Budget& budget, const Write& write) {
  const auto run = [&](TextSink& sink) -> Result<void> {
    if constexpr (std::is_void_v<decltype(write(sink))>) {
      write(sink);
      return {};
    } else {
      return write(sink);
    }
  };
  TextSink counter(budget);
  const auto counted = run(counter);
  const uint64_t size = TRY(counter.finish());  // first: over budget, `write` may have ended early
  TRY_VOID(counted);
  TextSink text(size);
  TRY_VOID(run(text));
  return std::move(text).take();
}

/// Renders without charging a budget.
template <class Write>
std::string rendered(const Write& write) {
  TextSink text(uint64_t{0});
  write(text);
  return std::move(text).take();
}

/// A text that rendered() or a rendering of value.h charged to `budget`, as bytes. The charge is released with the
/// bytes.
SourcePtr charged_text(std::string text, BudgetPtr budget);

/// A value of a document, `depth` levels below it, as to_json() of the document has it, without a newline at the end.
std::string to_json_nested(const Value& value, int depth);

/// Appends `text` as a JSON string, as append_json_string() of value.h does.
void append_json_string(TextSink& out, std::string_view text);

/// A finite number as JSON: the shortest decimal that parses to the same number, with a point or an exponent.
std::string json_number(double number);

}  // namespace weightfs
