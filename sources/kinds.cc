#include "sources/kinds.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "cache/url.h"
#include "protocols/azure.h"
#include "protocols/huggingface.h"
#include "protocols/registry_server.h"
#include "protocols/s3.h"
#include "protocols/s3_server.h"

namespace weightfs {
namespace {

// What is true of all sources of a kind.
struct SourceTraits {
  bool is_path = false;
  bool is_url = false;  // of a file or a directory: it may have secrets and a block list
  bool is_registry = false;
  bool has_commits = false;        // a commit in the name determines the bytes, as a digest does
  bool (*is_offline)() = nullptr;  // whether the user's environment forbids requests; null: it does not
  Result<void> (*read_credentials)(OpenOptions& options) = nullptr;  // that the sandbox hides; null: there are none
  bool (*is_one)(const std::string& source) = nullptr;               // beside the prefix; null: it suffices
};

struct SourceKind {
  std::string_view prefix;
  Result<SourceEntry> (*find)(const std::string& rest, const OpenOptions& options, Check check);
  Result<SourcePtr> (*open_file)(const std::string& rest, const OpenOptions& options);
  Result<std::vector<Scope>> (*scopes)(const std::string& rest, const OpenOptions& options);  // null: none, or:
  Result<std::optional<Reference>> (*reference)(const std::string& rest, const OpenOptions& options);  // in a registry
  SourceTraits traits;
};

// The first matching prefix applies. An argument without a prefix is a path, so `./ollama:x` is a file.
constexpr auto kKinds = std::to_array<SourceKind>({
    {"ollama:", find_ollama_name, open_ollama_layer, nullptr, reference_of_ollama_name, {.is_registry = true}},
    {"oci:", find_oci_name, open_oci_layer, nullptr, reference_of_oci_name, {.is_registry = true}},
    {"hf:",
     find_huggingface,
     open_huggingface_file,
     scopes_of_huggingface,
     nullptr,
     {.has_commits = true, .is_offline = huggingface::is_offline}},
    {"ms:", find_modelscope, open_modelscope_file, scopes_of_modelscope, nullptr, {}},
    {"https:",
     find_blob_url,
     open_blob_url,
     scopes_of_blob_url,
     nullptr,
     {.is_url = true, .read_credentials = read_keys_of_blob_urls, .is_one = is_blob_url}},
    {"https:", find_https_url, open_https_file, scopes_of_https_url, nullptr, {.is_url = true}},
    {"http:", find_http_url, open_http_file, scopes_of_http_url, nullptr, {.is_url = true}},
    {"s3:", find_object, open_object_file, scopes_of_object, nullptr, {.read_credentials = read_keys_of_objects}},
    {"gs:",
     find_google_object,
     open_google_object_file,
     scopes_of_google_object,
     nullptr,
     {.read_credentials = read_tokens_of_google}},
    {"az:", find_blob, open_blob_file, scopes_of_blob, nullptr, {.read_credentials = read_keys_of_blobs}},
    {"abfs:", find_abfs_blob, open_abfs_file, scopes_of_abfs, nullptr, {.read_credentials = read_keys_of_blobs}},
    {"abfss:", find_abfs_blob, open_abfs_file, scopes_of_abfs, nullptr, {.read_credentials = read_keys_of_blobs}},
    {"", find_path, open_path_file, nullptr, nullptr, {.is_path = true}},
});

const SourceKind& kind_of(const std::string& source) {
  return *std::find_if(kKinds.begin(), kKinds.end(), [&](const SourceKind& kind) {
    return lower_case(source.substr(0, kind.prefix.size())) == kind.prefix &&
           (kind.traits.is_one == nullptr || kind.traits.is_one(source));
  });
}

// Whether the name of a source on a server determines its bytes: by a digest, or by a commit of the Hub.
bool names_its_bytes(const std::string& source) {
  constexpr size_t kCommitDigits = 40;
  const size_t at = source.rfind('@');
  if (at == source.npos) return false;
  const std::string_view revision = std::string_view(source).substr(at + 1);
  if (revision.starts_with("sha256:")) return parse_digest(revision).has_value();
  const size_t digits = std::min(revision.find_first_not_of("0123456789abcdef"), revision.size());
  return kind_of(source).traits.has_commits && digits == kCommitDigits &&
         (digits == revision.size() || revision[digits] == '/');
}

bool is_url(const std::string& source) { return kind_of(source).traits.is_url; }

// Nothing for a name that is not valid, too: opening it reports the error.
std::optional<Reference> place_of(const std::string& source, const OpenOptions& options) {
  const SourceKind& kind = kind_of(source);
  if (kind.reference == nullptr) return std::nullopt;
  return kind.reference(source.substr(kind.prefix.size()), options).value_or(std::nullopt);
}

}  // namespace

Result<SourceEntry> find_source(const std::string& source, const OpenOptions& options, MayOpen, Check check) {
  const SourceKind& kind = kind_of(source);
  if (options.registries.has_block_list() && !is_url(source) && !is_registry_name(source))
    return failure(Code::unsupported,
                   fmt::format("{}: --tree needs the URL of a file, or a name in a registry", source));
  // A block list describes one layer only of a model in a registry.
  const bool is_listed = options.registries.has_block_list() && is_url(source);
  if (options.require_digest && !kind.traits.is_path && !is_listed && !names_its_bytes(source))
    return failure(Code::unsupported,
                   fmt::format("{}: no digest in the name (--require-digest)", printable_source(source)));
  if (is_url(source)) TRY_VOID(check_not_a_page_of_the_hub(source));
  auto entry = kind.find(source.substr(kind.prefix.size()), options, check);
  if (!entry && kind.traits.is_path && entry.error().code == Code::not_found)
    return failure(with_probable_source(source, std::move(entry.error())));
  return entry;
}

Result<SourcePtr> open_source_file(const std::string& source, const OpenOptions& options, MayOpen) {
  const SourceKind& kind = kind_of(source);
  return kind.open_file(source.substr(kind.prefix.size()), options);
}

// Those of object stores replace those of registries, which have a note instead of an error.
Result<void> read_credentials(const std::vector<std::string>& sources, OpenOptions& options) {
  for (const std::string& source : sources)
    if (const auto reference = place_of(source, options)) read_keys_of_registry(*reference, options);
  for (const SourceKind& kind : kKinds) {
    const auto is_of_kind = [&](const std::string& source) { return &kind_of(source) == &kind; };
    if (kind.traits.read_credentials != nullptr && std::ranges::any_of(sources, is_of_kind))
      TRY_VOID(kind.traits.read_credentials(options));
  }
  return {};
}

std::string printable_source(const std::string& source) {
  return is_url(source) ? http::printable_url(source) : source;
}

bool is_offline_by_environment(const std::vector<std::string>& sources) {
  return !sources.empty() && std::ranges::all_of(sources, [](const std::string& source) {
    const auto is_offline = kind_of(source).traits.is_offline;
    return is_offline != nullptr && is_offline();
  });
}

bool is_registry_name(const std::string& source) { return kind_of(source).traits.is_registry; }

bool is_path(const std::string& source) { return kind_of(source).traits.is_path; }

namespace {

// Whether a server may resolve the path of a URL to one above it: also if it decodes it more than once, or takes a
// backslash for a slash.
bool has_dots(std::string_view path) {
  constexpr int kMaxDecodings = 8;
  std::string text(path);
  for (int i = 0; i < kMaxDecodings; ++i) {
    std::ranges::replace(text, '\\', '/');
    bool found = false;
    for_each_component(text, [&](std::string_view part) {
      part = part.substr(0, part.find(';'));  // some servers leave out what follows
      found |= part == "." || part == "..";
    });
    if (found) return true;
    std::string decoded = http::url_decoded(text);
    if (decoded == text) return false;
    text = std::move(decoded);
  }
  return true;
}

// "manifests/latest", "blobs/sha256:…"
bool is_of_repository(std::string_view rest, const std::string& query) {
  const size_t question = std::min(rest.find('?'), rest.size());
  if (rest.substr(question) != (query.empty() ? "" : "?" + query)) return false;
  rest = rest.substr(0, question);
  for (const std::string_view kind : {"manifests/", "blobs/", "referrers/"})
    if (rest.starts_with(kind)) return rest.size() > kind.size() && rest.find('/', kind.size()) == rest.npos;
  return false;
}

}  // namespace

bool is_in(const Scope& scope, const std::string& url) {
  const std::string normalized = http::normalized_url(url);
  const std::string origin = http::origin_of(url);
  if (scope.paths == Scope::Paths::one) return normalized == scope.below;
  if (origin.empty() || has_dots(std::string_view(normalized).substr(0, normalized.find('?')))) return false;
  if (scope.paths == Scope::Paths::bucket)
    return s3::is_of_bucket(normalized, scope.bucket, scope.credentials.server, scope.folder);
  if (scope.below.empty() || http::origin_of(scope.below) != origin) return false;
  if (scope.paths == Scope::Paths::models)
    return huggingface::is_of_permitted_model(normalized, scope.below, scope.patterns);
  if (scope.paths == Scope::Paths::repositories)
    return registry::is_permitted_repository(registry::repository_in(normalized, scope.below), scope.patterns);
  if (scope.paths == Scope::Paths::objects)
    return s3::is_permitted_request(normalized, scope.credentials.server, scope.patterns);
  if (scope.paths == Scope::Paths::container) return azure::is_of_container(normalized, scope.below, scope.folder);
  // The Hub accepts a name in capitals or small letters.
  const bool is_hub = scope.credentials.kind == http::CredentialsName::Kind::hub;
  if (is_hub ? !lower_case(normalized).starts_with(lower_case(scope.below)) : !normalized.starts_with(scope.below))
    return false;
  return scope.paths == Scope::Paths::all ||
         is_of_repository(std::string_view(normalized).substr(scope.below.size()), scope.query);
}

MirrorTable mirrors_of_sources(const std::vector<std::string>& sources, const OpenOptions& options) {
  MirrorTable mirrors;
  for (const std::string& source : sources)
    if (const auto reference = place_of(source, options))
      if (auto found = mirrors_of(*reference, options); !found.empty())
        mirrors[name_of_repository(*reference)] = std::move(found);
  return mirrors;
}

std::vector<Scope> scopes_of(const std::vector<std::string>& sources, const OpenOptions& options,
                             const std::vector<std::string>& cache_mirrors) {
  std::vector<Scope> scopes;
  for (const std::string& source : sources) {
    const SourceKind& kind = kind_of(source);
    Result<std::vector<Scope>> found;
    if (const auto reference = place_of(source, options)) found = scopes_of_repository(*reference, options);
    if (kind.scopes != nullptr) found = kind.scopes(source.substr(kind.prefix.size()), options);
    if (found) scopes.insert(scopes.end(), found->begin(), found->end());
  }
  for (const std::string& url : cache_mirrors) scopes.push_back({.below = http::normalized_url(url + "/")});
  return scopes;
}

}  // namespace weightfs
