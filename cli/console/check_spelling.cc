#include "cli/console/check_spelling.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "report/text/suggestions.h"
#include "report/text/words.h"
#include "sources/source.h"

namespace weightfs {

Result<void> check_spelling(const std::vector<std::string>& sources) {
  constexpr size_t kMaxNames = 1'000;
  for (const std::string& source : sources) {
    std::error_code error;
    const std::filesystem::path path = source;
    if (!is_path(source) ||
        std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::not_found)
      continue;
    const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
      if (names.size() == kMaxNames) break;
      names.push_back(entry->path().filename().string());
    }
    std::vector<std::string> near = suggestions(path.filename().string(), names);
    for (std::string& name : near) name = printable((path.parent_path() / name).string());
    if (!near.empty())
      return failure(Code::not_found, fmt::format("{}: No such file or directory; did you mean {}?", printable(source),
                                                  enumerated(near, " or ")));
  }
  return {};
}

}  // namespace weightfs
