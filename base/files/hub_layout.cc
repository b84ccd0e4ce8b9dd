#include "base/files/hub_layout.h"

#include <algorithm>
#include <array>

#include "base/digest.h"

namespace weightfs::hub_layout {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"models--", "datasets--", "spaces--"};
constexpr std::string_view kSeparator = "--";

std::string_view last_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string_view above(std::string_view path) { return path.substr(0, std::min(path.rfind('/'), path.size())); }

// Whether a path in a link is that of a repository: a directory of the cache, or two or more `..`.
bool leads_to_repository(std::string_view path) {
  if (last_of(path) != "..") return is_repository(last_of(path));
  return last_of(above(path)) == ".." && path.size() > last_of(path).size();
}

}  // namespace

bool is_repository(std::string_view folder) {
  return std::ranges::any_of(kKinds, [&](std::string_view kind) { return folder.starts_with(kind); });
}

std::string folder_of(std::string_view kind, std::string_view repository) {
  std::string folder = std::string(kind).append(kSeparator).append(repository);
  if (const size_t slash = folder.find('/'); slash != folder.npos) folder.replace(slash, 1, kSeparator);
  return folder;
}

std::optional<std::string> model_of(std::string_view folder) {
  if (!folder.starts_with(kKinds[0])) return std::nullopt;
  std::string name(folder.substr(kKinds[0].size()));
  if (const size_t dashes = name.find(kSeparator); dashes != name.npos) name.replace(dashes, kSeparator.size(), "/");
  return name;
}

std::optional<std::string> blob_of_link(std::string_view text) {
  const std::string name(last_of(text));
  const std::string_view blobs = above(text);
  if (last_of(blobs) != "blobs" || !leads_to_repository(above(blobs))) return std::nullopt;
  return digest_of_hex(name) || sha1_of_hex(name) ? std::optional(name) : std::nullopt;
}

}  // namespace weightfs::hub_layout
