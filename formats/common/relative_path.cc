#include "formats/common/relative_path.h"

#include <fmt/core.h>

#include <utility>

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
  auto clean = normalize(path, Dots::resolved);
  if (!clean) return refused(path, "leads out of the model's directory");
  if (clean->empty()) return refused(path, "names no file");
  return std::move(*clean);
}

}  // namespace weightfs
