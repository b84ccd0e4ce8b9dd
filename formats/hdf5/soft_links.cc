#include "formats/hdf5/soft_links.h"

#include <algorithm>

#include "formats/common/limits.h"

namespace weightfs::hdf5 {
namespace {

// Bytes of paths that are compared in one step of the budget.
constexpr uint64_t kBytesOfStep = 64;

Result<void> charge(Metadata& metadata, std::string_view path) {
  return metadata.charge(Cost::step, 1 + path.size() / kBytesOfStep);
}

// Goes to the place that a path is relative to: the root, or the group of its link, which ends before `name`.
void leave(std::string& at, size_t name, std::string_view target) { at.resize(target.starts_with('/') ? 0 : name); }

}  // namespace

Result<std::optional<std::string>> follow_soft_link(Metadata& metadata, const SoftLinks& links, std::string_view path) {
  const auto first = links.find(path);
  if (first == links.end()) return std::string(path);
  std::string at(path);             // of what was followed, without soft links
  std::string left(first->second);  // to be followed from there
  const size_t slash = path.rfind('/');
  leave(at, slash == path.npos ? 0 : slash, left);
  int followed = 1;
  for (size_t next = 0; next < left.size();) {
    const size_t begin = next;
    const size_t end = std::min(left.find('/', begin), left.size());
    next = std::min(end + 1, left.size());
    const std::string name = left.substr(begin, end - begin);
    if (name.empty() || name == ".") continue;
    const size_t group = at.size();
    at += (group == 0 ? "" : "/") + name;
    if (at.size() >= kMaxNameLength) return std::nullopt;
    TRY_VOID(charge(metadata, at));
    const auto link = links.find(at);
    if (link == links.end()) continue;
    if (++followed > kMaxSoftLinks) return std::nullopt;
    left = std::string(link->second) + "/" + left.substr(next);
    TRY_VOID(charge(metadata, left));
    leave(at, group, left);
    next = 0;
  }
  return at;
}

}  // namespace weightfs::hdf5
