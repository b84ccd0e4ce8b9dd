#include "report/info/head.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/code/code.h"
#include "formats/completeness.h"
#include "report/info/file_facts.h"
#include "report/inspect/safety.h"
#include "report/text/words.h"

namespace weightfs::info {
namespace {

constexpr size_t kTitleWidth = 80;
constexpr size_t kMinTitle = 24;  // columns of a name before the text moves below it

using Lines = std::vector<std::string>;

void append(Lines& out, Lines lines, std::optional<Paint> paint = {}) {
  for (std::string& line : lines) out.push_back(paint ? painted(line, *paint) : std::move(line));
}

// "language model (llama)", "LoRA adapter for meta-llama/Llama-3.1-8B".
std::string sentence_kind(const Subject& subject, const Style& style) {
  const summary::Summary& summary = subject.summary;
  std::string out = kind_text(summary);
  if (summary.adapter) {
    std::string base = summary.adapter->base_model;
    if (base.empty() && !summary.base_models.empty()) base = summary.base_models.front();
    if (!style.is_narrow() && !base.empty()) out += " for " + base;
  } else if (const std::string& of = summary.kind == "graph" ? summary.producer : summary.architecture;
             !of.empty() && summary.family.empty()) {
    out += fmt::format(" ({})", of);
  }
  return clean(out, style);
}

// "8.03 B parameters"; of a projector those of its tower.
std::string parameters_phrase(const summary::Summary& summary) {
  const summary::Number count = summary.kind == "projector" ? summary.parameters_vision : summary.parameters;
  if (count.value_or(0) == 0) return "";
  return painted(fmt::format("{} {}parameters", parameters_text(*count), summary.adapter ? "trainable " : ""),
                 Paint::bold);
}

std::string active_phrase(const summary::Summary& summary) {
  return summary.parameters_active ? parameters_text(*summary.parameters_active) + " active" : "";
}

// What stands for the weights, with a guess in yellow.
std::string weights_phrase(const summary::Summary& summary, const Style& style) {
  constexpr std::string_view kGuessed = "(guessed)";
  std::string text = clean(weights_text(summary), style);
  if (const size_t guess = text.find(kGuessed); guess != text.npos)
    text.replace(guess, kGuessed.size(), painted(kGuessed, Paint::yellow));
  return text;
}

// "2.47 of 4.58 GiB" of a damaged model.
std::string size_phrase(const Subject& subject) {
  const uint64_t bytes = model_bytes(subject.model);
  const auto completeness = completeness_of(subject.model);
  if (completeness.short_by == 0) return bytes_text(bytes);
  const std::string whole = bytes_text(bytes + completeness.short_by), part = bytes_text(bytes);
  const size_t unit = whole.find(' ');
  const bool has_same_unit = part.ends_with(std::string_view(whole).substr(unit));
  return fmt::format("{} of {}", has_same_unit ? part.substr(0, part.find(' ')) : part, whole);
}

Lines narrow_sentence(const Subject& subject, const Style& style) {
  const summary::Summary& summary = subject.summary;
  Lines out;
  append(out, wrapped(enumerated({sentence_kind(subject, style), clean(format_text(subject.model), style)}),
                      style.width, style));
  const std::string weights = summary.adapter ? "" : weights_phrase(summary, style);
  const std::string files = weight_files_text(subject);
  Lines items{enumerated({parameters_phrase(summary), active_phrase(summary)})};
  if (summary.quantisation)
    append(items, {size_phrase(subject), weights, files});
  else
    append(items, {weights, size_phrase(subject), files});
  std::string line;
  for (const std::string& item : items) {
    if (item.empty()) continue;
    if (!line.empty() && width_of(line) + 2 + width_of(item) > style.width) append(out, {std::exchange(line, "")});
    line += (line.empty() ? "" : ", ") + item;
  }
  for (const std::string& one : wrapped(line, style.width, style)) out.push_back(one);
  return out;
}

}  // namespace

std::string name_of(const Subject& subject) {
  return subject.summary.name.empty() ? std::string(base_name(subject.source)) : subject.summary.name;
}

Lines sentence_of(const Subject& subject, const Style& style) {
  if (style.is_narrow()) return narrow_sentence(subject, style);
  return wrapped(enumerated({sentence_kind(subject, style), parameters_phrase(subject.summary),
                             active_phrase(subject.summary), weights_phrase(subject.summary, style)}),
                 style.width, style);
}

// What is wrong with the model, in red; in yellow if only files are missing.
Lines alerts_of(const Subject& subject, const Style& style) {
  Lines out;
  if (const std::string code = reasons_of(code_of(subject.model).items); !code.empty())
    append(out, wrapped_at_clauses(fmt::format("RUNS CODE: {}", clean(code, style)), style.width, style), Paint::red);
  if (const std::string names = unknown_globals(subject.model); !names.empty())
    append(out,
           wrapped_at_clauses(fmt::format("not known to be harmless: {}", clean(names, style)), style.width, style),
           Paint::yellow);
  const auto completeness = completeness_of(subject.model);
  if (completeness.is_complete()) return out;
  const Code code = completeness.reason->code;
  const bool is_damaged = code == Code::corrupt || code == Code::mismatch;
  append(out,
         wrapped_at_clauses(
             fmt::format("{}: {}", is_damaged ? "DAMAGED" : "INCOMPLETE", clean(to_sentence(completeness), style)),
             style.width, style),
         is_damaged ? Paint::red : Paint::yellow);
  return out;
}

Lines title_line(std::string_view name, std::string_view text, const Style& style) {
  const size_t width = std::min(style.width, kTitleWidth);
  const std::string shown = clean(name, style), after = clean(text, style);
  const size_t room = width - std::min(width, width_of(after) + 2);
  if (room < std::min(width_of(shown), kMinTitle))
    return {painted(shortened(shown, width, style), Paint::bold), cut(after, width, style)};
  const std::string fitting = shortened(shown, room, style);
  return {painted(fitting, Paint::bold) + right(after, width - width_of(fitting))};
}

Lines head_of(const Subject& subject, const Style& style) {
  Lines out;
  if (style.is_narrow())
    out.push_back(painted(shortened(clean(name_of(subject), style), style.width, style), Paint::bold));
  else
    append(out, title_line(name_of(subject),
                           fmt::format("{} {} {}", format_text(subject.model), style.dot(),
                                       bytes_text(model_bytes(subject.model))),
                           style));
  append(out, alerts_of(subject, style));
  append(out, sentence_of(subject, style));
  return out;
}

}  // namespace weightfs::info
