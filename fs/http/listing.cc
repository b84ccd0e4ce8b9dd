#include "fs/http/listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/text.h"
#include "base/values/value.h"
#include "fs/http/protocol/target.h"
#include "fs/names.h"

namespace weightfs::httpd {
namespace {

constexpr size_t kPiece = 32 << 10;           // of the body, made at one time
constexpr uint64_t kMaxSearched = 4'000'000;  // names

struct Entry {
  std::string path;  // below the directory
  Ino ino;
  NodeKind kind;

  bool is_directory() const { return kind == NodeKind::directory || kind == NodeKind::tree; }
};

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// The URL of an entry, relative to the directory: a path also if its name has a colon, which is escaped.
std::string link_to(const Entry& entry) {
  std::string link;
  std::string_view rest = entry.path;
  for (;;) {
    const size_t end = std::min(rest.find('/'), rest.size());
    link += url_segment(rest.substr(0, end));
    if (end == rest.size()) break;
    link += '/';
    rest.remove_prefix(end + 1);
  }
  return link + (entry.is_directory() ? "/" : "");
}

std::string rfc3339(Time time) {
  const std::time_t seconds = static_cast<std::time_t>(time / 1'000'000'000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// Renders entries in one form.
class Renderer {
 public:
  Renderer(Forest& forest, const ListingQuery& query) : forest_(forest), query_(query) {}

  std::string begin() const {
    if (query_.form == ListingForm::json) return "[";
    if (query_.form == ListingForm::text) return {};
    const std::string title = html_text(to_utf8(query_.path));
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
        "<style>body{{font-family:sans-serif;margin:1em}}td{{padding:.1em 1em .1em 0}}td+td{{text-align:right}}"
        "a{{overflow-wrap:anywhere}}</style>\n</head>\n<body>\n<h1>{0}</h1>\n"
        "<form><input name=\"q\" placeholder=\"Search\" aria-label=\"Search\" value=\"{1}\"></form>\n<table>\n{2}",
        title, html_text(to_utf8(query_.search)),
        query_.path == "/" ? "" : "<tr><td><a href=\"../\">../</a></td><td></td></tr>\n");
  }

  std::string entry(const Entry& entry) {
    const bool is_first = std::exchange(is_first_, false);
    if (query_.form == ListingForm::json) return (is_first ? "\n" : ",\n") + json(entry);
    const std::string shown = to_utf8(entry.path) + (entry.is_directory() ? "/" : "");
    if (query_.form == ListingForm::text) return printable(entry.path) + (entry.is_directory() ? "/\n" : "\n");
    const auto attributes = entry.is_directory() ? std::nullopt : forest_.known_attributes(entry.ino);
    return fmt::format("<tr><td><a href=\"{}\">{}</a></td><td>{}</td></tr>\n", link_to(entry), html_text(shown),
                       attributes ? human_size(attributes->size) : "");
  }

  std::string end(const std::string& next) const {
    if (query_.form == ListingForm::json) return "\n]\n";
    if (query_.form == ListingForm::text) return {};
    return fmt::format("</table>\n{}</body>\n</html>\n",
                       next.empty() ? "" : fmt::format("<p><a href=\"{}\">Next page</a></p>\n", html_text(next)));
  }

 private:
  std::string json(const Entry& entry) const {
    std::string out = "{\"name\": ";
    append_json_string(out, entry.path + (entry.is_directory() ? "/" : ""));
    const auto attributes = forest_.attributes(entry.ino);
    if (attributes)
      out += fmt::format(", \"size\": {}, \"mod_time\": \"{}\"", attributes->size, rfc3339(attributes->modified));
    out += ", \"url\": ";
    append_json_string(out, "./" + link_to(entry));
    const bool is_link = entry.kind == NodeKind::link;
    const unsigned mode = entry.is_directory() ? 0x80000000U | 0555U : is_link ? 0x08000000U | 0777U : 0444U;
    return out +
           fmt::format(", \"mode\": {}, \"is_dir\": {}, \"is_symlink\": {}}}", mode, entry.is_directory(), is_link);
  }

  Forest& forest_;
  const ListingQuery query_;
  bool is_first_ = true;
};

// The entries of a directory, one after the other; the listing of a million names is never in memory.
class Entries {
 public:
  Entries(Forest::Listing listing, uint32_t first, uint64_t limit)
      : listing_(std::move(listing)),
        at_(first),
        end_(first + static_cast<uint32_t>(std::min<uint64_t>(limit, listing_.count - first))) {}

  std::optional<Entry> next() {
    if (at_ == end_) return std::nullopt;
    const Node node = listing_.tree->node(listing_.first + at_);
    Entry entry{node.name(), listing_.ino_of(at_), node.kind};
    ++at_;
    return entry;
  }
  bool has_more() const { return end_ < listing_.count; }
  std::string last() const { return end_ == 0 ? "" : listing_.tree->node(listing_.first + end_ - 1).name(); }

 private:
  Forest::Listing listing_;
  uint32_t at_;
  uint32_t end_;
};

// The place after the entry `name`, which may have been removed meanwhile: entries are sorted.
uint32_t place_after(const Forest::Listing& all, const std::string& name) {
  uint32_t from = 0, to = all.count;
  while (from < to) {
    const uint32_t middle = from + (to - from) / 2;
    const Node here = all.tree->node(all.first + middle);
    std::string_view text = name;  // without the suffix of the view, by which a tree is not sorted
    if (text.ends_with(here.suffix)) text.remove_suffix(here.suffix.size());
    if (path_less(here.text, text) || here.text == text)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

// Finds files whose path below a directory has a text, in any case of letters. Enters what belongs to the same model.
class Search {
 public:
  Search(Forest& forest, const ListingQuery& query)
      : forest_(forest),
        text_(lower_case(query.search)),
        after_(query.after),
        limit_(std::min(query.limit.value_or(kListingPage), kMaxFound)) {}

  Result<std::vector<Entry>> run(Ino directory) {
    model_ = forest_.model_of(directory);
    TRY_VOID(visit(directory, ""));
    return std::move(found_);
  }
  bool has_more() const { return has_more_; }

 private:
  Result<void> visit(Ino directory, const std::string& above) {
    const Forest::Listing all = TRY(forest_.list(directory));
    for (uint32_t i = 0; i < all.count && !has_more_; ++i) {
      if (is_cancelled()) return cancelled();
      if (++searched_ > kMaxSearched)
        return failure(Code::resource, fmt::format("more than {} names; search in a directory below", kMaxSearched));
      const Node node = all.tree->node(all.first + i);
      Entry entry{above + node.name(), all.ino_of(i), node.kind};
      const bool matches = lower_case(entry.path).find(text_) != std::string::npos;
      const bool enters = node.kind == NodeKind::directory || (node.kind == NodeKind::tree && is_of_model(node));
      if (matches && is_after(entry.path)) {
        has_more_ = found_.size() == limit_;
        if (!has_more_) found_.push_back(entry);
      }
      // A directory that cannot be entered has nothing to find.
      if (!enters) continue;
      if (auto found = visit(entry.ino, entry.path + "/"); !found && (searched_ > kMaxSearched || is_cancelled()))
        return found;
    }
    return {};
  }

  // Not other models: each would be read.
  bool is_of_model(const Node& node) const {
    return model_ != nullptr && node.name() != "nested" && node.name() != "views";
  }

  // In the order of the visit, which is that of the last page.
  bool is_after(const std::string& path) {
    if (!after_ || is_past_) return true;
    is_past_ = path == *after_;
    return false;
  }

  Forest& forest_;
  const std::string text_;
  const std::optional<std::string> after_;
  const uint64_t limit_;
  ModelPtr model_;
  std::vector<Entry> found_;
  uint64_t searched_ = 0;
  bool is_past_ = false;
  bool has_more_ = false;
};

std::string next_link(const ListingQuery& query, const std::string& last) {
  std::string link = "?";
  if (!query.search.empty()) link += fmt::format("q={}&", url_segment(query.search));
  return link + fmt::format("after={}&limit={}", url_segment(last), query.limit.value_or(kListingPage));
}

Response begin_response(const ListingQuery& query, const std::string& next) {
  Response response;
  const char* const type = query.form == ListingForm::json   ? "application/json"
                           : query.form == ListingForm::text ? "text/plain; charset=utf-8"
                                                             : "text/html; charset=utf-8";
  response.add("Content-Type", type).add("Cache-Control", "no-cache").add("Vary", "Accept");
  if (query.form == ListingForm::html)
    response.add(
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
  if (!next.empty()) response.add("Link", fmt::format("<{}>; rel=\"next\"", next));
  return response;
}

Result<Response> found_response(Forest& forest, Ino directory, const ListingQuery& query) {
  Search search(forest, query);
  const auto found = TRY(search.run(directory));
  const std::string next = search.has_more() ? next_link(query, found.back().path) : "";
  Response response = begin_response(query, next);
  Renderer renderer(forest, query);
  std::string text = renderer.begin();
  for (const Entry& entry : found) text += renderer.entry(entry);
  response.body.emplace_back(text + renderer.end(next));
  return response;
}

bool accepts(const Request& request, std::string_view type) {
  const std::string* const accept = request.field("accept");
  return accept != nullptr && lower_case(*accept).find(type) != std::string::npos;
}

}  // namespace

ListingForm listing_form(const Request& request) {
  if (accepts(request, "text/html")) return ListingForm::html;
  if (accepts(request, "application/json")) return ListingForm::json;
  return accepts(request, "text/plain") ? ListingForm::text : ListingForm::html;
}

bool wants_pages(const Request& request) { return accepts(request, "text/html"); }

Result<Response> listing_response(Forest& forest, Ino directory, const ListingQuery& query) {
  if (!query.search.empty()) return found_response(forest, directory, query);
  Forest::Listing all = TRY(forest.list(directory));
  const uint32_t first = query.after ? place_after(all, *query.after) : 0;
  const auto entries = std::make_shared<Entries>(std::move(all), first, query.limit.value_or(UINT64_MAX));
  const std::string next = entries->has_more() ? next_link(query, entries->last()) : "";
  Response response = begin_response(query, next);
  const auto renderer = std::make_shared<Renderer>(forest, query);
  response.body.emplace_back(renderer->begin());
  response.body.emplace_back([entries, renderer]() -> Result<std::string> {
    std::string piece;
    while (piece.size() < kPiece) {
      const auto entry = entries->next();
      if (!entry) break;
      piece += renderer->entry(*entry);
    }
    return piece;
  });
  response.body.emplace_back(renderer->end(next));
  return response;
}

}  // namespace weightfs::httpd
