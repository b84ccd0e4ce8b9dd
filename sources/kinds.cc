#include "sources/kinds.h"

#include <array>
#include <string_view>

namespace weightfs {
namespace {

struct SourceKind {
  std::string_view prefix;
  Result<SourceEntry> (*find)(const std::string& rest, const OpenOptions& options);
};

// The first matching prefix applies. An argument without a prefix is a path, so `./ollama:x` is a file.
constexpr std::array<SourceKind, 2> kKinds = {{
    {"ollama:", find_ollama_name},
    {"", find_path},
}};

}  // namespace

Result<SourceEntry> find_source(const std::string& source, const OpenOptions& options) {
  for (const SourceKind& kind : kKinds)
    if (source.starts_with(kind.prefix)) return kind.find(source.substr(kind.prefix.size()), options);
  return failure(Code::not_found, source);  // not reached: every text begins with the empty prefix
}

}  // namespace weightfs
