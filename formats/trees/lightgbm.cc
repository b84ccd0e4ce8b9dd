// LightGBM's models as text (GBDT::SaveModelToString and Tree::ToString of gbdt_model_text.cpp and tree.cpp).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/text.h"
#include "formats/common/cursor.h"
#include "formats/format.h"
#include "formats/grouped.h"
#include "formats/trees/arrays.h"
#include "formats/trees/long_list.h"

namespace weightfs {
namespace trees {
namespace {

// The length of a row: the number of leaves, one fewer, or one more than the number of categorical splits.
enum class RowLength : uint8_t { splits, leaves, categories, any };

struct Row {
  std::string_view key;
  Element element;
  RowLength length = RowLength::splits;
};

constexpr auto kRows = std::to_array<Row>({
    {"split_feature", Element::int32},
    {"split_gain", Element::float32},
    {"threshold", Element::float64},
    {"decision_type", Element::int8},
    {"left_child", Element::int32},
    {"right_child", Element::int32},
    {"leaf_value", Element::float64, RowLength::leaves},
    {"leaf_weight", Element::float64, RowLength::leaves},
    {"leaf_count", Element::int32, RowLength::leaves},
    {"internal_value", Element::float64},
    {"internal_weight", Element::float64},
    {"internal_count", Element::int32},
    {"cat_boundaries", Element::int32, RowLength::categories},
    {"cat_threshold", Element::uint32, RowLength::any},
    {"leaf_const", Element::float64, RowLength::leaves},
    {"num_features", Element::int32, RowLength::leaves},
    {"leaf_features", Element::int32, RowLength::any},
    {"leaf_coeff", Element::float64, RowLength::any},
});

// Numbers of a tree that are metadata.
constexpr std::array<std::string_view, 4> kTreeFacts = {"num_leaves", "num_cat", "shrinkage", "is_linear"};

// Facts that are lists of texts.
constexpr std::array<std::string_view, 3> kLists = {"feature_names", "feature_infos", "monotone_constraints"};

constexpr size_t kMaxKey = 64;
constexpr size_t kMaxValue = 4096;
constexpr size_t kMaxWord = 1 << 20;
constexpr size_t kMaxFacts = 1024;

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// A hole of a sparse file would be a line without end.
Result<void> check_text(std::string_view bytes, uint64_t at) {
  const size_t nul = bytes.find('\0');
  return nul == bytes.npos ? Result<void>() : failure(Code::corrupt, fmt::format("a NUL byte at {}", at + nul));
}

// Calls `take` with the first kMaxWord bytes of each word of the rest of the line, and returns how many words are
// longer. The line break stays to be read.
template <class Take>
Result<uint64_t> each_word(Cursor& in, const Take& take) {
  std::string word;
  bool is_cut = false;
  for (uint64_t cut_words = 0;;) {
    const std::string_view bytes = TRY(in.ahead());
    const size_t end = std::min(bytes.find_first_of(" \t\r\n"), bytes.size());
    TRY_VOID(check_text(bytes.substr(0, end), in.position()));
    const size_t kept = std::min(end, kMaxWord - word.size());
    word.append(bytes.substr(0, kept));
    is_cut = is_cut || kept < end;
    const bool has_ended = bytes.empty() || (end < bytes.size() && bytes[end] == '\n');
    if (end < bytes.size() || has_ended) {
      if (!word.empty()) TRY_VOID(take(word));
      word.clear();
      cut_words += std::exchange(is_cut, false) ? uint64_t{1} : uint64_t{0};
    }
    if (has_ended) return cut_words;
    TRY_VOID(in.skip(std::min(end + 1, bytes.size())));
  }
}

class LightGbmReader {
 public:
  explicit LightGbmReader(const Container& container)
      : container_(container),
        budget_(*container.budget),
        in_(*container.bytes, 0, container.bytes->size()),
        arrays_(model_, warnings_, budget_) {}

  Result<Model> read() {
    TRY_VOID(budget_.charge(Cost::input, container_.bytes->size()));
    while (TRY(read_line())) {
    }
    if (trees_ == 0 && !has_ended_) return failure(Code::corrupt, "no trees");
    TRY_VOID(report_cut());
    TRY_VOID(arrays_.finish(container_.bytes));
    add_tree_facts();
    if (cut_values_ > 0)
      warnings_.add("{} values of the metadata are longer than {} bytes, and cut", cut_values_, kMaxValue);
    if (cut_words_ > 0)
      warnings_.add("{} texts in lists of the metadata are longer than {} bytes, and cut", cut_words_, kMaxWord);
    if (omitted_ > 0) warnings_.add("{} lines are not shown", omitted_);
    facts_.keep_last_of_each_key();
    parameters_.keep_last_of_each_key();
    model_.format = "lightgbm";
    model_.version = text_in(facts_, "version").substr(0, kMaxKey);
    model_.metadata = std::move(facts_);
    if (!parameters_.empty()) model_.metadata.append("parameters", std::move(parameters_));
    model_.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  enum class Section { header, tree, end_of_trees, importances, parameters, end };

  // The next line; false at the end of the file.
  Result<bool> read_line() {
    const std::string_view bytes = TRY(in_.ahead(kMaxKey + 1)).substr(0, kMaxKey + 1);
    if (bytes.starts_with('\0')) warnings_.add("{} after the text", counted_bytes(in_.left()));
    if (bytes.empty() || bytes.front() == '\0') return false;
    const size_t end = std::min(bytes.find_first_of("=\n:"), bytes.size());
    const std::string key(trimmed(bytes.substr(0, end)));
    const bool has_value = end < bytes.size() && bytes[end] == '=';
    if (has_value) TRY_VOID(in_.skip(end + 1));
    if (has_value && key == "Tree" && section_ <= Section::tree) {
      TRY_VOID(end_tree());
      TRY_VOID(begin_tree());
    } else if (has_value && is_open_) {
      TRY_VOID(read_row(key));
    } else {
      TRY_VOID(read_other(key, has_value));
    }
    TRY_VOID(value(0));
    if (in_.left() > 0) TRY_VOID(in_.skip(1));
    return true;
  }

  // The rest of the line, of which at most `most` bytes are kept. The line break stays to be read.
  Result<std::string> value(size_t most) {
    std::string text;
    for (bool is_cut = false;;) {
      const std::string_view bytes = TRY(in_.ahead());
      const size_t end = std::min(bytes.find('\n'), bytes.size());
      TRY_VOID(check_text(bytes.substr(0, end), in_.position()));
      const size_t kept = std::min(end, most - text.size());
      text.append(bytes.substr(0, kept));
      if (most > 0 && kept < end) is_cut = true;
      TRY_VOID(in_.skip(end));
      if (end < bytes.size() || bytes.empty()) {
        cut_values_ += is_cut ? 1 : 0;
        return std::string(trimmed(text));
      }
    }
  }

  Result<void> begin_tree() {
    number_of_tree_ = parse_number<uint64_t>(TRY(value(kMaxKey)));
    section_ = Section::tree;
    first_of_tree_ = model_.tensors.size();
    facts_of_tree_ = {};
    lengths_.clear();
    is_open_ = true;
    return {};
  }

  // A tree ends with an empty line, or with what follows it.
  Result<void> end_tree() {
    if (!is_open_) return {};
    is_open_ = false;
    ++trees_;
    check_number();
    for (size_t i = 0; i < lengths_.size(); ++i) check_length(first_of_tree_ + i, lengths_[i]);
    check_rows();
    if (facts_of_trees_.size() >= kMaxInlineList) return {};  // more are not shown
    TRY_VOID(budget_.charge(Cost::kept, sizeof(TreeFacts)));
    facts_of_trees_.push_back(facts_of_tree_);
    return {};
  }

  // The trees are numbered, one after the other.
  void check_number() {
    const auto before = std::exchange(last_number_, number_of_tree_);
    if (before && number_of_tree_ != *before + 1)
      warnings_.miss_tensors(0, Code::corrupt, "Tree={} follows Tree={}",
                             number_of_tree_ ? std::to_string(*number_of_tree_) : "?", *before);
  }

  // The rows without which Tree::Tree() fails. A tree of one leaf has fewer.
  void check_rows() {
    const auto& leaves = facts_of_tree_[0];
    if (!leaves || !leaves->is_integer || leaves->integer < 2) return;
    std::set<std::string_view> found;
    const std::string prefix = fmt::format("trees.{}.", trees_ - 1);
    for (size_t i = first_of_tree_; i < model_.tensors.size(); ++i)
      found.insert(model_.tensors.name(i).substr(prefix.size()));
    for (const char* const key : {"split_feature", "threshold", "left_child", "right_child", "leaf_value"})
      if (!found.contains(key)) warnings_.miss_tensors(1, Code::corrupt, "trees.{}: {} is missing", trees_ - 1, key);
  }

  Result<void> read_row(const std::string& key) {
    const auto row = std::ranges::find(kRows, key, &Row::key);
    if (row != kRows.end()) {
      const auto run = TRY(read_numbers(row->element));
      lengths_.push_back(row->length);
      return arrays_.add(fmt::format("trees.{}.{}", trees_, key), row->element, run);
    }
    const auto fact = std::ranges::find(kTreeFacts, key);
    if (fact == kTreeFacts.end()) ++omitted_;
    if (fact == kTreeFacts.end()) return {};
    facts_of_tree_[static_cast<size_t>(fact - kTreeFacts.begin())] = parse_number_text(TRY(value(kMaxKey)));
    return {};
  }

  // The numbers of the rest of the line; nothing if there is something else.
  Result<std::optional<Run>> read_numbers(Element element) {
    RunBuilder run(arrays_.runs(), budget_, {.begin = in_.position(), .encoding = Encoding::text, .element = element});
    for (;;) {
      std::string_view bytes = TRY(in_.ahead(kMaxNumberLength + 1));
      const auto blank = static_cast<size_t>(std::ranges::find_if_not(bytes, is_space) - bytes.begin());
      if (blank > 0) {
        TRY_VOID(in_.skip(blank));
        continue;
      }
      if (bytes.empty() || bytes.front() == '\n') return run.finish();
      const size_t end = std::min(bytes.find_first_of(" \t\r\n"), bytes.size());
      TRY_VOID(check_text(bytes.substr(0, end), in_.position()));
      TRY_VOID(run.add(parse_number_text(bytes.substr(0, end)), in_.position()));
      TRY_VOID(in_.skip(end));
    }
  }

  // A line that is not one of a tree.
  Result<void> read_other(const std::string& key, bool has_value) {
    if (key.empty() || !has_value) TRY_VOID(end_tree());
    if (const auto next = section_named(key)) section_ = *next;
    has_ended_ = has_ended_ || section_ > Section::tree;
    if (section_ == Section::parameters && key.starts_with('[')) return read_parameter();
    if (key == "pandas_categorical") return add_fact(facts_, key, TRY(value_behind(key)));
    if (section_ != Section::header) return {};
    if (!has_value) return key == "average_output" ? add_fact(facts_, key, true) : Result<void>();
    if (std::ranges::find(kLists, key) != kLists.end()) return read_list(key);
    if (key == "tree_sizes") return count_sizes();
    return add_fact(facts_, key, TRY(read_fact()));
  }

  static std::optional<Section> section_named(std::string_view key) {
    if (key == "end of trees") return Section::end_of_trees;
    if (key == "feature_importances" || key == "feature importances") return Section::importances;
    if (key == "parameters") return Section::parameters;
    if (key == "end of parameters" || key == "pandas_categorical") return Section::end;
    return std::nullopt;
  }

  Result<Value> read_fact() {
    std::string text = TRY(value(kMaxValue));
    if (const auto number = parse_number<int64_t>(text)) return Value(*number);
    return Value(std::move(text));
  }

  // The text behind `KEY:`.
  Result<Value> value_behind(const std::string& key) {
    const std::string line = TRY(value(kMaxValue));
    return Value(line.substr(std::min(key.size() + 1, line.size())));
  }

  // "[name: value]"
  Result<void> read_parameter() {
    const std::string line = TRY(value(kMaxValue));
    const size_t colon = line.find(": ");
    if (colon == line.npos || !line.ends_with(']')) return {};
    return add_fact(parameters_, line.substr(1, colon - 1), Value(line.substr(colon + 2, line.size() - colon - 3)));
  }

  Result<void> add_fact(Map& facts, std::string key, Value value) {
    if (facts.size() >= kMaxFacts) {
      ++omitted_;
      return {};
    }
    const Footprint size = footprint(value);
    TRY_VOID(budget_.charge(Cost::value, size.values + 1));
    TRY_VOID(budget_.charge(Cost::kept, size.bytes + key.size()));
    facts.append(std::move(key), std::move(value));
    return {};
  }

  Result<void> read_list(const std::string& key) {
    const uint64_t begin = in_.position();
    List list;
    bool is_long = false;
    const auto keep = [&](const std::string& word) -> Result<void> {
      is_long = is_long || list.size() == kMaxInlineList;
      if (is_long) return {};
      TRY_VOID(budget_.charge(Cost::value));
      TRY_VOID(budget_.charge(Cost::kept, word.size()));
      list.emplace_back(word);
      return {};
    };
    cut_words_ += TRY(each_word(in_, keep));
    if (!is_long) return add_fact(facts_, key, std::move(list));
    return add_fact(facts_, key, long_list(model_, key, container_, [begin](const Source& file, const TakeText& take) {
                      Cursor in(file, begin, file.size());
                      return each_word(in, take).map([](uint64_t) {});
                    }));
  }

  // LightGBM jumps from tree to tree by these sizes. Here they only tell how many trees there were.
  Result<void> count_sizes() {
    stated_trees_ = 0;
    const auto count = [&](const std::string&) -> Result<void> {
      ++stated_trees_;
      return {};
    };
    return each_word(in_, count).map([](uint64_t) {});
  }

  // Whether the text ends with a whole line of its last section. LightGBM writes importances behind the trees, and ends
  // its parameters; only Python writes the line behind them.
  Result<bool> has_end() {
    if (section_ != Section::importances && section_ != Section::end) return false;
    constexpr uint64_t kTail = 64;
    const uint64_t size = container_.bytes->size(), shown = std::min(size, kTail);
    const std::string tail = TRY(read_text(*container_.bytes, size - shown, shown));
    if (in_.left() > 0 || tail.ends_with('\n')) return true;  // only NUL bytes follow
    if (section_ == Section::importances) return false;
    const std::string_view text = trimmed(tail);
    for (const char* const last : {"\nend of parameters", "pandas_categorical:null", "pandas_categorical:[]", "]]"})
      if (text.ends_with(last)) return true;
    return false;
  }

  // A tree at the end of the file may lack numbers, or digits.
  Result<void> report_cut() {
    const bool is_whole = TRY(has_end());
    if (has_ended_) {
      if (stated_trees_ > trees_)
        warnings_.miss_tensors(stated_trees_ - trees_, Code::corrupt, "{} trees, tree_sizes has {}", trees_,
                               stated_trees_);
      else if (stated_trees_ > 0 && stated_trees_ < trees_)
        warnings_.add("{} trees, tree_sizes has {}", trees_, stated_trees_);
      if (!is_whole) warnings_.miss_tensors(0, Code::corrupt, "the file was cut behind its trees");
      return {};
    }
    if (is_open_) arrays_.drop_from(first_of_tree_);
    const uint64_t missing = std::max<uint64_t>(stated_trees_ > trees_ ? stated_trees_ - trees_ : 0, is_open_ ? 1 : 0);
    warnings_.miss_tensors(missing, Code::corrupt, "the file was cut: {} whole trees{}", trees_,
                           stated_trees_ > 0 ? fmt::format(" of {}", stated_trees_) : "");
    return {};
  }

  void check_length(size_t tensor, RowLength length) {
    const auto& [leaves, categories, shrinkage, is_linear] = facts_of_tree_;
    if (length == RowLength::any || model_.tensors.shape(tensor).empty() || !leaves || !leaves->is_integer) return;
    const auto count = static_cast<int64_t>(model_.tensors.shape(tensor)[0]);  // at most an eighth of the most
    const bool differs = length == RowLength::leaves   ? count != leaves->integer
                         : length == RowLength::splits ? count + 1 != leaves->integer
                                                       : count - 1 != categories.value_or(Number{}).integer;
    if (differs)
      warnings_.add("tensor {}: {} elements, num_leaves is {} and num_cat {}", quoted(model_.tensors.name(tensor)),
                    count, leaves->integer, categories.value_or(Number{}).integer);
  }

  // The numbers of all trees, as lists.
  void add_tree_facts() {
    Map trees;
    trees.append("count", trees_);
    for (size_t fact = 0; fact < kTreeFacts.size() && trees_ <= kMaxInlineList; ++fact) {
      List values;
      for (const TreeFacts& tree : facts_of_trees_) {
        const auto& number = tree[fact];
        values.push_back(!number ? Value() : number->is_integer ? Value(number->integer) : Value(number->real));
      }
      trees.append(std::string(kTreeFacts[fact]), std::move(values));
    }
    facts_.append("trees", std::move(trees));
  }

  using TreeFacts = std::array<std::optional<Number>, kTreeFacts.size()>;

  const Container& container_;
  Budget& budget_;
  Cursor in_;
  Model model_;
  Warnings warnings_;
  Arrays arrays_;
  Map facts_, parameters_;
  Section section_ = Section::header;
  std::vector<TreeFacts> facts_of_trees_;
  TreeFacts facts_of_tree_;
  std::vector<RowLength> lengths_;  // of the rows of the tree
  size_t first_of_tree_ = 0;
  std::optional<uint64_t> number_of_tree_, last_number_;  // in the first lines of the tree and the one before
  uint64_t trees_ = 0;
  uint64_t stated_trees_ = 0;
  uint64_t omitted_ = 0;
  uint64_t cut_values_ = 0;
  uint64_t cut_words_ = 0;
  bool is_open_ = false;    // a tree has begun
  bool has_ended_ = false;  // the line `end of trees`, or one that is behind it, was read
};

}  // namespace
}  // namespace trees

Match matches_lightgbm(const Probe& probe) {
  constexpr std::string_view kFirst = "tree";
  if (!probe.head.starts_with(kFirst)) return Match::no;
  std::string_view next = probe.head.substr(kFirst.size());
  if (next.starts_with('\r')) next.remove_prefix(1);
  return next.starts_with("\nversion=") ? Match::yes : Match::no;
}

Result<Model> read_lightgbm(const Container& container) { return trees::LightGbmReader(container).read(); }

}  // namespace weightfs
