#include "sources/disk/checksum_list.h"

#include <algorithm>
#include <array>
#include <optional>

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

// A name with backslashes that are not escaped was written on Windows.
std::string path_of(std::string_view name, bool is_escaped) {
  std::string path = is_escaped ? unescaped(name) : std::string(name);
  if (!is_escaped) std::ranges::replace(path, '\\', '/');
  while (path.starts_with("./")) path.erase(0, 2);
  return path == "-" ? "" : path;  // standard input
}

// "SHA256 (NAME) = HEX" of BSD, "SHA2-256(NAME)= HEX" of openssl.
std::optional<ListedDigest> tagged(std::string_view line, bool is_escaped) {
  constexpr auto kTags = std::to_array<std::string_view>({"sha256", "sha2-256", "sha-256", "sha1", "md5", "sha384",
                                                          "sha2-384", "sha512", "sha2-512", "blake2b", "blake2b512"});
  constexpr int kSupported = 5;  // the first ones
  const size_t open = line.find('('), close = line.rfind(')');
  if (open == line.npos || close == line.npos || close < open) return std::nullopt;
  const std::string tag = lower_case(trimmed(line.substr(0, open)));
  const auto found = std::ranges::find(kTags, tag);
  if (found == kTags.end()) return std::nullopt;
  const std::string_view rest = trimmed(line.substr(close + 1));
  if (!rest.starts_with('=')) return std::nullopt;
  const auto digest = file_digest_of_hex(trimmed(rest.substr(1)));
  if (!digest || digest->is_supported() != (found < kTags.begin() + kSupported)) return std::nullopt;
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

// The text in UTF-8, if it begins with the byte order mark of UTF-16: PowerShell writes that. A surrogate that is alone
// becomes a character that no name of a file in UTF-8 has.
std::optional<std::string> from_utf16(std::string_view text) {
  const bool is_little = text.starts_with("\xFF\xFE");
  if (!is_little && !text.starts_with("\xFE\xFF")) return std::nullopt;
  const auto unit = [&](size_t at) -> char32_t {
    const auto low = static_cast<unsigned char>(text[is_little ? at : at + 1]);
    const auto high = static_cast<unsigned char>(text[is_little ? at + 1 : at]);
    return static_cast<char32_t>(low | high << 8);
  };
  std::string out;
  for (size_t at = 2; at + 1 < text.size(); at += 2) {
    char32_t point = unit(at);
    if (point >> 10 == 0x36 && at + 3 < text.size() && unit(at + 2) >> 10 == 0x37) {
      point = 0x10000 + ((point & 0x3FF) << 10) + (unit(at + 2) & 0x3FF);
      at += 2;
    }
    append_utf8(out, point);
  }
  return out;
}

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdefABCDEF") == text.npos; }

}  // namespace

std::optional<FileDigest> file_digest_of_hex(std::string_view hex) {
  if (const auto sha256 = digest_of_hex(hex)) return FileDigest{*sha256};
  if (const auto sha1 = sha1_of_hex(hex)) return FileDigest{*sha1};
  if (const auto md5 = md5_of_hex(hex)) return FileDigest{*md5};
  constexpr size_t kDigitsOf384 = 96, kDigitsOf512 = 128;
  if ((hex.size() == kDigitsOf384 || hex.size() == kDigitsOf512) && is_hex(hex)) return FileDigest();
  return std::nullopt;
}

std::vector<ListedDigest> parse_checksum_list(std::string_view text) {
  const auto decoded = from_utf16(text);
  if (decoded) text = *decoded;
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
