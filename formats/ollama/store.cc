// Ollama's store on disk: manifests/HOST/NAMESPACE/MODEL/TAG, and the blobs that they name in blobs/. (ollama/ollama,
// manifest/paths.go and manifest.go.)
#include <algorithm>
#include <map>

#include "base/text.h"
#include "formats/format.h"
#include "formats/ollama/manifest.h"
#include "formats/ollama/name.h"

namespace weightfs {
namespace {

using ollama::Descriptor;
using ollama::Manifest;

constexpr size_t kNamed = 3;  // of wrong blobs, in one warning

// A store may have more manifests than a process may have open files: those up to this many bytes are held in memory.
// That is most; of a model whose every tensor is a layer it takes half a megabyte.
constexpr uint64_t kHeld = 64 * 1024;

// And so many bytes of all of them; then so many are held open, and what is beyond is left out.
constexpr uint64_t kHeldInAll = 64 << 20;
constexpr size_t kOpen = 256;

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
    const auto known = sizes_.find(hex);
    const auto size = known != sizes_.end() ? known->second : sizes_.emplace(hex, size_of(hex)).first->second;
    if (!size && size.error().code == Code::not_found) return str("blob sha256:", hex, " is not in the store");
    if (!size) return size.error().message;
    if (!descriptor.size || *descriptor.size == *size) return {};
    return str("blob sha256:", hex, " has ", *size, " bytes, not ", *descriptor.size);
  }

  // Both ways to write a blob's name: of today, and until 2024.
  Result<uint64_t> size_of(const std::string& hex) const {
    auto bytes = folder_.open("sha256-" + hex);
    if (!bytes && bytes.error().code == Code::not_found) bytes = folder_.open("sha256:" + hex);
    return TRY(bytes)->size();
  }

  const Folder& folder_;
  std::map<std::string, Result<uint64_t>> sizes_;  // by digest
};

// A manifest: the bytes to read it from again when its model is shown, and what is wrong with the blobs that it names.
struct Entry {
  SourcePtr bytes;
  std::string wrong;
};

// Reads manifests, with bounded memory and so many open files; tags that are hard links of one file once.
class Entries {
 public:
  explicit Entries(const Folder& blobs) : blobs_(blobs) {}

  Result<Entry> read(const SourcePtr& bytes) {
    const std::string identity = bytes->identity();
    const auto known = read_.find(identity);
    if (known != read_.end()) return known->second;
    const Entry entry = TRY(read_new(bytes));
    if (!identity.empty()) read_.emplace(identity, entry);
    return entry;
  }

 private:
  Result<Entry> read_new(const SourcePtr& bytes) {
    if (bytes->size() > ollama::kLongestManifest)
      return failure(Code::unsupported, str("a manifest of ", human_size(bytes->size())));
    const bool held = bytes->size() <= std::min(kHeld, kHeldInAll - held_);
    if (!held && open_ == kOpen)
      return failure(Code::unsupported, str("the manifests of the store are longer than ", human_size(kHeldInAll)));
    std::string text = TRY(read_text(*bytes, 0, bytes->size()));
    Warnings odd;  // said again, in full, where the model is shown
    Budget budget(text.size());
    const Manifest manifest = TRY(ollama::read_manifest(text, odd, budget));
    if (held)
      held_ += text.size();
    else
      ++open_;
    return Entry{held ? in_memory(std::move(text)) : bytes, blobs_.wrong_in(manifest)};
  }

  StoreBlobs blobs_;
  std::map<std::string, Entry> read_;  // by the identities of the files
  uint64_t held_ = 0;                  // bytes
  size_t open_ = 0;                    // files
};

}  // namespace

bool is_shelf_path(std::string_view path) { return ollama_name_of_path(path).has_value(); }

Result<Shelves> read_shelves(const Folder& manifests, const std::shared_ptr<const Folder>& blobs,
                             const BlobsPtr& store) {
  Entries entries(*blobs);
  Shelves shelves;
  Warnings warnings;
  for (Part& listed : TRY(manifests.parts())) {
    const Part part = std::move(listed);  // no file stays open longer than it is looked at
    if (!part.link_target.empty() || !is_shelf_path(part.path)) continue;
    const auto bytes = part.source.get();
    const auto entry = bytes ? entries.read(*bytes) : Result<Entry>(tl::unexpected(bytes.error()));
    if (!entry) {
      warnings.add(part.path, ": left out: ", entry.error().message);
      continue;
    }
    if (!entry->wrong.empty()) warnings.add(part.path, ": ", entry->wrong);
    const std::string tag = part.path.substr(part.path.rfind('/') + 1);
    shelves.models.push_back({part.path, Container{tag, entry->bytes, blobs, store}, (*bytes)->identity()});
  }
  shelves.warnings = std::move(warnings).take();
  return shelves;
}

}  // namespace weightfs
