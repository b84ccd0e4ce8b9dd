#include "sources/kinds.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cache/huggingface.h"
#include "cache/url.h"

namespace weightfs {
namespace {

struct SourceKind {
  std::string_view prefix;
  Result<SourceEntry> (*find)(const std::string& rest, const OpenOptions& options, Check check);
  Result<SourcePtr> (*open_file)(const std::string& rest, const OpenOptions& options);  // null: never one file
};

// The first matching prefix applies. An argument without a prefix is a path, so `./ollama:x` is a file.
constexpr auto kKinds = std::to_array<SourceKind>({
    {"ollama:", find_ollama_name, nullptr},
    {"hf:", find_huggingface, open_huggingface_file},
    {"https:", find_https_url, open_https_file},
    {"http:", find_http_url, open_http_file},
    {"", find_path, open_path_file},
});

const SourceKind& kind_of(const std::string& source) {
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [&](const SourceKind& kind) { return source.starts_with(kind.prefix); });
}

bool is_url(const std::string& source) {
  const auto find = kind_of(source).find;
  return find == find_https_url || find == find_http_url;
}

}  // namespace

Result<SourceEntry> find_source(const std::string& source, const OpenOptions& options, Check check) {
  const SourceKind& kind = kind_of(source);
  if (options.registries.has_block_list() && !is_url(source))
    return failure(Code::unsupported, fmt::format("{}: --tree needs the URL of a file", source));
  return kind.find(source.substr(kind.prefix.size()), options, check);
}

Result<SourcePtr> open_source_file(const std::string& source, const OpenOptions& options) {
  const SourceKind& kind = kind_of(source);
  if (kind.open_file == nullptr)
    return failure(Code::unsupported, fmt::format("{}: names a model of several files", source));
  return kind.open_file(source.substr(kind.prefix.size()), options);
}

std::string printable_source(const std::string& source) {
  return is_url(source) ? http::printable_url(source) : source;
}

bool is_offline_by_environment(const std::vector<std::string>& sources) {
  return huggingface::is_offline() && !sources.empty() && std::ranges::all_of(sources, [](const std::string& source) {
           return kind_of(source).find == find_huggingface;
         });
}

bool is_path(const std::string& source) { return kind_of(source).find == find_path; }

}  // namespace weightfs
