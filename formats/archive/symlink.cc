#include "formats/archive/symlink.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs::archive {

std::string_view directory_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

bool stays_inside(std::string_view path, std::string_view target) {
  if (target.starts_with('/')) return false;
  auto above = std::count(path.begin(), path.end(), '/');
  bool down = false;
  bool inside = true;
  for_each_component(target, [&](std::string_view component) {
    if (component == "..")
      inside = inside && !down && --above >= 0;
    else if (!component.empty() && component != ".")
      down = true;
  });
  return inside;
}

std::string target_of(std::string_view path, std::string_view target) {
  std::string_view directory = directory_of(path);
  std::string below;
  for_each_component(target, [&](std::string_view component) {
    if (component == "..")
      directory = directory_of(directory);
    else if (!component.empty() && component != ".")
      below += (below.empty() ? "" : "/") + std::string(component);
  });
  if (directory.empty() || below.empty()) return below.empty() ? std::string(directory) : below;
  return fmt::format("{}/{}", directory, below);
}

}  // namespace weightfs::archive
