// Contradictions in the headers of a tar.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "formats/archive/archive.h"
#include "formats/archive/tar.h"

namespace weightfs::archive::tar {
namespace {

constexpr std::string_view kUstar("ustar\0", 6);
constexpr size_t kTypeAt = 156, kMagicAt = 257, kPrefixAt = 345;  // the offsets of fields

// An extended header, or that of the member itself.
struct HeaderBlock {
  char type;
  std::string_view block;
  std::string_view data;  // of an extended header
};

// The size in a header, as far as it is octal.
size_t size_of(std::string_view block) {
  size_t size = 0;
  for (const char digit : block.substr(124, 11)) {
    if (digit == ' ') continue;
    if (digit < '0' || digit > '7') break;
    size = std::min<size_t>(size * 8 + static_cast<size_t>(digit - '0'), SIZE_MAX / 16);
  }
  return size;
}

bool is_extended(char type) { return std::string_view("xgXLK").find(type) != std::string_view::npos; }

std::vector<HeaderBlock> headers_in(std::string_view bytes) {
  std::vector<HeaderBlock> headers;
  while (bytes.size() >= kBlock) {
    const std::string_view block = bytes.substr(0, kBlock);
    const char type = block[kTypeAt];
    bytes.remove_prefix(kBlock);
    const size_t size = is_extended(type) ? size_of(block) : 0;
    headers.push_back({type, block, bytes.substr(0, size)});
    if (!is_extended(type)) break;
    bytes.remove_prefix(std::min((size + kBlock - 1) / kBlock * kBlock, bytes.size()));
  }
  return headers;
}

// Whether records of PAX have a name or a size. A value may contain the text of a key, which honest ones do not.
bool names_member(std::string_view records) {
  constexpr std::array<std::string_view, 3> kKeys = {" path=", " linkpath=", " size="};
  return std::ranges::any_of(kKeys, [&](std::string_view key) { return records.find(key) != records.npos; });
}

bool is_of_gnu(std::string_view block) { return block.substr(kMagicAt, 6) == "ustar "; }

// The path without `..`, if it stays inside; nothing otherwise, or if it has none.
std::optional<std::string> without_dots(std::string_view path) {
  std::vector<std::string_view> kept;
  bool has_dots = false;
  while (!path.empty()) {
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(component.size() + 1, path.size()));
    if (component != "..") {
      kept.push_back(component);
    } else if (kept.empty()) {
      return std::nullopt;
    } else {
      has_dots = true;
      kept.pop_back();
    }
  }
  if (!has_dots) return std::nullopt;
  std::string out;
  for (const std::string_view component : kept) {
    if (!out.empty()) out += '/';
    out += component;
  }
  return out;
}

}  // namespace

std::optional<std::string> contradiction(std::string_view bytes) {
  bool has_long_name = false, has_pax_name = false;
  for (const HeaderBlock& header : headers_in(bytes)) {
    if (header.type == 'g' && names_member(header.data)) return "a global header with a name or a size";
    if (header.type == '2' && size_of(header.block) > 0) return "a symbolic link with a size";
    has_long_name |= header.type == 'L' || header.type == 'K';
    has_pax_name |= (header.type == 'x' || header.type == 'X') && names_member(header.data);
    if (!is_extended(header.type) && header.block[kPrefixAt] != '\0' && !is_of_gnu(header.block) &&
        header.block.substr(kMagicAt, kUstar.size()) != kUstar)
      return "a header of the old format with a part of a name of ustar";
  }
  if (has_long_name && has_pax_name) return "a name of GNU tar and one of PAX";
  return std::nullopt;
}

bool has_times_as_name(std::string_view bytes) {
  const auto headers = headers_in(bytes);
  return !headers.empty() && is_of_gnu(headers.back().block) && headers.back().block[kPrefixAt] != '\0';
}

Result<void> check_names(const Archive& archive, bool has_times) {
  if (!archive.relinked.empty())
    return failure(Code::corrupt,
                   fmt::format("tar: {} is a link, or below one, and then a file: programs differ in what they write",
                               quoted(archive.relinked)));
  if (has_times && !archive.repeated.empty())
    return failure(Code::corrupt, fmt::format("tar: {} comes twice, and headers have times of GNU tar: programs differ "
                                              "in the names that they read",
                                              quoted(archive.repeated)));
  for (const Part& part : archive.parts) {
    const auto path = without_dots(part.path);
    if (path && archive.find(*path) != nullptr)
      return failure(Code::corrupt,
                     fmt::format("tar: {} and {} are one file for some programs", quoted(part.path), quoted(*path)));
  }
  return {};
}

}  // namespace weightfs::archive::tar
