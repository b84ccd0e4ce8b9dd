#include "sources/kinds.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cache/url.h"
#include "protocols/huggingface.h"

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
};

struct SourceKind {
  std::string_view prefix;
  Result<SourceEntry> (*find)(const std::string& rest, const OpenOptions& options, Check check);
  Result<SourcePtr> (*open_file)(const std::string& rest, const OpenOptions& options);
  SourceTraits traits;
};

// The first matching prefix applies. An argument without a prefix is a path, so `./ollama:x` is a file.
constexpr auto kKinds = std::to_array<SourceKind>({
    {"ollama:", find_ollama_name, open_ollama_layer, {.is_registry = true}},
    {"oci:", find_oci_name, open_oci_layer, {.is_registry = true}},
    {"hf:", find_huggingface, open_huggingface_file, {.has_commits = true, .is_offline = huggingface::is_offline}},
    {"https:", find_https_url, open_https_file, {.is_url = true}},
    {"http:", find_http_url, open_http_file, {.is_url = true}},
    {"s3:", find_object, open_object_file, {.read_credentials = read_keys_of_objects}},
    {"", find_path, open_path_file, {.is_path = true}},
});

const SourceKind& kind_of(const std::string& source) {
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [&](const SourceKind& kind) { return source.starts_with(kind.prefix); });
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

Result<void> read_credentials(const std::vector<std::string>& sources, OpenOptions& options) {
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

}  // namespace weightfs
