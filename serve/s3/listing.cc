#include "serve/s3/listing.h"

#include <algorithm>
#include <utility>

#include "serve/s3/xml.h"

namespace weightfs::objects {
namespace {

// The first number from `begin` on whose path is not before the wanted ones.
template <class IsBefore>
size_t find_behind(const SortedPaths& paths, size_t begin, IsBefore is_before) {
  for (size_t end = paths.count; begin < end;) {
    const size_t middle = begin + (end - begin) / 2;
    if (is_before(paths.at(middle)))
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

}  // namespace

Page page_of(const SortedPaths& paths, std::string_view above, const PageQuery& query) {
  const std::string_view prefix = std::string_view(query.prefix).substr(above.size());
  std::string_view after;
  if (query.after.starts_with(above)) after = std::string_view(query.after).substr(above.size());
  const bool is_behind = !query.after.starts_with(above) && query.after > above;
  Page page;
  if (is_behind || query.most == 0) return page;
  size_t file = find_behind(paths, 0, [&](std::string_view path) { return path < std::max(prefix, after); });
  if (file < paths.count && paths.at(file) == after) ++file;
  while (file < paths.count && paths.at(file).starts_with(prefix)) {
    const std::string_view path = paths.at(file);
    const size_t cut = query.delimiter.empty() ? path.npos : path.find(query.delimiter, prefix.size());
    const bool is_group = cut != path.npos;
    const std::string_view name = is_group ? path.substr(0, cut + query.delimiter.size()) : path;
    const size_t next =
        is_group ? find_behind(paths, file, [&](std::string_view each) { return each.starts_with(name); }) : file + 1;
    std::string key = std::string(above) + std::string(name);
    const bool is_possible = key.size() <= kMaxKeySize && (query.names == Names::escaped || is_xml_text(key));
    const bool is_shown = is_possible && key != query.after;
    if (is_shown && page.entries.size() == query.most) {
      page.is_truncated = true;
      return page;
    }
    if (is_shown) page.entries.push_back({std::move(key), is_group ? std::nullopt : std::optional(file)});
    file = next;
  }
  return page;
}

}  // namespace weightfs::objects
