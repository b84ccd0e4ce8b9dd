// Ollama's store on disk: manifests/HOST/NAMESPACE/MODEL/TAG, and the blobs that they name in blobs/. (ollama/ollama,
// manifest/paths.go and manifest.go.)
#include "formats/ollama/store.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "formats/ollama/manifest.h"
#include "formats/ollama/name.h"

namespace weightfs::ollama {
namespace {

constexpr size_t kMaxListedBlobs = 3;  // invalid blobs in one warning

// A store may have more manifests than a process may have open files, so manifests up to this size are kept in memory.
// Most are; the manifest of a model with one layer per tensor takes half a megabyte.
constexpr uint64_t kMaxCachedManifest = 64 * 1024;

// The limit for all of them. Beyond it this many are kept open, and further ones are omitted.
constexpr uint64_t kMaxCachedTotal = 64 << 20;
constexpr size_t kMaxOpenManifests = 256;

// Checks the blobs that manifests name, each once.
class StoreBlobs {
 public:
  explicit StoreBlobs(const Folder& folder) : folder_(folder) {}

  /// A message about the missing or wrong blobs of one model; empty if there are none.
  std::string wrong_in(const Manifest& manifest) {
    std::string wrong;
    size_t count = 0;
    const auto check = [&](const Descriptor& descriptor) {
      const std::string one = descriptor.digest ? wrong_with(descriptor) : "";
      if (one.empty() || ++count > kMaxListedBlobs) return;
      wrong += fmt::format("{}{}", wrong.empty() ? "" : "; ", one);
    };
    if (manifest.config) check(*manifest.config);
    std::for_each(manifest.layers.begin(), manifest.layers.end(), check);
    return count > kMaxListedBlobs ? fmt::format("{}; and {} more", wrong, count - kMaxListedBlobs) : wrong;
  }

 private:
  std::string wrong_with(const Descriptor& descriptor) {
    const std::string hex = descriptor.digest->hex();
    const auto known = sizes_.find(hex);
    const auto size = known != sizes_.end() ? known->second : sizes_.emplace(hex, size_of(hex)).first->second;
    if (!size && size.error().code == Code::not_found) return fmt::format("blob sha256:{} is not in the store", hex);
    if (!size) return size.error().message;
    if (!descriptor.size || *descriptor.size == *size) return {};
    return fmt::format("blob sha256:{} has {} bytes, not {}", hex, *size, *descriptor.size);
  }

  // Both file names of a blob: current, and until 2024.
  Result<uint64_t> size_of(const std::string& hex) const {
    auto bytes = folder_.open("sha256-" + hex);
    if (!bytes && bytes.error().code == Code::not_found) bytes = folder_.open("sha256:" + hex);
    return TRY(bytes)->size();
  }

  const Folder& folder_;
  std::map<std::string, Result<uint64_t>> sizes_;  // by digest
};

// A manifest: its bytes, and a message about its blobs.
struct ManifestEntry {
  SourcePtr bytes;
  std::string wrong;
};

// Reads manifests with bounded memory and open files; tags that are hard links of one file are read once.
class ManifestReader {
 public:
  explicit ManifestReader(const Folder& blobs) : blobs_(blobs) {}

  Result<ManifestEntry> read(const SourcePtr& bytes) {
    const std::string identity = bytes->identity();
    const auto known = read_.find(identity);
    if (known != read_.end()) return known->second;
    const ManifestEntry entry = TRY(read_new(bytes));
    if (!identity.empty()) read_.emplace(identity, entry);
    return entry;
  }

 private:
  Result<ManifestEntry> read_new(const SourcePtr& bytes) {
    if (bytes->size() > kMaxManifestSize)
      return failure(Code::unsupported, fmt::format("a manifest of {}", human_size(bytes->size())));
    const bool cached = bytes->size() <= std::min(kMaxCachedManifest, kMaxCachedTotal - cached_);
    if (!cached && open_ == kMaxOpenManifests)
      return failure(Code::unsupported,
                     fmt::format("the manifests of the store are longer than {}", human_size(kMaxCachedTotal)));
    std::string text = TRY(read_text(*bytes, 0, bytes->size()));
    Warnings manifest_warnings;  // repeated when the model is shown
    Budget budget(text.size());
    const Manifest manifest = TRY(read_manifest(text, manifest_warnings, budget));
    if (cached)
      cached_ += text.size();
    else
      ++open_;
    return ManifestEntry{cached ? in_memory(std::move(text)) : bytes, blobs_.wrong_in(manifest)};
  }

  StoreBlobs blobs_;
  std::map<std::string, ManifestEntry> read_;  // by the identities of the files
  uint64_t cached_ = 0;                        // bytes
  size_t open_ = 0;                            // files
};

}  // namespace
}  // namespace weightfs::ollama

namespace weightfs {

bool is_manifest_path(std::string_view path) { return ollama::name_of_path(path).has_value(); }

Result<OllamaStoreListing> read_ollama_store(const Folder& manifests, const std::shared_ptr<const Folder>& blobs,
                                             const BlobsPtr& store) {
  ollama::ManifestReader entries(*blobs);
  OllamaStoreListing listing;
  Warnings warnings;
  for (Part& listed : TRY(manifests.parts())) {
    const Part part = std::move(listed);  // so that its file is closed after the iteration
    if (!part.link_target.empty() || !is_manifest_path(part.path)) continue;
    const auto bytes = part.source.get();
    const auto entry = bytes ? entries.read(*bytes) : Result<ollama::ManifestEntry>(tl::unexpected(bytes.error()));
    if (!entry) {
      warnings.add("{}: {}", part.path, entry.error().message);
      listing.damaged.push_back(part.path);
      continue;
    }
    if (!entry->wrong.empty()) warnings.add("{}: {}", part.path, entry->wrong);
    const std::string tag = part.path.substr(part.path.rfind('/') + 1);
    listing.models.push_back({part.path, Container{tag, entry->bytes, blobs, store}, (*bytes)->identity()});
  }
  listing.warnings = warnings.lines();
  return listing;
}

}  // namespace weightfs
