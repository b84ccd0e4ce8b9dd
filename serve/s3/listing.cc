#include "serve/s3/listing.h"

#include <algorithm>
#include <utility>

#include "serve/s3/xml.h"

namespace weightfs::objects {

Page page_of(const std::vector<hub::RepositoryFile>& files, std::string_view above, const PageQuery& query) {
  const std::string_view prefix = std::string_view(query.prefix).substr(above.size());
  std::string_view after;
  if (query.after.starts_with(above)) after = std::string_view(query.after).substr(above.size());
  const bool is_behind = !query.after.starts_with(above) && query.after > above;
  Page page;
  if (is_behind || query.most == 0) return page;
  auto file = std::ranges::lower_bound(files, std::max(prefix, after), {}, &hub::RepositoryFile::path);
  if (file != files.end() && file->path == after) ++file;
  while (file != files.end() && file->path.starts_with(prefix)) {
    const std::string_view path = file->path;
    const size_t cut = query.delimiter.empty() ? path.npos : path.find(query.delimiter, prefix.size());
    const bool is_group = cut != path.npos;
    const std::string_view name = is_group ? path.substr(0, cut + query.delimiter.size()) : path;
    const auto next = is_group ? std::partition_point(file, files.end(),
                                                      [&](const auto& each) { return each.path.starts_with(name); })
                               : file + 1;
    std::string key = std::string(above) + std::string(name);
    const bool is_possible = key.size() <= kMaxKeySize && (query.names == Names::escaped || is_xml_text(key));
    const bool is_shown = is_possible && key != query.after;
    if (is_shown && page.entries.size() == query.most) {
      page.is_truncated = true;
      return page;
    }
    if (is_shown) page.entries.push_back({std::move(key), is_group ? nullptr : &*file});
    file = next;
  }
  return page;
}

}  // namespace weightfs::objects
