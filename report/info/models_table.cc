#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/completeness.h"
#include "formats/one_model.h"
#include "report/info/head.h"
#include "report/info/models.h"
#include "report/info/subject.h"
#include "report/text/shown_names.h"
#include "report/text/words.h"

namespace weightfs::info {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kMinModelName = 12;
constexpr size_t kMinPrefix = 4;  // of the names, that is not repeated

// A row of the table. A message takes the place of kind, parameters and quantisation.
struct ModelRow {
  std::string name, kind, parameters, quantised, bits, size;
  std::string message = {};
  uint64_t bytes = 0;
  bool is_model = false;
};

// What is wrong with a model, in a few words.
std::string message_of(const Model& model) {
  if (const std::string code = code_text(model); !code.empty()) return "RUNS CODE: " + code;
  return lack_of(model);
}

class ModelsTable {
 public:
  ModelsTable(const std::vector<DirectoryItem>& items, const std::string& source, const Style& style)
      : source_(source), style_(style) {
    for (const DirectoryItem& item : items)
      if (item.model || item.error)
        add(item);
      else
        ++others_;
    std::ranges::stable_sort(rows_, [](const ModelRow& a, const ModelRow& b) {
      return a.is_model != b.is_model ? a.is_model : a.bytes < b.bytes;
    });
  }

  Lines lines() {
    Lines out = head();
    if (rows_.empty()) return out;
    out.emplace_back();
    lay_out();
    add_row(header_name(), {"", "kind", "parameters", "quantised", "bits", "size"}, out);
    for (const ModelRow& row : rows_) add_row(name_of(row), row, out);
    if (others_ > 0) out.push_back(fmt::format("  and {} other {}", grouped(others_), others_ == 1 ? "file" : "files"));
    const auto first = std::ranges::find_if(rows_, [](const ModelRow& row) { return is_named_as_weights(row.name); });
    if (first != rows_.end() && first->is_model) {
      out.emplace_back();
      const bool ends_with_slash = source_.ends_with('/');
      const std::string path = fmt::format("{}{}{}", source_, ends_with_slash ? "" : "/", first->name);
      out.push_back(painted(hint_to_name(path), Paint::dim));
    }
    return out;
  }

 private:
  void add(const DirectoryItem& item) {
    ModelRow row{item.name, "", "", "", "", "", item.error ? problem_of(item) : "", 0, item.model != nullptr};
    if (item.model) {
      const summary::Summary summary = summary::summarise(*item.model).summary;
      row.kind = kind_text(summary);
      if (summary.parameters) row.parameters = parameters_text(*summary.parameters);
      row.quantised = short_weights_text(summary);
      if (summary.bits_per_weight) row.bits = fmt::format("{:.2f}", *summary.bits_per_weight);
      row.bytes = model_bytes(*item.model);
      row.size = bytes_text(row.bytes);
      row.message = message_of(*item.model);
      bytes_ += row.bytes;
      note_common(summary);
    }
    rows_.push_back(std::move(row));
  }

  // A command that is cut, or has other characters than the name, would not work.
  std::string hint_to_name(const std::string& path) const {
    const auto word = command_word(path);
    const std::string hint = fmt::format("name one: weightfs info {}", word.value_or(""));
    return word && clean(hint, style_) == hint && width_of(hint) <= style_.width ? hint : "name one for its screen";
  }

  // Facts that all models share are in the head.
  void note_common(const summary::Summary& summary) {
    std::string base = listed(summary.base_models, 1);
    if (!common_) {
      common_ = {std::move(base), summary.license};
    } else {
      if (common_->first != base) common_->first.clear();
      if (common_->second != summary.license) common_->second.clear();
    }
  }

  Lines head() const {
    const auto models = std::ranges::count(rows_, true, &ModelRow::is_model);
    const std::string counted = fmt::format("{} {}", models, models == 1 ? "model" : "models");
    constexpr std::string_view kHub = "hf://";
    const std::string_view name = source_.starts_with(kHub) ? std::string_view(source_).substr(kHub.size()) : source_;
    Lines out = title_line(name, fmt::format("{} {} {}", counted, style_.dot(), bytes_text(bytes_)), style_);
    Lines facts;
    if (common_ && !common_->first.empty()) facts.push_back("quantised from " + common_->first);
    if (common_ && !common_->second.empty()) facts.push_back("licence " + common_->second);
    if (!facts.empty()) {
      const std::string text = clean(listed(facts, 2, fmt::format(" {} ", style_.dot())), style_);
      for (std::string& line : wrapped(text, style_.width, style_)) out.push_back(std::move(line));
    }
    return out;
  }

  // How many bytes of the names are in the header instead: up to the last separator that all share.
  size_t prefix_of_names() const {
    if (rows_.size() < 2) return 0;
    std::string_view common = rows_.front().name;
    for (const ModelRow& row : rows_) {
      const auto [end, other] = std::ranges::mismatch(common, row.name);
      common = common.substr(0, static_cast<size_t>(end - common.begin()));
    }
    const size_t separator = common.find_last_of("-_./");
    const bool is_whole_name =
        std::ranges::any_of(rows_, [&](const ModelRow& row) { return row.name.size() == separator + 1; });
    return separator == common.npos || separator < kMinPrefix || is_whole_name ? 0 : separator + 1;
  }

  std::string name_of(const ModelRow& row) const { return clean(row.name.substr(prefix_), style_); }

  std::string header_name() const {
    const std::string prefix = clean(rows_.front().name.substr(0, prefix_), style_);
    return prefix.empty() ? "model" : fmt::format("model ({})", prefix);
  }

  size_t widest_name() const {
    size_t widest = std::string_view("model").size();
    for (const ModelRow& row : rows_) widest = std::max(widest, width_of(name_of(row)));
    return widest;
  }

  // Names lose their common beginning if they are too long. Those that still are have lines of their own.
  void lay_out() {
    kind_ = 14;
    quantised_ = std::string_view("quantised").size();
    for (const ModelRow& row : rows_) {
      kind_ = std::max(kind_, width_of(row.kind));
      quantised_ = std::max(quantised_, width_of(row.quantised));
    }
    quantised_ = std::min<size_t>(quantised_, 20);
    const size_t least = kGap + kSize + kGap + quantised_ + kGap;
    const size_t others = least + kind_ + kParameters + kBits + 3 * kGap;
    has_kinds_ = !style_.is_narrow() && others + std::min(widest_name(), kMinModelName) <= style_.width;
    const size_t room = style_.width - std::min(style_.width, has_kinds_ ? others : least);
    if (widest_name() > room) prefix_ = prefix_of_names();
    name_ = std::min(widest_name(), std::max(kMinModelName, room));
    if (width_of(header_name()) <= room) name_ = std::max(name_, width_of(header_name()));
    const auto is_long = [this](const ModelRow& row) { return width_of(name_of(row)) > name_; };
    if (2 * static_cast<size_t>(std::ranges::count_if(rows_, is_long)) > rows_.size()) name_ = 0;
  }

  void add_row(const std::string& name, const ModelRow& row, Lines& out) const {
    const std::string gap(kGap, ' ');
    const bool is_beside = width_of(name) <= name_;
    if (!is_beside)
      for (const std::string& line : broken_name(name, style_.width - kGap)) out.push_back(gap + line);
    out.push_back(gap + left(is_beside ? name : "", name_) + gap + cells_of_row(row));
  }

  // What is behind the name.
  std::string cells_of_row(const ModelRow& row) const {
    const std::string gap(kGap, ' ');
    const size_t rest = style_.width - std::min(style_.width, kGap + name_ + kGap);
    const std::string message = clean(row.message, style_);
    if (!message.empty() && !row.is_model) return cut(message, rest, style_);
    if (!message.empty() && !has_kinds_) return painted(cut(message, rest, style_), Paint::red);
    const size_t kinds = has_kinds_ ? kind_ + kGap + kParameters + kGap : 0;
    std::string out;
    if (!message.empty()) {
      out += left(painted(cut(message, kinds + quantised_, style_), Paint::red), kinds + quantised_);
    } else {
      if (has_kinds_) out += left(row.kind, kind_) + gap + right(row.parameters, kParameters) + gap;
      out += left(cut(clean(row.quantised, style_), quantised_, style_), quantised_);
    }
    if (has_kinds_) out += gap + right(row.bits, kBits);
    return out + gap + right(row.size, kSize);
  }

  static constexpr size_t kParameters = 10, kBits = 5, kSize = 8;

  std::string source_;
  const Style& style_;
  std::vector<ModelRow> rows_;
  size_t others_ = 0;
  uint64_t bytes_ = 0;
  std::optional<std::pair<std::string, std::string>> common_;  // base model, licence
  size_t prefix_ = 0;                                          // bytes of the names
  size_t name_ = 0;                                            // columns; 0: each name has a line of its own
  size_t kind_ = 0, quantised_ = 0;
  bool has_kinds_ = false;  // there is room for all columns
};

}  // namespace

std::string lack_of(const Model& model) {
  const auto completeness = completeness_of(model);
  if (completeness.is_complete()) return "";
  if (completeness.short_by > 0) return fmt::format("DAMAGED: ends {} early", bytes_text(completeness.short_by));
  if (completeness.unreadable == 0) return "INCOMPLETE";
  return fmt::format("INCOMPLETE: {} of {} tensors", completeness.tensors - completeness.unreadable,
                     completeness.tensors);
}

std::string render_models(const std::vector<DirectoryItem>& items, const std::string& source, const Style& style) {
  return emit(ModelsTable(items, source, style).lines(), style);
}

}  // namespace weightfs::info
