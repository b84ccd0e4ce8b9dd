#include "cli/mount/mount_name.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "formats/format.h"
#include "fs/layout/source_tree.h"
#include "fs/names.h"
#include "sources/location.h"

namespace weightfs {
namespace {

// "/srv/llama" for a path that ends in . or .., which name no model.
Result<std::string> without_dots(const std::string& path) {
  const std::string_view last = std::string_view(path).substr(path.rfind('/') + 1);
  return last == "." || last == ".." ? absolute_path(path) : Result<std::string>(path);
}

// A name in a registry, a repository or a URL, without its revision, digest and query.
std::string without_revision(std::string name) {
  constexpr std::string_view kPullRequest = "@refs/pr/";
  name.resize(std::min(name.find_first_of("?#"), name.size()));
  if (const size_t at = name.find(kPullRequest); at != name.npos)
    name.erase(at, std::min(name.find('/', at + kPullRequest.size()), name.size()) - at);
  while (name.ends_with('/')) name.pop_back();
  const size_t slash = name.rfind('/');
  name.resize(std::min(name.find('@', slash == name.npos ? 0 : slash), name.size()));
  if (slash == name.npos) name.erase(0, name.find(':') + 1);  // the prefix of "ollama:llama3.2"
  return name;
}

// "model" for "model.gguf".
std::string_view without_suffix(std::string_view name) {
  size_t longest = 0;
  for (const Format& format : formats())
    if (const size_t size = format.suffix_of(name).size(); size < name.size()) longest = std::max(longest, size);
  name.remove_suffix(longest);
  constexpr std::string_view kIndex = ".safetensors.index";
  if (name.size() > kIndex.size() && name.ends_with(kIndex)) name.remove_suffix(kIndex.size());
  return name;
}

// "model" for "model-00001-of-00003".
std::string_view without_shard(std::string_view name) {
  constexpr std::string_view kShard = "-00000-of-00000";
  if (name.size() <= kShard.size()) return name;
  const std::string_view end = name.substr(name.size() - kShard.size());
  const bool is_shard = std::equal(end.begin(), end.end(), kShard.begin(), [](char c, char expected) {
    return expected == '0' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : c == expected;
  });
  return is_shard ? name.substr(0, name.size() - kShard.size()) : name;
}

}  // namespace

Result<std::string> mount_name(const std::string& source) {
  std::string name = source;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  name = is_path(source) ? TRY(without_dots(name)) : without_revision(std::move(name));
  name = name.substr(name.rfind('/') + 1);
  std::string short_name(without_shard(without_suffix(name)));
  std::replace(short_name.begin(), short_name.end(), ':', '-');
  return short_name.empty() ? "model" : component(short_name, "", Percent::kept);
}

}  // namespace weightfs
