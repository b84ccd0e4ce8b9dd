#include "cli/remote.h"

#include <sys/stat.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cache/address_policy.h"
#include "formats/ollama/name.h"

namespace weightfs {
namespace {

constexpr std::string_view kPrefix = "ollama:";

// The manifest's path in a local store; empty when none has it. One that may not be opened is found: to open it says
// why.
std::string local_manifest(const OllamaName& name, const Access& access) {
  for (const std::string& store : local_ollama_stores()) {
    const std::string path = str(store, "/manifests/", name.host, "/", name.name_space, "/", name.model, "/", name.tag);
    const auto found =
        locate_source(path, access).and_then([](const Location& location) { return location.examine(); });
    if (found ? S_ISREG(found->st_mode) : is_forbidden(found.error())) return path;
  }
  return {};
}

}  // namespace

std::vector<std::string> local_ollama_stores() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("OLLAMA_MODELS"); !own.empty()) return {own};
  std::vector<std::string> stores;
  if (const std::string home = variable("HOME"); !home.empty()) stores.push_back(home + "/.ollama/models");
  stores.emplace_back("/usr/share/ollama/.ollama/models");
  return stores;
}

Result<std::optional<Remote>> find_remote(std::string& source, const BlobStorePtr& store, const HttpPtr& http,
                                          Scheme scheme, const Access& access) {
  if (!source.starts_with(kPrefix)) return std::nullopt;
  std::string_view text = std::string_view(source).substr(kPrefix.size());
  const bool in_registry = text.starts_with("//");
  if (in_registry) text.remove_prefix(2);
  const bool says_scheme = text.starts_with("http://") || text.starts_with("https://");
  OllamaName name = TRY(parse_ollama_name(text));
  if (!in_registry && !says_scheme && !name.digest) {
    if (std::string path = local_manifest(name, access); !path.empty()) {
      source = std::move(path);
      return std::nullopt;
    }
  }
  if (!says_scheme && (scheme == Scheme::http || is_loopback_host(name.host))) name.scheme = "http";
  const Reference reference{name.scheme, name.host, str(name.name_space, "/", name.model),
                            name.digest ? "sha256:" + name.digest->hex() : name.tag};
  const Resolved resolved = TRY(resolve(reference, store, http, Keys::of_user()));
  const std::string shown = name.shortest();
  return Remote{Container{shown, in_memory(resolved.manifest), nullptr, resolved.blobs},
                str("ollama://", name.host, "/", name.name_space, "/", name.model, ":", name.tag,
                    "@sha256:", resolved.digest.hex()),
                shown};
}

}  // namespace weightfs
