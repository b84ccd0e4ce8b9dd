#include "sources/kinds.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cache/url.h"

namespace weightfs {
namespace {

struct SourceKind {
  std::string_view prefix;
  Result<SourceEntry> (*find)(const std::string& rest, const OpenOptions& options, Check check);
};

// The first matching prefix applies. An argument without a prefix is a path, so `./ollama:x` is a file.
constexpr auto kKinds = std::to_array<SourceKind>({
    {"ollama:", find_ollama_name},
    {"https:", find_https_url},
    {"http:", find_http_url},
    {"", find_path},
});

const SourceKind& kind_of(const std::string& source) {
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [&](const SourceKind& kind) { return source.starts_with(kind.prefix); });
}

}  // namespace

Result<SourceEntry> find_source(const std::string& source, const OpenOptions& options, Check check) {
  const SourceKind& kind = kind_of(source);
  return kind.find(source.substr(kind.prefix.size()), options, check);
}

std::string printable_source(const std::string& source) {
  const auto find = kind_of(source).find;
  return find == find_https_url || find == find_http_url ? http::printable_url(source) : source;
}

bool is_path(const std::string& source) { return kind_of(source).find == find_path; }

}  // namespace weightfs
