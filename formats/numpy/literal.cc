#include "formats/numpy/literal.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"

namespace weightfs::numpy {
namespace {

constexpr std::string_view kWhite = " \t\r\n\f";
constexpr std::string_view kDigits = "0123456789";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9') || (c & 0x80) != 0;
}

// The characters that follow a backslash, and what they stand for.
constexpr std::array<std::pair<char, char>, 10> kEscapes = {{{'\\', '\\'},
                                                             {'\'', '\''},
                                                             {'"', '"'},
                                                             {'n', '\n'},
                                                             {'r', '\r'},
                                                             {'t', '\t'},
                                                             {'a', '\a'},
                                                             {'b', '\b'},
                                                             {'f', '\f'},
                                                             {'v', '\v'}}};

class Parser {
 public:
  Parser(std::string_view text, Charges& charges) : text_(text), charges_(charges) {}

  Result<Literal> parse_only() {
    Literal literal = TRY(parse(0));
    if (peek() != '\0' || at_ < text_.size()) return wrong("the end of the literal");
    return literal;
  }

 private:
  tl::unexpected<Error> wrong(std::string_view expected) const {
    const std::string_view found = text_.substr(std::min(at_, text_.size()), 20);
    return failure(Code::corrupt,
                   fmt::format("byte {}: {}, {} expected", at_, found.empty() ? "the end" : quoted(found), expected));
  }

  // The next character after white space; NUL at the end, and for a NUL.
  char peek() {
    at_ = std::min(text_.find_first_not_of(kWhite, at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  Result<Literal> parse(int depth) {
    if (depth > kMaxLiteralDepth)
      return failure(Code::corrupt, fmt::format("byte {}: nested deeper than {} levels", at_, kMaxLiteralDepth));
    TRY_VOID(charges_.charge(Cost::value));
    switch (const char c = peek()) {
      case '(':
        return parse_sequence(Sequence::Kind::tuple, ')', depth);
      case '[':
        return parse_sequence(Sequence::Kind::list, ']', depth);
      case '{':
        return parse_dict(depth);
      case '\'':
      case '"':
        return TRY(parse_text());
      default:
        return c == '-' || kDigits.find(c) != kDigits.npos ? parse_number() : parse_word();
    }
  }

  // Parentheses around one value without a comma are no tuple.
  Result<Literal> parse_sequence(Sequence::Kind kind, char end, int depth) {
    ++at_;
    Sequence sequence{kind, {}};
    while (!take(end)) {
      sequence.items.push_back(TRY(parse(depth + 1)));
      if (take(',')) continue;
      if (!take(end)) return wrong("a comma or the end of a sequence");
      if (kind == Sequence::Kind::tuple && sequence.items.size() == 1) return std::move(sequence.items.front());
      break;
    }
    return sequence;
  }

  Result<Literal> parse_dict(int depth) {
    ++at_;
    Dict dict;
    while (!take('}')) {
      Literal key = TRY(parse(depth + 1));
      std::string* const name = std::get_if<std::string>(&key);
      if (name == nullptr || !take(':')) return wrong("a string and a colon");
      Literal value = TRY(parse(depth + 1));
      dict.emplace_back(std::move(*name), std::move(value));
      if (take(',')) continue;
      if (!take('}')) return wrong("a comma or the end of the dict");
      break;
    }
    return dict;
  }

  Result<Literal> parse_number() {
    const size_t begin = at_;
    if (text_[at_] == '-') ++at_;
    at_ = std::min(text_.find_first_not_of(kDigits, at_), text_.size());
    int64_t number = 0;
    const char* const end = text_.data() + at_;
    const auto [parsed, error] = std::from_chars(text_.data() + begin, end, number);
    if (error == std::errc::result_out_of_range)
      return failure(Code::corrupt, fmt::format("byte {}: an integer beyond 64 bits", begin));
    if (at_ < text_.size() && (text_[at_] == 'L' || text_[at_] == 'l')) ++at_;
    if (error != std::errc() || parsed != end || (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')))
      return wrong("an integer");
    return number;
  }

  Result<Literal> parse_word() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "False") return word == "True";
    if (word == "None") return None{};
    const bool is_prefix = word == "u" || word == "b" || word == "U" || word == "B";
    if (is_prefix && at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) return TRY(parse_text());
    at_ = begin;
    return wrong("a literal");
  }

  Result<std::string> parse_text() {
    const char quote = text_[at_++];
    std::string out;
    for (;;) {
      const size_t plain = std::min(text_.find_first_of(quote == '"' ? "\"\\\n" : "'\\\n", at_), text_.size());
      out.append(text_.substr(at_, plain - at_));
      at_ = plain;
      if (at_ >= text_.size() || text_[at_] == '\n') return wrong("the end of a string");
      if (text_[at_++] == quote) break;
      TRY_VOID(parse_escape(out));
    }
    TRY_VOID(charges_.charge(Cost::kept, out.size()));
    return out;
  }

  // An unknown escape stays as it is, as in Python.
  Result<void> parse_escape(std::string& out) {
    if (at_ >= text_.size()) return wrong("an escaped character");
    const char c = text_[at_++];
    if (c == 'x' || c == 'u' || c == 'U') return parse_hex(out, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (c == 'N' || (c >= '0' && c <= '7')) return wrong("another escape");
    const auto* const row = std::find_if(kEscapes.begin(), kEscapes.end(), [&](auto e) { return e.first == c; });
    if (row == kEscapes.end()) out += '\\';
    out += row == kEscapes.end() ? c : row->second;
    return {};
  }

  Result<void> parse_hex(std::string& out, size_t digits) {
    const std::string_view hex = text_.substr(at_, digits);
    uint32_t point = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), point, 16);
    if (error != std::errc() || hex.size() < digits || end != hex.data() + digits || point > 0x10FFFF)
      return wrong("hexadecimal digits");
    at_ += digits;
    append_utf8(out, point);
    return {};
  }

  std::string_view text_;
  Charges& charges_;
  size_t at_ = 0;
};

class Printer {
 public:
  explicit Printer(size_t most) : most_(most) {}

  std::string print(const Literal& literal) && {
    std::visit([this](const auto& value) { add(value); }, static_cast<const Literal::variant&>(literal));
    if (out_.size() > most_) {
      out_.resize(most_);
      out_ = to_utf8(out_) + "...";
    }
    return std::move(out_);
  }

 private:
  void add(const None&) { out_ += "None"; }
  void add(bool value) { out_ += value ? "True" : "False"; }
  void add(int64_t number) { out_ += std::to_string(number); }
  void add(const std::string& text) {
    out_ += '\'';
    for (const char c : std::string_view(text).substr(0, most_)) {
      if (c == '\'' || c == '\\') out_ += '\\';
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7F')
        out_ += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      else
        out_ += c;
    }
    out_ += '\'';
  }
  void add(const Sequence& sequence) {
    const bool is_tuple = sequence.kind == Sequence::Kind::tuple;
    out_ += is_tuple ? '(' : '[';
    for (size_t i = 0; i < sequence.items.size() && out_.size() <= most_; ++i) {
      if (i > 0) out_ += ", ";
      std::visit([this](const auto& value) { add(value); }, static_cast<const Literal::variant&>(sequence.items[i]));
    }
    out_ += is_tuple ? (sequence.items.size() == 1 ? ",)" : ")") : "]";
  }
  void add(const Dict&) { out_ += "{...}"; }

  size_t most_;
  std::string out_;
};

}  // namespace

Result<Literal> parse_literal(std::string_view text, Charges& charges) { return Parser(text, charges).parse_only(); }

std::string to_python(const Literal& literal, size_t most) { return Printer(most).print(literal); }

}  // namespace weightfs::numpy
