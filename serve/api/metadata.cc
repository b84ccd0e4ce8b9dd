// The metadata, the tokens and the texts of a model, page by page.
#include <algorithm>

#include "base/text.h"
#include "formats/entries/entries.h"
#include "formats/tokenizer/marked_tokens.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

constexpr uint64_t kMaxRows = 1000;
constexpr uint64_t kMostShownText = 1 << 20;  // bytes of a chat template or a licence

struct Rows {
  uint64_t offset;
  uint64_t limit;
};

Accepted<Rows> rows_of(const Query& query) {
  return Rows{ACCEPT(query.number("offset", 0, UINT64_MAX)), ACCEPT(query.number("limit", 200, kMaxRows))};
}

Value text_or_null(std::string_view text) { return text.empty() ? Value(nullptr) : Value(text); }

std::string_view name_of(metadata::Opens opens) {
  switch (opens) {
    case metadata::Opens::text:
      return "text";
    case metadata::Opens::list:
      return "list";
    case metadata::Opens::object:
      return "object";
    case metadata::Opens::nothing:
      break;
  }
  return "";
}

// One entry that is opened: a page of its items, or its text.
Accepted<Content> open_entry(const metadata::Entries& entries, uint64_t place, const Rows& rows) {
  if (place >= entries.all().size()) return httpd::refused(404, "entry: the model has no such entry");
  metadata::Page page = ACCEPT(accepted(entries.open(place, rows.offset, rows.limit)));
  const metadata::Entry& entry = entries.all()[static_cast<size_t>(place)];
  Map out = map_of({{"entry", place}, {"key", entry.key}, {"from", entry.from}, {"type", entry.type}});
  out.append("total", page.total);
  if (entry.opens == metadata::Opens::text) {
    out.append("text", std::move(page.text));
    return json_content(out);
  }
  out.append("offset", rows.offset);
  out.append("keys", page.keys.empty() ? Value(nullptr) : Value(List(page.keys.begin(), page.keys.end())));
  out.append("items", std::move(page.items));
  return json_content(out);
}

Map row_of(const metadata::Entries& entries, uint32_t place) {
  const metadata::Entry& entry = entries.all()[place];
  return map_of({{"entry", place},
                 {"key", entry.key},
                 {"from", entry.from},
                 {"type", entry.type},
                 {"shown", text_or_null(entry.shown)},
                 {"opens", text_or_null(name_of(entry.opens))},
                 {"count", entry.count}});
}

// Where the entries are from, each once.
List places_of(const metadata::Entries& entries) {
  std::vector<std::string> names;
  for (const metadata::Entry& entry : entries.all())
    if (std::ranges::find(names, entry.from) == names.end()) names.push_back(entry.from);
  return {names.begin(), names.end()};
}

Map row_of(const tokenizer::Vocabulary& vocabulary, uint32_t place) {
  const tokenizer::Token& token = vocabulary.tokens()[place];
  const auto readable = vocabulary.readable(token);
  return map_of({{"id", token.id},
                 {"token", token.text},
                 {"text", readable ? Value(*readable) : Value(nullptr)},
                 {"type", text_or_null(to_text(token.kind))},
                 {"score", vocabulary.has_scores() ? number_or_null(shortest_decimal(token.score)) : Value(nullptr)}});
}

constexpr auto kTokenKinds =
    std::to_array({tokenizer::TokenKind::normal, tokenizer::TokenKind::unknown, tokenizer::TokenKind::control,
                   tokenizer::TokenKind::user_defined, tokenizer::TokenKind::unused, tokenizer::TokenKind::byte});

Accepted<std::optional<tokenizer::TokenKind>> kind_in(const Query& query) {
  std::vector<std::string_view> names = {"all"};
  for (const tokenizer::TokenKind kind : kTokenKinds) names.push_back(to_text(kind));
  const size_t place = ACCEPT(query.choice("type", names));
  return place == 0 ? std::optional<tokenizer::TokenKind>() : std::optional(kTokenKinds.at(place - 1));
}

// The kinds that the vocabulary has.
List kinds_of(const tokenizer::Vocabulary& vocabulary) {
  List out;
  for (const tokenizer::TokenKind kind : kTokenKinds)
    if (std::ranges::find(vocabulary.tokens(), kind, &tokenizer::Token::kind) != vocabulary.tokens().end())
      out.emplace_back(to_text(kind));
  return out;
}

// A text in parts: [text, id of the special token or null].
List parts_of(std::string_view text, const tokenizer::Vocabulary* vocabulary) {
  List out;
  std::vector<tokenizer::MarkedPart> parts = {{text, std::nullopt}};
  if (vocabulary != nullptr) parts = tokenizer::marked_tokens(text, *vocabulary);
  for (const tokenizer::MarkedPart& part : parts)
    out.emplace_back(List{Value(part.text), part.id ? Value(*part.id) : Value(nullptr)});
  return out;
}

void add_texts(const OpenModel& of, tokenizer::TextKind kind, std::string_view name, List& out) {
  const auto texts = of.texts(kind);
  if (!texts) {
    out.emplace_back(map_of({{"kind", name}, {"error", texts.error().message}}));
    return;
  }
  const bool is_template = kind == tokenizer::TextKind::chat_template;
  const auto vocabulary = is_template ? of.vocabulary() : tokenizer::VocabularyPtr();
  for (const tokenizer::ModelText& each : **texts) {
    const std::string text(begin_of_text(each.text, kMostShownText));
    Map row = map_of({{"kind", name}, {"name", each.name}, {"stated_in", each.stated_in}, {"bytes", each.text.size()}});
    row.append("is_cut", text.size() < each.text.size());
    if (is_template) row.append("language", each.is_go ? "go" : "jinja");
    row.append("parts", parts_of(text, is_template && vocabulary ? vocabulary->get() : nullptr));
    out.emplace_back(std::move(row));
  }
}

}  // namespace

Accepted<Content> list_metadata(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const Rows rows = ACCEPT(rows_of(call.query));
  const auto entries = ACCEPT(accepted(of->entries()));
  if (const auto entry = ACCEPT(call.query.number("entry"))) return open_entry(*entries, *entry, rows);
  const auto found = entries->find(ACCEPT(call.query.words("q")), call.query.text("from"));
  List shown;
  for (uint64_t i = rows.offset; i < found.size() && i - rows.offset < rows.limit; ++i)
    shown.emplace_back(row_of(*entries, found[static_cast<size_t>(i)]));
  return json_content(map_of({{"total", found.size()},
                              {"offset", rows.offset},
                              {"from", places_of(*entries)},
                              {"entries", std::move(shown)}}));
}

Accepted<Content> list_tokens(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const Rows rows = ACCEPT(rows_of(call.query));
  const auto kind = ACCEPT(kind_in(call.query));
  const auto vocabulary = ACCEPT(accepted(of->vocabulary()));
  if (vocabulary == nullptr)
    return json_content(map_of({{"total", 0}, {"offset", rows.offset}, {"stated_in", nullptr}, {"tokens", List()}}));
  const auto found = ACCEPT(accepted(vocabulary->find({.text = call.query.text("q"), .kind = kind})));
  List shown;
  for (uint64_t i = rows.offset; i < found.size() && i - rows.offset < rows.limit; ++i)
    shown.emplace_back(row_of(*vocabulary, found[static_cast<size_t>(i)]));
  return json_content(map_of({{"total", found.size()},
                              {"offset", rows.offset},
                              {"stated_in", vocabulary->stated_in()},
                              {"has_scores", vocabulary->has_scores()},
                              {"types", kinds_of(*vocabulary)},
                              {"tokens", std::move(shown)}}));
}

Accepted<Content> list_texts(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  List texts;
  add_texts(*of, tokenizer::TextKind::chat_template, "template", texts);
  add_texts(*of, tokenizer::TextKind::system, "system", texts);
  add_texts(*of, tokenizer::TextKind::parameters, "parameters", texts);
  add_texts(*of, tokenizer::TextKind::licence, "licence", texts);
  return json_content(map_of({{"texts", std::move(texts)}}));
}

}  // namespace weightfs::api
