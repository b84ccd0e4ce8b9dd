#include "sources/disk/checksum_list.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kSpace = " \t";

// sha256sum writes `\` before a line with `\\`, `\n` or `\r` in the name.
std::string unescaped(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool is_escape = name[i] == '\\' && i + 1 < name.size();
    const char next = is_escape ? name[++i] : name[i];
    out += !is_escape ? next : next == 'n' ? '\n' : next == 'r' ? '\r' : next;
  }
  return out;
}

std::string path_of(std::string_view name, bool is_escaped) {
  std::string path = is_escaped ? unescaped(name) : std::string(name);
  while (path.starts_with("./")) path.erase(0, 2);
  return path == "-" ? "" : path;  // standard input
}

// "SHA256 (NAME) = HEX" of BSD, "SHA2-256(NAME)= HEX" of openssl.
std::optional<ListedDigest> tagged(std::string_view line, bool is_escaped) {
  constexpr std::array<std::string_view, 5> kTags = {"sha256", "sha2-256", "sha-256", "sha1", "md5"};
  const size_t open = line.find('('), close = line.rfind(')');
  if (open == line.npos || close == line.npos || close < open) return std::nullopt;
  const std::string tag = lower_case(trimmed(line.substr(0, open)));
  if (std::ranges::find(kTags, tag) == kTags.end()) return std::nullopt;
  const std::string_view rest = trimmed(line.substr(close + 1));
  if (!rest.starts_with('=')) return std::nullopt;
  const auto digest = file_digest_of_hex(trimmed(rest.substr(1)));
  if (!digest) return std::nullopt;
  return ListedDigest{path_of(line.substr(open + 1, close - open - 1), is_escaped), *digest};
}

std::optional<ListedDigest> parse_line(std::string_view line) {
  const bool is_escaped = line.starts_with('\\');
  if (is_escaped) line.remove_prefix(1);
  if (auto found = tagged(line, is_escaped)) return found;
  constexpr std::string_view kPrefix = "sha256:";
  if (line.starts_with(kPrefix)) line.remove_prefix(kPrefix.size());
  const size_t end = std::min(line.find_first_of(kSpace), line.size());
  const auto digest = file_digest_of_hex(line.substr(0, end));
  if (!digest) return std::nullopt;
  std::string_view name = trimmed(line.substr(end));
  if (name.starts_with('*')) name.remove_prefix(1);
  return ListedDigest{path_of(name, is_escaped), *digest};
}

}  // namespace

std::optional<FileDigest> file_digest_of_hex(std::string_view hex) {
  if (const auto sha256 = digest_of_hex(hex)) return FileDigest{.sha256 = sha256};
  if (const auto sha1 = sha1_of_hex(hex)) return FileDigest{.sha1 = sha1};
  if (const auto md5 = md5_of_hex(hex)) return FileDigest{.md5 = md5};
  return std::nullopt;
}

std::vector<ListedDigest> parse_checksum_list(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<ListedDigest> listed;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (auto line = parse_line(trimmed(text.substr(0, end)))) listed.push_back(std::move(*line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return listed;
}

}  // namespace weightfs
