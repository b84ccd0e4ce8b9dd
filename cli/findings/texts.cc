#include "cli/findings/texts.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/values/json.h"
#include "cli/console/outcome.h"
#include "cli/console/report_error.h"
#include "cli/open_source.h"
#include "formats/tokenizer/vocabulary.h"
#include "report/inspect/single_model.h"
#include "report/text/map_of.h"
#include "report/text/suggestions.h"
#include "report/text/table.h"
#include "report/text/words.h"

namespace weightfs::info {
namespace {

using tokenizer::ModelText;
using tokenizer::TextKind;

bool is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

std::string_view what_is(TextKind kind) {
  switch (kind) {
    case TextKind::chat_template:
      return "chat template";
    case TextKind::system:
      return "system prompt";
    case TextKind::parameters:
      return "parameters of generation";
    case TextKind::licence:
      break;
  }
  return "licence";
}

std::vector<std::string> names_of(const std::vector<ModelText>& texts) {
  std::vector<std::string> names;
  for (const ModelText& text : texts) names.push_back(text.name);
  return names;
}

// A pipe gets the bytes; a terminal gets no control characters but line feeds and tabs.
void print_text(std::string_view text) {
  if (!is_terminal()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
    out += printable(text.substr(begin, end - begin));
    if (end < text.size()) out += text[end];
    begin = end + 1;
  }
  if (!out.ends_with('\n')) out += '\n';
  std::fputs(out.c_str(), stdout);
}

Value to_value(const std::vector<ModelText>& texts) {
  List list;
  for (const ModelText& text : texts)
    list.emplace_back(map_of({{"name", text.name}, {"stated_in", text.stated_in}, {"text", text.text}}));
  return list;
}

// The one of this name, or all of a kind that has no names.
Result<std::vector<ModelText>> chosen(std::vector<ModelText> texts, const TextRequest& request) {
  if (texts.empty()) return failure(Code::not_found, fmt::format("the model has no {}", what_is(*request.kind)));
  if (*request.kind != TextKind::chat_template) return texts;
  const std::string wanted = request.name.empty() ? texts.front().name : request.name;
  const auto found = std::ranges::find(texts, wanted, &ModelText::name);
  if (found == texts.end())
    return failure(Code::not_found,
                   fmt::format("no chat template {}; the model has {}", quoted(wanted), enumerated(names_of(texts))));
  if (request.name.empty() && texts.size() > 1)
    log_to_stderr(fmt::format("printed the chat template {}; --template=NAME prints another of {}", quoted(wanted),
                              enumerated(names_of(texts))));
  return std::vector{*found};
}

Result<void> print_kind(const Model& model, const TextRequest& request, Output output) {
  std::vector<ModelText> texts = TRY(tokenizer::texts_of(model, *request.kind));
  if (output == Output::json && request.name.empty()) {
    std::fputs(to_json(to_value(texts)).c_str(), stdout);
    return {};
  }
  texts = TRY(chosen(std::move(texts), request));
  if (output == Output::json) {
    std::fputs(to_json(to_value(texts)).c_str(), stdout);
    return {};
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) std::fputs("\n", stdout);
    print_text(texts[i].text);
  }
  return {};
}

Value to_value(const tokenizer::Vocabulary& vocabulary, const tokenizer::Token& token) {
  Map row = map_of({{"id", token.id}, {"token", token.text}});
  if (auto text = vocabulary.readable(token)) row.append("text", *std::move(text));
  if (const std::string_view kind = to_text(token.kind); !kind.empty()) row.append("type", kind);
  if (vocabulary.has_scores()) row.append("score", shortest_decimal(token.score));
  return row;
}

void print_table(const tokenizer::Vocabulary& vocabulary, const std::vector<uint32_t>& found) {
  std::vector<Table::Column> columns = {{"id", Align::right}, {"token"}, {"text"}, {"type"}};
  if (vocabulary.has_scores()) columns.push_back({"score", Align::right});
  Table table(std::move(columns));
  for (const uint32_t place : found) {
    const tokenizer::Token& token = vocabulary.tokens()[place];
    std::vector<Cell> cells = {std::to_string(token.id), std::string(token.text),
                               vocabulary.readable(token).value_or(""), std::string(to_text(token.kind))};
    if (vocabulary.has_scores()) cells.emplace_back(to_json_line(Value(shortest_decimal(token.score))));
    table.add(std::move(cells));
  }
  table.print();
}

Result<void> print_tokens(const Model& model, const std::string& query, Output output) {
  const auto vocabulary = TRY(tokenizer::read_vocabulary(model));
  if (vocabulary == nullptr) return failure(Code::not_found, "the model has no tokens");
  const auto found = TRY(vocabulary->find({.text = query, .kind = {}}));
  if (found.empty()) return failure(Code::not_found, fmt::format("no token has {}", quoted(query)));
  if (output == Output::text) {
    print_table(*vocabulary, found);
    return {};
  }
  std::fputs("[", stdout);
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string line = to_json_line(to_value(*vocabulary, vocabulary->tokens()[found[i]]));
    std::fputs((i == 0 ? "\n  " : ",\n  "), stdout);
    std::fputs(line.c_str(), stdout);
  }
  std::fputs("\n]\n", stdout);
  return {};
}

}  // namespace

Exit print_texts(const std::string& source, Forest& forest, const TextRequest& request, Output output) {
  const std::string name = printable_source(source);
  const auto single = single_model(forest, name);
  if (!single) return report_error(single.error());
  const Model& model = *single->model;
  const auto printed = request.kind ? print_kind(model, request, output) : print_tokens(model, *request.tokens, output);
  if (printed) return Exit::ok;
  return report_error({printed.error().code, fmt::format("{}: {}", name, printed.error().message)});
}

}  // namespace weightfs::info
