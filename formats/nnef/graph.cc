#include "formats/nnef/graph.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/nnef/tensor_file.h"

namespace weightfs::nnef {
namespace {

// The memory of a word that is kept, besides its bytes.
constexpr uint64_t kWordSize = 64;

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

bool is_quoted(std::string_view word) {
  return word.size() >= 2 && (word.front() == '"' || word.front() == '\'') && word.back() == word.front();
}

// Takes the words of a text: names and numbers, texts in quotes, and single characters. Comments begin with `#`.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  /// The next word; empty at the end.
  std::string_view next() {
    for (;;) {
      text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size()));
      if (!text_.starts_with('#')) break;
      text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
    }
    if (text_.empty()) return "";
    size_t length = 1;
    if (text_.front() == '"' || text_.front() == '\'')
      length = std::min(text_.find(text_.front(), 1), text_.size() - 1) + 1;
    else
      while (is_of_name(text_.front()) && length < text_.size() && is_of_name(text_[length])) ++length;
    const std::string_view word = text_.substr(0, length);
    text_.remove_prefix(length);
    return word;
  }

 private:
  std::string_view text_;
};

class Parser {
 public:
  Parser(std::string_view text, Charges& charges) : words_(text), charges_(charges) {}

  Result<Graph> parse() {
    for (std::string_view word = words_.next(); word != "graph"; word = words_.next()) {
      if (word.empty()) return failure(Code::corrupt, "no graph");
      if (word == "version") graph_.version = TRY(kept(words_.next()));
    }
    graph_.name = TRY(kept(words_.next()));
    TRY_VOID(read_names(graph_.inputs));
    TRY_VOID(read_names(graph_.outputs));
    TRY_VOID(read_body());
    return std::move(graph_);
  }

 private:
  Result<std::string> kept(std::string_view word) {
    TRY_VOID(charges_.charge(Cost::kept, kWordSize + word.size()));
    return std::string(word);
  }

  // "(a, b)"
  Result<void> read_names(std::vector<std::string>& names) {
    std::string_view word = words_.next();
    while (!word.empty() && word != "(") word = words_.next();
    for (word = words_.next(); !word.empty() && word != ")"; word = words_.next()) {
      if (word == ",") continue;
      std::string name = TRY(kept(word));
      names.push_back(std::move(name));
    }
    return {};
  }

  // "y = operation<type>(x, label = 'a/b');": an operation follows a `=` outside of parentheses.
  Result<void> read_body() {
    int64_t depth = 0;
    Variable variable;
    for (std::string_view before, word = words_.next(); !word.empty(); word = words_.next()) {
      if (word == "(" || word == "[") ++depth;
      if (word == ")" || word == "]") --depth;
      if (word == "}") graph_.is_whole = true;
      if (word == ";") TRY_VOID(add(std::exchange(variable, {})));
      if (word == "=" && depth == 0) {
        word = words_.next();
        TRY_VOID(count(word));
      } else if (word == "=" && before == "label") {
        word = words_.next();
        if (!is_quoted(word)) return failure(Code::corrupt, "a label that is not in quotes");
        variable.label = TRY(kept(word.substr(1, word.size() - 2)));
      } else if (word == "=" && before == "shape") {
        word = words_.next();
        if (word == "[") variable.shape = read_shape();
        if (word == "[") word = "]";
      }
      before = word;
    }
    return add(std::move(variable));
  }

  // The rest of "[1, 2]"; nothing if there is something else than numbers.
  std::optional<Shape> read_shape() {
    Shape shape;
    bool is_valid = true;
    for (std::string_view word = words_.next(); !word.empty() && word != "]"; word = words_.next()) {
      if (word == ",") continue;
      const auto size = parse_number<uint64_t>(word);
      is_valid = is_valid && size && shape.size() < kMaxRank;
      if (is_valid) shape.push_back(*size);
    }
    return is_valid ? std::optional(std::move(shape)) : std::nullopt;
  }

  // Only variables have a label.
  Result<void> add(Variable variable) {
    if (variable.label.empty()) return {};
    TRY_VOID(charges_.charge(Cost::kept, sizeof(Variable) + kMaxRank * sizeof(uint64_t)));
    graph_.variables.push_back(std::move(variable));
    return {};
  }

  Result<void> count(std::string_view operation) {
    constexpr size_t kMaxOperations = 1024;
    std::string name(operation);
    if (!graph_.operations.contains(name) && graph_.operations.size() >= kMaxOperations) name = "others";
    const auto [row, is_new] = graph_.operations.try_emplace(std::move(name));
    ++row->second;
    return is_new ? charges_.charge(Cost::kept, kWordSize + row->first.size()) : Result<void>();
  }

  Words words_;
  Charges& charges_;
  Graph graph_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, Charges& charges) { return Parser(text, charges).parse(); }

}  // namespace weightfs::nnef
