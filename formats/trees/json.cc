// JSON as XGBoost writes and reads it: with NaN and infinities, which the parser of base/values refuses, and with the
// places of the arrays, which it does not tell.
#include "base/values/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/trees/document.h"

namespace weightfs::trees {
namespace {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// A character of a number or of a word such as `true`.
constexpr bool is_of_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.';
}

class Json final : public Document {
 public:
  Json(const Source& source, uint64_t begin, Budget* budget) : in_(source, begin, source.size()), budget_(budget) {}

  Result<Kind> kind() override {
    const char c = TRY(first());
    if (c == '{') return Kind::object;
    if (c == '[') return Kind::array;
    if (c == '"') return Kind::text;
    if (c == 't' || c == 'f') return Kind::boolean;
    if (c == 'n') return Kind::null;
    if (is_of_word(c)) return Kind::number;
    return unexpected(c);
  }

  Result<void> enter() override {
    if (open_.size() >= kMaxDepth) return failure(Code::corrupt, fmt::format("nested deeper than {}", kMaxDepth));
    const char c = TRY(first());
    open_.push_back({c == '{' ? '}' : ']', true});
    return in_.skip(1);
  }

  Result<std::optional<std::string>> next_key() override {
    if (!TRY(next_element())) return std::nullopt;
    if (const char c = TRY(first()); c != '"') return unexpected(c);
    std::string key = TRY(quoted_text(kMaxNameLength));
    if (const char c = TRY(first()); c != ':') return unexpected(c);
    TRY_VOID(in_.skip(1));
    return key;
  }

  Result<bool> next_element() override {
    Open& open = open_.back();
    const char c = TRY(first());
    if (c == open.end) {
      open_.pop_back();
      TRY_VOID(in_.skip(1));
      return false;
    }
    if (std::exchange(open.is_first, false)) return true;
    if (c != ',') return unexpected(c);
    TRY_VOID(in_.skip(1));
    if (const char next = TRY(first()); next == open.end) return unexpected(next);
    return true;
  }

  Result<std::string> text() override { return quoted_text(kMaxTextLength); }

  Result<std::optional<Number>> number() override {
    TRY(first());
    const uint64_t begin = in_.position();
    const std::string_view bytes = TRY(in_.ahead(kMaxNumberLength + 1));
    const auto end = std::ranges::find_if_not(bytes, is_of_word);
    const std::string_view word = bytes.substr(0, static_cast<size_t>(end - bytes.begin()));
    const auto number = parse_number_text(word);
    if (!number && word != "null")
      return failure(Code::corrupt, fmt::format("{} at byte {}, a number expected", quoted(word.substr(0, 20)), begin));
    TRY_VOID(in_.skip(word.size()));
    return number;
  }

  Result<Stored> stored_numbers(Element element) override {
    return Stored{Run{.begin = in_.position(), .encoding = Encoding::text, .element = element}, std::nullopt};
  }

  uint64_t position() const override { return in_.position(); }

 private:
  // An object or array that was entered.
  struct Open {
    char end;
    bool is_first;
  };

  // The next character that is not white space.
  Result<char> first() {
    for (;;) {
      const std::string_view bytes = TRY(in_.ahead());
      if (bytes.empty()) return failure(Code::corrupt, fmt::format("ends at byte {}", in_.position()));
      if (!is_blank(bytes.front())) return bytes.front();
      const auto end = std::ranges::find_if_not(bytes, is_blank);
      TRY_VOID(in_.skip(static_cast<uint64_t>(end - bytes.begin())));
    }
  }

  tl::unexpected<Error> unexpected(char c) const {
    return failure(Code::corrupt, fmt::format("unexpected {} at byte {}", quoted(std::string(1, c)), in_.position()));
  }

  // A text in quotes, of at most `most` bytes as it is stored.
  Result<std::string> quoted_text(uint64_t most) {
    std::string raw;
    bool has_escapes = false;
    const uint64_t begin = in_.position();
    TRY_VOID(in_.skip(1));
    for (bool is_escaped = false;;) {
      const std::string_view bytes = TRY(in_.ahead());
      if (bytes.empty()) return failure(Code::corrupt, "ends in a text");
      size_t length = 0;
      for (; length < bytes.size() && (is_escaped || bytes[length] != '"'); ++length) {
        is_escaped = !is_escaped && bytes[length] == '\\';
        has_escapes = has_escapes || is_escaped;
      }
      if (raw.size() + length > most)
        return failure(Code::corrupt, fmt::format("a text of more than {} bytes at byte {}", most, begin));
      raw.append(bytes.substr(0, length));
      const bool has_ended = length < bytes.size();
      TRY_VOID(in_.skip(length + (has_ended ? 1 : 0)));
      if (has_ended) return has_escapes ? unescaped(raw) : raw;
    }
  }

  Result<std::string> unescaped(const std::string& raw) const {
    if (budget_ != nullptr) TRY_VOID(budget_->charge(Cost::step));
    const SourcePtr source = in_memory(fmt::format("\"{}\"", raw));
    Value value = TRY(parse_json(*source, 0, source->size()));
    return std::move(std::get<std::string>(value));
  }

  Cursor in_;
  Budget* budget_;  // may be null
  std::vector<Open> open_;
};

}  // namespace

std::unique_ptr<Document> open_json(const Source& source, uint64_t begin, Budget* budget) {
  return std::make_unique<Json>(source, begin, budget);
}

}  // namespace weightfs::trees
