#include "report/info/screen.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "formats/summary/blocks.h"
#include "report/info/block_table.h"
#include "report/info/facts.h"
#include "report/info/head.h"

namespace weightfs::info {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kBlocks = 12;
constexpr size_t kBlocksNarrow = 8;
constexpr size_t kKeptBlocks = 8;  // rows that remain while facts can be left out
constexpr size_t kMinBlocks = 2;
constexpr size_t kLabel = 13;  // columns: the value begins at column 15
constexpr size_t kLabelNarrow = 12;

void add_lines(Lines& out, Lines lines) {
  for (std::string& line : lines) out.push_back(std::move(line));
}

class Screen {
 public:
  Screen(const Subject& subject, const Style& style, std::optional<size_t> blocks)
      : subject_(subject), style_(style), has_limit_(!blocks), head_(head_of(subject, style)) {
    for (const Fact& fact : facts_of(subject, style)) facts_.push_back({fact.rank, lines_of(fact)});
    fold(blocks.value_or(style.is_narrow() ? kBlocksNarrow : kBlocks));
    if (has_limit_) fit();
  }

  Lines lines() const {
    Lines out = head_;
    if (!facts_.empty()) out.emplace_back();
    for (const Shown& fact : facts_) add_lines(out, fact.lines);
    if (!table_.empty()) out.emplace_back();
    add_lines(out, table_);
    out.emplace_back();
    out.push_back(painted(foot(), Paint::dim));
    return out;
  }

 private:
  struct Shown {
    Rank rank;
    Lines lines;
  };

  Lines lines_of(const Fact& fact) const {
    const size_t column = kIndent + (style_.is_narrow() ? kLabelNarrow : kLabel);
    Lines out = wrapped(fact.value, style_.width - column, style_);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = left(i == 0 ? std::string(kIndent, ' ') + fact.label : "", column) + out[i];
    return out;
  }

  void fold(size_t most) {
    const bool has_table = !(style_.is_narrow() && subject_.summary.adapter);  // its targets are a fact
    const auto blocks =
        has_table ? summary::fold_blocks(subject_.model, subject_.counted, most) : std::vector<summary::Block>();
    rows_ = blocks.size();
    table_ = block_table(blocks, subject_.summary, style_);
  }

  size_t height() const { return lines().size(); }

  // Leaves facts and blocks out until the screen is short enough.
  void fit() {
    while (height() > kMaxLines && drop_fact(Rank::memory)) continue;
    shrink_table(kKeptBlocks);
    while (height() > kMaxLines && drop_fact(Rank::other)) continue;
    shrink_table(kMinBlocks);
    if (height() > kMaxLines) table_.clear();
  }

  // Drops the fact of the lowest rank, up to this one. False if there is none.
  bool drop_fact(Rank highest) {
    auto lowest = facts_.end();
    for (auto fact = facts_.begin(); fact != facts_.end(); ++fact)
      if (fact->rank <= highest && (lowest == facts_.end() || fact->rank <= lowest->rank)) lowest = fact;
    if (lowest == facts_.end()) return false;
    facts_.erase(lowest);
    return true;
  }

  void shrink_table(size_t least) {
    const size_t height = lines().size();
    if (height <= kMaxLines || rows_ <= least) return;
    fold(std::max(least, rows_ - std::min(rows_, height - kMaxLines)));
  }

  std::string foot() const {
    const Model& model = subject_.model;
    std::vector<std::string> items;
    const size_t entries = model.metadata.size();
    const auto item = [&](std::string_view option, const std::string& what) {
      items.push_back(style_.is_narrow() || what.empty() ? std::string(option) : fmt::format("{}: {}", option, what));
    };
    if (!model.tensors.empty()) item("--tensors", "all " + grouped(model.tensors.size()));
    if (entries > 0 || model.add_facts)
      item("--metadata",
           entries == 0 ? "" : fmt::format("{} {}", grouped(entries), entries == 1 ? "entry" : "entries"));
    item("--json", "");
    const auto is_graph = [](const Document& document) { return document.path == "graph.json"; };
    if (!style_.is_narrow() && std::ranges::any_of(model.documents, is_graph))
      items.emplace_back("cat MODEL graph.json");
    return cut(listed(items, items.size(), fmt::format(" {} ", style_.dot())), style_.width, style_);
  }

  const Subject& subject_;
  const Style& style_;
  bool has_limit_;
  Lines head_;
  std::vector<Shown> facts_;
  Lines table_;
  size_t rows_ = 0;
};

}  // namespace

std::string render_screen(const Subject& subject, const Style& style, std::optional<size_t> blocks) {
  return emit(Screen(subject, style, blocks).lines(), style);
}

}  // namespace weightfs::info
