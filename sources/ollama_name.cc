// A SOURCE that is a model name: `ollama:llama3.2`, from the local Ollama store or from a registry.
#include "sources/ollama_name.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <string_view>
#include <vector>

#include "base/text.h"
#include "cache/address_policy.h"
#include "formats/ollama/name.h"
#include "protocols/registry.h"
#include "sources/block_list.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

// The path of the manifest in a local store; empty if none has it. A manifest that must not be opened is returned too:
// opening it reports the error.
std::string local_manifest(const ollama::Name& name, const Access& access) {
  for (const std::string& store : local_ollama_stores()) {
    const std::string path =
        fmt::format("{}/manifests/{}/{}/{}/{}", store, name.host, name.name_space, name.model, name.tag);
    const auto found =
        locate_source(path, access).and_then([](const Location& location) { return location.examine(); });
    if (found ? S_ISREG(found->st_mode) : is_forbidden(found.error())) return path;
  }
  return {};
}

// A name, and where it is. A name without a scheme, a digest or `//` is searched in the local stores first, then in its
// registry.
struct Found {
  ollama::Name name;
  std::string path = {};  // of the manifest in a local store; empty: in the registry
  Reference reference = {};
};

Result<Found> find_name(const std::string& text, const OpenOptions& options) {
  const bool in_registry = text.starts_with("//");
  const std::string_view named = std::string_view(text).substr(in_registry ? 2 : 0);
  if (named.empty())
    return failure(Code::unsupported,
                   fmt::format("ollama:{} is not followed by the name of a model, such as ollama:llama3.2", text));
  const bool has_scheme = named.starts_with("http://") || named.starts_with("https://");
  Found found{.name = TRY(ollama::parse_name(named))};
  ollama::Name& name = found.name;
  if (!in_registry && !has_scheme && !name.digest) found.path = local_manifest(name, options.access);
  if (!found.path.empty()) return found;
  if (!has_scheme && (options.registries.plain_http || is_loopback_host(name.host))) name.scheme = "http";
  found.reference = {name.scheme, name.host, fmt::format("{}/{}", name.name_space, name.model),
                     name.digest ? "sha256:" + name.digest->hex() : name.tag};
  return found;
}

Result<ResolvedManifest> resolved_in_registry(const std::string& text, const Reference& reference,
                                              const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  if (registries.store == nullptr)
    return failure(Code::unsupported, fmt::format("ollama:{}: registries are not available here", text));
  return resolve(reference, registries.store, registries.http, ModelIndex::selected, mirrors_of(reference, options));
}

}  // namespace

std::vector<std::string> local_ollama_stores() {
  if (const std::string own = environment("OLLAMA_MODELS"); !own.empty()) return {own};
  std::vector<std::string> stores;
  if (const std::string home = environment("HOME"); !home.empty()) stores.push_back(home + "/.ollama/models");
  stores.emplace_back("/usr/share/ollama/.ollama/models");
  return stores;
}

Result<SourceEntry> find_ollama_name(const std::string& text, const OpenOptions& options, Check check) {
  const auto [name, path, reference] = TRY(find_name(text, options));
  if (!path.empty() && !options.registries.has_block_list()) return find_path(path, options, check);
  if (!path.empty())
    return failure(Code::unsupported, fmt::format("ollama:{}: is in a local store, but --tree is for names in "
                                                  "registries; write ollama://",
                                                  text));
  ResolvedManifest resolved = TRY(resolved_in_registry(text, reference, options));
  resolved.blobs = TRY(with_block_list(reference, resolved, options.registries));
  const Container container{
      .name = name.shortest(), .bytes = in_memory(resolved.manifest), .blobs = resolved.blobs, .file = options.file};
  const std::string source = fmt::format("ollama://{}/{}/{}:{}@sha256:{}", name.host, name.name_space, name.model,
                                         name.tag, resolved.digest.hex());
  const Time time = time_now();
  return SourceEntry{container.name, time, 0,
                     [=, forced = options.forced]() -> Result<Opened> {
                       return OpenedModel{std::make_shared<Model>(TRY(read_model(container, forced))), source, time};
                     },
                     resolved.digest.hex()};
}

Result<SourcePtr> open_ollama_layer(const std::string& text, const OpenOptions& options) {
  const auto [name, path, reference] = TRY(find_name(text, options));
  if (!path.empty())
    return failure(Code::unsupported,
                   fmt::format("ollama:{}: is in a local store; write ollama:// for the registry", text));
  return open_large_layer("ollama:" + text, TRY(resolved_in_registry(text, reference, options)));
}

Result<std::optional<Reference>> reference_of_ollama_name(const std::string& name, const OpenOptions& options) {
  Found found = TRY(find_name(name, options));
  if (!found.path.empty()) return std::optional<Reference>();
  return std::move(found.reference);
}

}  // namespace weightfs
