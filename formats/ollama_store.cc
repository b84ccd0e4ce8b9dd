// Ollama's store on disk: manifests/HOST/NAMESPACE/MODEL/TAG, and the blobs that they name in blobs/. (ollama/ollama,
// manifest/paths.go and manifest.go.)
#include <algorithm>
#include <map>
#include <optional>

#include "base/text.h"
#include "formats/format.h"
#include "formats/ollama_manifest.h"
#include "formats/ollama_name.h"

namespace weightfs {
namespace {

using ollama::Descriptor;
using ollama::Manifest;

constexpr size_t kNamed = 3;  // of wrong blobs, in one warning

Result<Manifest> manifest_of(const SourcePtr& bytes) {
  if (bytes->size() > ollama::kLongestManifest)
    return failure(Code::unsupported, str("a manifest of ", human_size(bytes->size())));
  Warnings odd;  // said again, in full, where the model is shown
  return ollama::read_manifest(TRY(read_text(*bytes, 0, bytes->size())), odd);
}

// What is wrong with the blobs that manifests name, each looked at once.
class StoreBlobs {
 public:
  explicit StoreBlobs(const Folder& folder) : folder_(folder) {}

  /// What is wrong with those of one model, in words; empty when nothing is.
  std::string wrong_in(const Manifest& manifest) {
    std::string wrong;
    size_t count = 0;
    const auto look = [&](const Descriptor& descriptor) {
      const std::string one = descriptor.digest ? wrong_with(descriptor) : "";
      if (one.empty() || ++count > kNamed) return;
      wrong += str(wrong.empty() ? "" : "; ", one);
    };
    if (manifest.config) look(*manifest.config);
    std::for_each(manifest.layers.begin(), manifest.layers.end(), look);
    return count > kNamed ? str(wrong, "; and ", count - kNamed, " more") : wrong;
  }

 private:
  std::string wrong_with(const Descriptor& descriptor) {
    const std::string hex = descriptor.digest->hex();
    const auto known = sizes_.try_emplace(hex, std::nullopt);
    if (known.second) known.first->second = size_of(hex);
    const auto& size = known.first->second;
    if (!size) return str("blob sha256:", hex, " is not in the store");
    if (!descriptor.size || *descriptor.size == *size) return {};
    return str("blob sha256:", hex, " has ", *size, " bytes, not ", *descriptor.size);
  }

  // Both ways to write a blob's name: of today, and until 2024.
  std::optional<uint64_t> size_of(const std::string& hex) const {
    for (const char* prefix : {"sha256-", "sha256:"})
      if (const auto bytes = folder_.open(prefix + hex)) return (*bytes)->size();
    return std::nullopt;
  }

  const Folder& folder_;
  std::map<std::string, std::optional<uint64_t>> sizes_;  // by digest
};

}  // namespace

bool is_shelf_path(std::string_view path) { return ollama_name_of_path(path).has_value(); }

Result<Shelves> read_shelves(const Folder& manifests, const std::shared_ptr<const Folder>& blobs,
                             const BlobsPtr& store) {
  StoreBlobs known(*blobs);
  Shelves shelves;
  for (const Part& part : TRY(manifests.parts())) {
    if (!part.link_target.empty() || !is_shelf_path(part.path)) continue;
    const auto bytes = part.source.get();
    const auto manifest = bytes ? manifest_of(*bytes) : tl::unexpected(bytes.error());
    if (!manifest) {
      shelves.warnings.push_back(str(part.path, ": left out: ", manifest.error().message));
      continue;
    }
    if (const std::string wrong = known.wrong_in(*manifest); !wrong.empty())
      shelves.warnings.push_back(str(part.path, ": ", wrong));
    const std::string tag = part.path.substr(part.path.rfind('/') + 1);
    shelves.models.push_back({part.path, Container{tag, *bytes, blobs, store}});
  }
  return shelves;
}

}  // namespace weightfs
