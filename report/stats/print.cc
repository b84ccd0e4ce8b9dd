#include "report/stats/print.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "report/stats/screen.h"
#include "report/text/shown_names.h"

namespace weightfs::stats {
namespace {

// What the figures of a tensor take in memory.
uint64_t bytes_of(const TensorFigures& one) {
  // A vector that grows is there twice for a moment.
  uint64_t bytes = 2 * sizeof(TensorFigures) + one.name.size() + one.no_channels.size();
  const auto add = [&](const numbers::Statistics& of) {
    if (!of.finite) return;
    bytes += of.finite->quantiles.size() * sizeof(double) + of.finite->histogram.size() * sizeof(uint64_t) +
             of.finite->octaves.size() * sizeof(numbers::Octave);
  };
  if (one.statistics) add(*one.statistics);
  if (one.scales) add(one.scales->scales);
  if (one.scales && one.scales->minimums) add(*one.scales->minimums);
  for (const AxisChannels& axis : one.channels) bytes += axis.largest.capacity() * sizeof(numbers::Channel);
  if (one.singular_values && *one.singular_values) bytes += (*one.singular_values)->size() * sizeof(double);
  return bytes;
}

void print_line(const std::string& line) { std::printf("%s\n", line.c_str()); }

}  // namespace

JsonPrinter json_on_stdout() {
  return {JsonPrinter::Form::indented, [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }};
}

Error too_many_kept(size_t tensors) {
  return {Code::unsupported,
          fmt::format("the figures of more than {} tensors do not fit into the memory that the file allows; print them "
                      "to a pipe without --sort, or name fewer tensors",
                      tensors)};
}

Printer::Printer(PrintOptions options, BudgetPtr budget)
    : options_(std::move(options)),
      budget_(std::move(budget)),
      is_terminal_(::isatty(STDOUT_FILENO) == 1),
      json_(json_on_stdout()) {}

Result<void> Printer::add(TensorFigures one) {
  // A table in a pipe has no place for them.
  if (options_.lora && (options_.json || is_terminal_) && is_lora_factor(one.name))
    factors_.push_back({one.name, one.tensor});
  if (!options_.sort.empty() || (is_terminal_ && !options_.json)) return keep(std::move(one));
  print(one);
  return {};
}

Result<void> Printer::keep(TensorFigures one) {
  if (budget_ != nullptr && !budget_->charge(Cost::kept, bytes_of(one))) return failure(too_many_kept(kept_.size()));
  kept_.push_back(std::move(one));
  return {};
}

void Printer::begin() {
  if (std::exchange(has_begun_, true)) return;
  if (options_.json)
    json_.begin_list("tensors");
  else
    print_line(options_.channels ? channel_tab_header() : tab_header());
}

void Printer::print(const TensorFigures& one) {
  begin();
  if (options_.top && printed_ >= *options_.top) return;
  ++printed_;
  if (options_.json)
    json_.item(tensor_value(one));
  else if (!options_.channels)
    print_line(tab_line(one));
  else
    std::ranges::for_each(channel_tab_lines(one), print_line);
}

void Printer::end(const AllGroups& groups) {
  const std::vector<LoraFigures> pairs = lora_figures(factors_);
  if (!options_.sort.empty()) sort_by(options_.sort, kept_);
  if (is_terminal_ && !options_.json) {
    if (options_.top && *options_.top < kept_.size())
      kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(*options_.top), kept_.end());
    return print_screen(groups, pairs);
  }
  begin();
  for (const TensorFigures& one : kept_) print(one);
  if (!options_.json) return;
  json_.end_list();
  json_.begin_list("layers");
  for (const GroupFigures& layer : groups.layers) json_.item(group_value(layer));
  json_.end_list();
  if (!pairs.empty()) {
    json_.begin_list("lora");
    for (const LoraFigures& pair : pairs) json_.item(lora_value(pair));
    json_.end_list();
  }
  json_.member("total", group_value(groups.total));
  json_.end();
}

void Printer::print_screen(const AllGroups& groups, const std::vector<LoraFigures>& pairs) const {
  const info::Style style = info::style_of_stdout();
  std::vector<std::string> lines;
  if (kept_.size() == 1 && options_.detail) {
    lines = detail_lines(kept_.front(), style);
  } else {
    lines = table_lines(kept_, groups, style);
    for (const TensorFigures& one : kept_) {
      if (one.channels.empty() && one.no_channels.empty()) continue;
      lines.emplace_back();
      for (const std::string& line : info::broken_name(info::clean(one.name, style), style.width))
        lines.push_back(info::painted(line, info::Paint::bold));
      for (const std::string& line : channel_lines(one, style)) lines.push_back(line);
    }
    for (const std::string& line : lora_lines(pairs, style)) lines.push_back(line);
  }
  std::fputs(info::emit(lines, style).c_str(), stdout);
}

}  // namespace weightfs::stats
