// MANIFEST and LINKS.

#include <algorithm>
#include <span>

#include "base/text.h"
#include "formats/carton/carton.h"

namespace weightfs::carton {
namespace {

// The maximum for one file: each may be tried when the file is read.
constexpr size_t kMaxUrls = 16;

// One line of MANIFEST, without its end.
void read_line(std::string_view line, size_t number, Manifest& manifest, Warnings& warnings) {
  const size_t equals = line.rfind('=');  // paths may have more of them
  if (equals == line.npos) return warnings.add("MANIFEST line {}: no `=` in {}", number, quoted(line));
  const std::string_view path = line.substr(0, equals);
  const std::string_view hex = line.substr(equals + 1);
  const auto digest = digest_of_hex(hex);
  if (!digest) return warnings.add("MANIFEST line {}: {} is not a SHA-256", number, quoted(hex));
  if (!manifest.digests.insert_or_assign(std::string(path), *digest).second)
    warnings.add("MANIFEST line {}: {} is listed twice; the last entry is used", number, quoted(path));
}

// The cost of an entry of the map: its node with the digest and the path, and the path among the missing ones.
Result<void> charge_line(std::string_view line, Budget& budget) {
  TRY_VOID(budget.charge(Cost::value));
  return budget.charge(Cost::kept, 2 * line.size());
}

}  // namespace

Manifest read_manifest(std::string_view text, Warnings& warnings, Budget& budget) {
  Manifest manifest;
  manifest.hash = sha256(text);
  if (!is_utf8(text)) warnings.add("MANIFEST: not UTF-8");
  std::string_view before;
  bool sorted = true;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (const auto room = charge_line(line, budget); !room) {
      warnings.add("MANIFEST line {}: {}; this line and those after it are not read", number, room.error().message);
      break;
    }
    read_line(line, number, manifest, warnings);
    const std::string_view path = line.substr(0, line.rfind('='));
    sorted = sorted && before <= path;
    before = path;
  }
  if (!sorted) warnings.add("MANIFEST: not in alphabetical order");
  return manifest;
}

Result<Links> read_links(std::string_view text, Warnings& warnings, Budget& budget) {
  // The lists of URLs, which remain from the Map, are charged with it.
  const Map toml = TRY(parse_toml(text, budget));
  const Value* version = toml.find("version");
  if (version == nullptr || !std::holds_alternative<int64_t>(*version))
    warnings.add("LINKS: version: an integer is missing");
  else if (std::get<int64_t>(*version) != 1)
    warnings.add("LINKS: version {}; 1 is supported", std::get<int64_t>(*version));
  Links links;
  const Value* urls = toml.find("urls");
  if (urls == nullptr || !std::holds_alternative<Map>(*urls)) {
    warnings.add("LINKS: no table [urls]");
    return links;
  }
  for (const auto& [hex, list] : std::get<Map>(*urls)) {
    const auto digest = digest_of_hex(hex);
    const auto* texts = std::get_if<List>(&list);
    const auto is_text = [](const Value& value) { return std::holds_alternative<std::string>(value); };
    if (!digest || texts == nullptr || !std::all_of(texts->begin(), texts->end(), is_text)) {
      warnings.add("LINKS: {}{}", quoted(hex), digest ? ": not a list of texts" : ": no SHA-256");
      continue;
    }
    if (texts->size() > kMaxUrls)
      warnings.add("LINKS: {}: {} URLs; the first {} are used", quoted(hex), texts->size(), kMaxUrls);
    auto& urls_of = links.urls[digest->hex()];
    for (const Value& url : std::span(*texts).first(std::min(texts->size(), kMaxUrls)))
      urls_of.push_back(std::get<std::string>(url));
  }
  return links;
}

}  // namespace weightfs::carton
