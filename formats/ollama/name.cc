#include "formats/ollama/name.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/ollama/manifest.h"

namespace weightfs::ollama {
namespace {

// A part of a name: its title, its maximum length, and the characters allowed beside letters, digits, `_`, `-`.
struct PartRule {
  std::string_view name;
  size_t longest;
  std::string_view also;
};

constexpr PartRule kHost = {"host", 350, ".:"};
constexpr PartRule kNamespace = {"namespace", 80, ""};
constexpr PartRule kModel = {"model", 80, "."};
constexpr PartRule kTag = {"tag", 80, "."};

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool is_valid(const PartRule& rule, std::string_view part) {
  if (part.empty() || part.size() > rule.longest || !is_word(part[0])) return false;
  return std::all_of(part.begin(), part.end(),
                     [&](char c) { return is_word(c) || c == '-' || rule.also.find(c) != rule.also.npos; });
}

Result<void> check(const PartRule& rule, std::string_view part, std::string_view name) {
  if (is_valid(rule, part)) return {};
  return failure(Code::unsupported,
                 fmt::format("{}: not a model's name: {} cannot be a {}", quoted(name), quoted(part), rule.name));
}

Result<void> check(const Name& parts, std::string_view name) {
  TRY_VOID(check(kHost, parts.host, name));
  TRY_VOID(check(kNamespace, parts.name_space, name));
  TRY_VOID(check(kModel, parts.model, name));
  return check(kTag, parts.tag, name);
}

// Removes and returns the part of `text` after the last `separator`.
std::optional<std::string> cut_last(std::string_view& text, char separator) {
  const size_t at = text.rfind(separator);
  if (at == text.npos) return std::nullopt;
  std::string last(text.substr(at + 1));
  text = text.substr(0, at);
  return last;
}

Result<std::string> cut_scheme(std::string_view& text, std::string_view name) {
  const size_t end = text.find("://");
  if (end == text.npos) return "https";
  std::string scheme(text.substr(0, end));
  if (scheme != "http" && scheme != "https")
    return failure(Code::unsupported,
                   fmt::format("{}: scheme {}, http or https expected", quoted(name), quoted(scheme)));
  text.remove_prefix(end + 3);
  if (std::count(text.begin(), text.end(), '/') != 2)
    return failure(Code::unsupported,
                   fmt::format("{}: host/namespace/model expected after {}://", quoted(name), scheme));
  return scheme;
}

Result<std::optional<Digest>> cut_digest(std::string_view& text, std::string_view name) {
  const auto digest = cut_last(text, '@');
  if (!digest) return std::nullopt;
  auto parsed = ollama::digest_named(*digest);
  if (!parsed)
    return failure(Code::unsupported, fmt::format("{}: sha256: and 64 hex digits expected after the @", quoted(name)));
  return parsed;
}

}  // namespace

std::string Name::shortest() const {
  const Name defaults;
  if (host != defaults.host) return fmt::format("{}/{}/{}:{}", host, name_space, model, tag);
  return fmt::format("{}{}:{}", name_space != defaults.name_space ? name_space + "/" : "", model, tag);
}

Result<Name> parse_name(std::string_view text) {
  Name name;
  std::string_view left = text;
  name.scheme = TRY(cut_scheme(left, text));
  name.digest = TRY(cut_digest(left, text));
  // A `:` before the last `/` is the host's.
  const size_t colon = left.rfind(':');
  const size_t slash = left.rfind('/');
  if (colon != left.npos && (slash == left.npos || colon > slash)) name.tag = *cut_last(left, ':');
  for (std::string* const part : {&name.model, &name.name_space}) {
    if (auto last = cut_last(left, '/')) {
      *part = std::move(*last);
      continue;
    }
    *part = left;
    TRY_VOID(check(name, text));
    return name;
  }
  name.host = left;
  TRY_VOID(check(name, text));
  return name;
}

std::optional<Name> name_of_path(std::string_view path) {
  Name name;
  for (std::string* const part : {&name.tag, &name.model, &name.name_space}) {
    auto last = cut_last(path, '/');
    if (!last) return std::nullopt;
    *part = std::move(*last);
  }
  name.host = path;
  if (!check(name, "")) return std::nullopt;
  return name;
}

}  // namespace weightfs::ollama
