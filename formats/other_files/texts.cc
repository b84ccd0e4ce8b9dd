#include "formats/other_files/texts.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/grouped.h"

namespace weightfs::other_files {
namespace {

constexpr size_t kMaxShown = 60;  // bytes of a first line

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

// The first line, cut.
std::string first_line(std::string_view text) {
  text = without_blanks(text);
  text = text.substr(0, text.find_first_of("\r\n"));
  if (text.size() <= kMaxShown) return quoted(text);
  return quoted(begin_of_text(text, kMaxShown)) + "…";
}

bool begins_ignoring_case(std::string_view text, std::string_view with) {
  return lower_case(text.substr(0, with.size())) == with;
}

// `text` may end in the middle of a character.
bool is_text(std::string_view text) {
  constexpr size_t kMaxContinued = 3;  // bytes of a character after its first
  size_t end = text.size();
  while (end > 0 && text.size() - end < kMaxContinued && !is_utf8(text.substr(0, end))) --end;
  text = text.substr(0, end);
  return !text.empty() && is_utf8(text) && std::ranges::none_of(text, [](char c) {
    return (c >= 0 && c < ' ' && c != '\n' && c != '\r' && c != '\t') || c == '\x7F';
  });
}

std::optional<Value> parsed(std::string_view text, uint64_t size, Budget& budget) {
  const std::string_view begin = without_blanks(text);
  if (size > text.size() || (!begin.starts_with('{') && !begin.starts_with('['))) return std::nullopt;
  auto value = parse_json(*in_memory(std::string(text)), 0, text.size(), budget);
  if (!value) return std::nullopt;
  return std::move(*value);
}

}  // namespace

std::optional<Error> git_lfs_pointer(const Container& container, std::string_view head) {
  constexpr const char* kLfs = "git-lfs-pointer";
  constexpr uint64_t kMaxPointer = 1024;
  constexpr std::string_view kVersion = "version https://git-lfs.github.com/spec/v1\n";
  if (!head.starts_with(kVersion) || container.bytes->size() > kMaxPointer) return std::nullopt;
  const auto field = [&](std::string_view name) {
    const size_t at = head.find(fmt::format("\n{} ", name));
    const std::string_view rest = at == head.npos ? "" : head.substr(at + name.size() + 2);
    return rest.substr(0, rest.find('\n'));
  };
  const auto bytes = parse_number<uint64_t>(field("size"));
  if (!bytes) return other("a Git LFS pointer; run git lfs pull", kLfs);
  std::string what = fmt::format("a Git LFS pointer to a file of {} ({} bytes); run git lfs pull", human_size(*bytes),
                                 grouped(*bytes));
  const auto digest = parse_digest(field("oid"));
  if (digest && container.blobs->is_local({.name = container.name, .digest = *digest, .size = *bytes}))
    what += fmt::format("; the cache has a file with its digest, sha256:{}", digest->hex());
  return other(std::move(what), kLfs);
}

std::optional<Error> html(std::string_view head) {
  constexpr size_t kMaxTitle = 80;
  const std::string_view begin = without_blanks(head);
  const auto is = [&](std::string_view tag) { return begins_ignoring_case(begin, tag); };
  if (!is("<!doctype html") && !is("<html") && !is("<head")) return std::nullopt;
  std::string title;
  if (const size_t at = head.find("<title>"); at != head.npos)
    if (const size_t end = head.find("</title>", at); end != head.npos && end - at - 7 <= kMaxTitle)
      title = fmt::format(" ({})", quoted(head.substr(at + 7, end - at - 7)));
  return other(fmt::format("an HTML page{}, not a model; the server probably sent a login or error page", title),
               "html");
}

std::optional<Error> xml(std::string_view text) {
  const std::string_view begin = without_blanks(text);
  constexpr const char* kXml = "xml";
  if (!begin.starts_with("<?xml") && !begin.starts_with("<Error>")) return std::nullopt;
  const size_t at = text.find("<Code>");
  const size_t end = at == text.npos ? at : text.find("</Code>", at);
  if (end == text.npos || end - at > kMaxShown + 6) return other("an XML document, not a model", kXml);
  return other(fmt::format("an XML document with the error {}", printable(text.substr(at + 6, end - at - 6))), kXml);
}

std::optional<Error> json_error(std::string_view begin, uint64_t size, Budget& budget) {
  const auto value = parsed(begin, size, budget);
  const auto* const map = value ? std::get_if<Map>(&*value) : nullptr;
  if (map == nullptr) return std::nullopt;
  for (const char* const key : {"error", "message", "errors", "detail"}) {
    const Value* const found = map->find(key);
    if (found == nullptr) continue;
    const auto* const error = std::get_if<std::string>(found);
    return other(fmt::format("a JSON document with the error {}",
                             error != nullptr ? first_line(*error) : first_line(to_json_line(*found))),
                 "json");
  }
  return std::nullopt;
}

std::optional<Error> json(std::string_view begin, uint64_t size, Budget& budget) {
  if (!parsed(begin, size, budget)) return std::nullopt;
  return other("a JSON document, not a model", "json");
}

std::optional<Error> plain_text(std::string_view text, uint64_t size) {
  constexpr uint64_t kShort = 1024;
  if (!is_text(text)) return std::nullopt;
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.find("/annex/objects/") != line.npos) return other("a git-annex pointer; run git annex get", "pointer");
  return other(size <= kShort ? fmt::format("text: {}", first_line(text)) : "a text file, not a model", "text");
}

}  // namespace weightfs::other_files
