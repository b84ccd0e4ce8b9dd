#include "formats/common/relative_path.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kMaxPath = 4095;  // PATH_MAX without the NUL byte

tl::unexpected<Error> refused(std::string_view path, std::string_view reason) {
  return failure(Code::corrupt, fmt::format("path {} {}", quoted(path), reason));
}

}  // namespace

Result<std::string> relative_path(std::string_view path) {
  if (path.size() > kMaxPath || path.find('\0') != path.npos) return refused(path, "is not a valid path");
  if (path.starts_with('/')) return refused(path, "is absolute");
  std::string clean;
  for (std::string_view rest = path; !rest.empty();) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view component = rest.substr(0, slash);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (component.empty() || component == ".") continue;
    if (component == ".." && clean.empty()) return refused(path, "leads out of the model's directory");
    if (component == "..") {
      clean.erase(clean.find('/') == clean.npos ? 0 : clean.rfind('/'));
      continue;
    }
    if (!clean.empty()) clean += '/';
    clean += component;
  }
  if (clean.empty()) return refused(path, "names no file");
  return clean;
}

}  // namespace weightfs
