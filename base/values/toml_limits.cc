#include "base/values/toml_limits.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// toml++ takes some 20 ns for a byte of text: as many bytes of input as are charged for one.
constexpr uint64_t kInputPerByte = 4;

// The number of tables of a list that toml++ examines in a microsecond, the time of a step.
constexpr uint64_t kTablesPerStep = 1000;

// In units of Cost::value, measured and rounded up: the entry of a table in a Map, and in addition in toml++'s table,
// more for a table with a header; an element of an array in both.
constexpr uint64_t kEntry = 2;
constexpr uint64_t kTemporaryEntry = 1;
constexpr uint64_t kTemporaryTable = 1;
constexpr uint64_t kElement = 1;
constexpr uint64_t kTemporaryElement = 1;

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_line_break(char c) { return c == '\n' || c == '\r'; }

class Scanner {
 public:
  Scanner(std::string_view text, Budget& budget) : text_(text), budget_(budget) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  ~Scanner() { budget_.release(Cost::value, held_); }
  Scanner(const Scanner&) = delete;
  Scanner& operator=(const Scanner&) = delete;

  Result<TomlSize> scan() {
    for (skip_space(); !at_end(); skip_space()) {
      if (!open_.empty() && (now() == ',' || now() == ']' || now() == '}')) {
        if (now() != ',') {
          depth_ = open_.back().depth_before;
          open_.pop_back();
        }
        ++at_;
      } else if (!open_.empty() && open_.back().is_array) {
        size_.kept += kElement;
        size_.temporary += kTemporaryElement;
        TRY_VOID(value(depth_));
      } else if (open_.empty() && now() == '[') {
        TRY_VOID(header());
      } else {
        TRY_VOID(pair());
      }
    }
    TRY_VOID(charge_comparisons());
    return size_;
  }

 private:
  // A bracket or brace that is not closed yet.
  struct Open {
    bool is_array;
    size_t depth_before;
  };

  bool at_end() const { return at_ == text_.size(); }
  char now() const { return text_[at_]; }
  bool at(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void skip_blanks() {
    while (!at_end() && is_blank(now())) ++at_;
  }

  // Blanks, line breaks and comments.
  void skip_space() {
    for (; !at_end() && (is_blank(now()) || is_line_break(now()) || now() == '#'); ++at_) {
      if (now() != '#') continue;
      at_ = text_.find('\n', at_);
      if (at_ == text_.npos) at_ = text_.size() - 1;
    }
  }

  // `depth` is that below the document, which is a table itself.
  Result<void> check_depth(size_t depth) const {
    if (depth < static_cast<size_t>(kMaxDepth)) return {};
    return failure(Code::unsupported,
                   fmt::format("line {}: TOML nested deeper than {}",
                               1 + std::count(text_.begin(), text_.begin() + place(), '\n'), kMaxDepth));
  }
  std::ptrdiff_t place() const { return static_cast<std::ptrdiff_t>(at_); }

  // [a.b] or [[a.b]], without the rest of the line.
  Result<void> header() {
    ++at_;
    skip_blanks();
    const bool is_array = !at_end() && now() == '[';
    if (is_array) ++at_;
    skip_blanks();
    const size_t begin = at_;
    depth_ = 0;
    size_.temporary += kTemporaryTable;
    const size_t parts = TRY(key(headers_));
    const std::string_view name = text_.substr(begin, at_ - begin);
    section_.clear();
    if (is_array) {
      // Tables of this name begin anew in each element.
      headers_.clear();
      if (TRY(insert(arrays_, name)) || parts > 1) ++tables_;
      has_arrays_ = true;
      size_.kept += kElement;
      size_.temporary += kTemporaryElement;
    }
    ++lookups_;
    // An array between two tables adds a level of its own.
    depth_ = has_arrays_ ? 2 * parts : parts;
    TRY_VOID(check_depth(depth_));
    header_depth_ = depth_;
    while (!at_end() && now() == ']') ++at_;
    return charge_comparisons();
  }

  // KEY = VALUE. Anything else is an error in `text`, at which toml++ stops.
  Result<void> pair() {
    if (open_.empty()) depth_ = header_depth_;
    const size_t depth_before = depth_;
    const size_t begin = at_;
    std::set<std::string_view> none;  // in an inline table, which is a table of its own each time
    const size_t parts = TRY(key(open_.empty() ? section_ : none));
    if (at_ == begin) ++at_;
    skip_blanks();
    if (at_end() || now() != '=') return {};
    ++at_;
    skip_blanks();
    depth_ += parts - 1;
    TRY_VOID(check_depth(depth_));
    if (!at_end() && !is_line_break(now())) TRY_VOID(value(depth_before));
    return charge_comparisons();
  }

  // A key with its dots; how many parts it has, at least 1. `known` are the tables that earlier keys have named.
  Result<size_t> key(std::set<std::string_view>& known) {
    const size_t begin = at_;
    size_t parts = 0;
    for (;;) {
      ++parts;
      size_.kept += kEntry;
      size_.temporary += kTemporaryEntry;
      TRY_VOID(check_depth(depth_ + parts - 1));
      key_part();
      const std::string_view so_far = text_.substr(begin, at_ - begin);
      skip_blanks();
      if (at_end() || now() != '.') return parts;
      ++lookups_;
      TRY_VOID(budget_.charge(Cost::input, so_far.size()));
      if (!arrays_.contains(so_far) && TRY(insert(known, so_far))) ++tables_;
      ++at_;
      skip_blanks();
    }
  }

  Result<bool> insert(std::set<std::string_view>& names, std::string_view name) {
    if (!names.insert(name).second) return false;
    TRY_VOID(budget_.charge(Cost::value));
    ++held_;
    return true;
  }

  void key_part() {
    if (at_end()) return;
    if (now() == '"' || now() == '\'') return string(std::string_view(&text_[at_], 1));
    constexpr std::string_view kEnds = " \t\r\n.=]\"'#";
    at_ = std::min(text_.find_first_of(kEnds, at_), text_.size());
  }

  // A value, of an array or inline table only the beginning. After it, `depth_before` is the depth.
  Result<void> value(size_t depth_before) {
    const char c = now();
    if (c == '[' || c == '{') {
      ++at_;
      open_.push_back({c == '[', depth_before});
      return check_depth(++depth_);
    }
    if (c == '"' || c == '\'') {
      const std::string_view three = c == '"' ? R"(""")" : "'''";
      string(at(three) ? three : three.substr(0, 1));
    } else {
      at_ = std::max(at_ + 1, std::min(text_.find_first_of(",]}#\r\n", at_), text_.size()));
    }
    depth_ = depth_before;
    return {};
  }

  // A string that `quotes` begin and end: "…", '…', """…""" or '''…'''.
  void string(std::string_view quotes) {
    at_ += quotes.size();
    const bool is_multi_line = quotes.size() > 1;
    const bool has_escapes = quotes[0] == '"';
    for (; !at_end(); ++at_) {
      if (at(quotes)) {
        at_ += quotes.size();
        // Up to two quotes may precede the closing ones.
        for (int more = 0; is_multi_line && more < 2 && at(quotes.substr(0, 1)); ++more) ++at_;
        return;
      }
      if (is_line_break(now()) && !is_multi_line) return;
      if (has_escapes && now() == '\\' && at_ + 1 < text_.size()) ++at_;
    }
  }

  // For a key or header in an existing table toml++ searches a list of all implicitly created tables.
  Result<void> charge_comparisons() {
    comparisons_ += lookups_ * tables_;
    lookups_ = 0;
    const uint64_t steps = comparisons_ / kTablesPerStep;
    comparisons_ %= kTablesPerStep;
    return steps == 0 ? Result<void>() : budget_.charge(Cost::step, steps);
  }

  std::string_view text_;
  Budget& budget_;
  size_t at_ = 0;
  std::vector<Open> open_;
  size_t depth_ = 0;         // of the tables and arrays that are open
  size_t header_depth_ = 0;  // of the table that keys outside brackets belong to
  bool has_arrays_ = false;  // there has been a [[header]]
  TomlSize size_;

  std::set<std::string_view> arrays_;   // the names of [[headers]]
  std::set<std::string_view> headers_;  // tables on the way of headers since the last [[header]]
  std::set<std::string_view> section_;  // tables on the way of keys since the last header
  uint64_t tables_ = 0;                 // in toml++'s lists, at most
  uint64_t lookups_ = 0;                // in them, not yet counted as comparisons
  uint64_t comparisons_ = 0;            // not yet charged
  uint64_t held_ = 0;                   // values charged for the names in the sets
};

}  // namespace

Result<TomlSize> measure_toml(std::string_view text, Budget& budget) {
  TRY_VOID(budget.charge(Cost::input, kInputPerByte * text.size()));
  return Scanner(text, budget).scan();
}

}  // namespace weightfs
