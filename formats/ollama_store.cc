// Ollama's store on disk: manifests/HOST/NAMESPACE/MODEL/TAG, and the blobs that they name in blobs/. (ollama/ollama,
// manifest/paths.go and manifest.go.)
#include <algorithm>

#include "base/text.h"
#include "formats/format.h"
#include "formats/ollama_manifest.h"
#include "formats/ollama_name.h"

namespace weightfs {
namespace {

using ollama::Descriptor;
using ollama::Manifest;

constexpr size_t kNamed = 3;  // of missing blobs, in one warning

Result<Manifest> manifest_of(const SourcePtr& bytes) {
  if (bytes->size() > ollama::kLongestManifest)
    return failure(Code::unsupported, str("a manifest of ", human_size(bytes->size())));
  Warnings odd;  // said again, in full, where the model is shown
  return ollama::read_manifest(TRY(read_text(*bytes, 0, bytes->size())), odd);
}

// Both ways to write a blob's name: of today, and until 2024.
bool is_there(const std::vector<std::string>& blobs, const Digest& digest) {
  return std::binary_search(blobs.begin(), blobs.end(), "sha256-" + digest.hex()) ||
         std::binary_search(blobs.begin(), blobs.end(), "sha256:" + digest.hex());
}

// The blobs that a manifest names and the store has not; empty when it has all.
std::string lacks(const Manifest& manifest, const std::vector<std::string>& blobs) {
  std::string named;
  size_t missing = 0;
  const auto look = [&](const Descriptor& descriptor) {
    if (!descriptor.digest || is_there(blobs, *descriptor.digest)) return;
    if (++missing <= kNamed) named += str(missing == 1 ? "" : ", ", "sha256:", descriptor.digest->hex());
  };
  if (manifest.config) look(*manifest.config);
  std::for_each(manifest.layers.begin(), manifest.layers.end(), look);
  if (missing == 0) return {};
  return str(missing, missing == 1 ? " blob is" : " blobs are", " not in the store: ", named,
             missing > kNamed ? ", …" : "");
}

}  // namespace

bool is_shelf_path(std::string_view path) { return ollama_name_of_path(path).has_value(); }

Result<Shelves> read_shelves(const Folder& manifests, const std::shared_ptr<const Folder>& blobs,
                             const BlobsPtr& store) {
  const auto names = TRY(blobs->names());
  Shelves shelves;
  for (const Part& part : TRY(manifests.parts())) {
    if (!part.link_target.empty() || !is_shelf_path(part.path)) continue;
    const auto bytes = part.source.get();
    const auto manifest = bytes ? manifest_of(*bytes) : tl::unexpected(bytes.error());
    if (!manifest) {
      shelves.warnings.push_back(str(part.path, ": left out: ", manifest.error().message));
      continue;
    }
    if (const std::string missing = lacks(*manifest, names); !missing.empty())
      shelves.warnings.push_back(str(part.path, ": ", missing));
    const std::string tag = part.path.substr(part.path.rfind('/') + 1);
    shelves.models.push_back({part.path, Container{tag, *bytes, blobs, store}});
  }
  return shelves;
}

}  // namespace weightfs
