#include "sources/unlisted_folder.h"

#include <fmt/core.h>

#include <iterator>

#include "base/text.h"
#include "sources/file_list.h"

namespace weightfs {

Result<SourcePtr> UnlistedFolder::open(std::string_view name) const {
  if (!is_file_name(name)) return failure(Code::unsupported, fmt::format("{}: not a file name", quoted(name)));
  return open_(name);
}

Result<SourcePtr> UnlistedFolder::open_below(std::string_view path, std::string_view /*referrer*/) const {
  if (!is_plain_path(path))
    return failure(Code::unsupported, fmt::format("{}: not a path below the model", quoted(path)));
  return open_(path);
}

void UnlistedFolder::prepare(const std::vector<std::string>& names,
                             uint64_t (*header_size)(std::string_view head)) const {
  auto files = request_headers(
      names, [&](const std::string& name) { return open(name); }, header_size, on_opened_);
  const std::scoped_lock lock(mutex_);
  std::move(files.begin(), files.end(), std::back_inserter(prepared_));
}

}  // namespace weightfs
