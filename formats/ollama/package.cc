// Locates the blobs of a manifest and names them in files/.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "formats/ollama/ollama.h"

namespace weightfs::ollama {
namespace {

// The layer's title in messages, before it has a path: printable, and at most one line.
std::string title(const Layer& layer) {
  if (layer.kind == LayerKind::config) return "config";
  const std::string& type = layer.descriptor.media_type;
  const std::string name = !layer.name.empty() ? layer.name : type.substr(type.rfind('.') + 1);
  if (name.empty()) return "layer";
  constexpr size_t kMaxLength = 80;
  return name.size() > kMaxLength ? printable(to_utf8(name.substr(0, kMaxLength))) + "..." : printable(name);
}

// The file in `folder` that has the blob's name: Ollama's, Ollama's before 2024, that of an OCI image layout.
Result<SourcePtr> open_in(const Folder& folder, const std::string& hex) {
  for (const char* const before : {"sha256-", "sha256:"}) {
    auto bytes = folder.open(before + hex);
    if (bytes || bytes.error().code != Code::not_found) return bytes;
  }
  return folder.open(hex);
}

// An empty blob is never read, so its digest is checked here.
Result<void> verify_empty(const BlobRef& wanted, std::optional<uint64_t> size) {
  if (size != uint64_t{0} || wanted.digest == sha256("")) return {};
  return failure(Code::mismatch, fmt::format("{}: size is 0, but {} is not the digest of an empty blob", wanted.name,
                                             wanted.digest.hex()));
}

// A blob that is not fetched yet: extends the budget by its claimed size.
class ClaimedBlob final : public Source {
 public:
  ClaimedBlob(const Digest& digest, uint64_t size) : digest_(digest), size_(std::min(size, kMaxSize)) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override {
    return failure(Code::resource, "not fetched yet");
  }
  std::string identity() const override { return "blob " + digest_.hex(); }

 private:
  static constexpr uint64_t kMaxSize = 256 << 20;

  Digest digest_;
  uint64_t size_;
};

// A layer has a descriptor, a layer, an item and a part; its strings are in the first three.
constexpr uint64_t kMembersPerLayer = 7;
constexpr uint64_t kTextsPerLayer = 2;

// Finds each blob once, even if several layers name it. Of different sizes the first is used.
class BlobFinder {
 public:
  BlobFinder(const Container& container, const std::vector<Item>& items) : container_(container) {
    for (const Item& item : items)
      if (const auto& d = item.layer.descriptor; d.digest && d.size) sizes_.emplace(*d.digest, *d.size);
  }

  using BlobPtr = std::shared_ptr<const LayerBlob>;

  Result<BlobPtr> find(const Layer& layer, Warnings& warnings) {
    const Digest& digest = *layer.descriptor.digest;
    const auto size = sizes_.find(digest);
    if (size != sizes_.end() && layer.descriptor.size && *layer.descriptor.size != size->second)
      warnings.add("layer {}: size {}, but another layer states {} for the same blob", title(layer),
                   *layer.descriptor.size, size->second);
    const auto [row, is_new] = found_.try_emplace(digest, BlobPtr());
    if (is_new) row->second = find_blob(layer, size == sizes_.end() ? std::nullopt : std::optional(size->second));
    return row->second;
  }

 private:
  BlobRef wanted(const Layer& layer, std::optional<uint64_t> size) const {
    BlobRef wanted{title(layer), *layer.descriptor.digest, size};
    if (container_.folder != nullptr)
      wanted.local_copy = [folder = container_.folder, hex = wanted.digest.hex()] { return open_in(*folder, hex); };
    return wanted;
  }

  Result<BlobPtr> find_blob(const Layer& layer, std::optional<uint64_t> size) const {
    TRY_VOID(container_.budget->charge(Cost::lookup));
    const BlobRef wanted = this->wanted(layer, size);
    TRY_VOID(verify_empty(wanted, wanted.size));
    const bool is_local = container_.blobs->is_local(wanted);
    const bool in_store = container_.folder != nullptr;
    if (!is_local && !in_store) return remote_blob(wanted);
    auto found = container_.blobs->resolve(wanted);
    if (!found && !in_store) return remote_blob(wanted);
    if (!found) return tl::unexpected(found.error());
    TRY_VOID(verify_empty(wanted, found->verified->size()));
    if (is_local) container_.budget->add_file(*found->unverified);
    const auto verified = Later<SourcePtr>::of(found->verified);
    return std::make_shared<LayerBlob>(LayerBlob{Later<ResolvedBlob>::of(std::move(*found)), verified, is_local});
  }

  // No request is made before the blob is read, nor for its size if the manifest has it.
  BlobPtr remote_blob(const BlobRef& wanted) const {
    container_.budget->add_file(ClaimedBlob(wanted.digest, wanted.size.value_or(0)));
    const Later<ResolvedBlob> found([blobs = container_.blobs, wanted] { return blobs->resolve(wanted); });
    const Later<SourcePtr> verified([found]() -> Result<SourcePtr> { return TRY(found.get()).verified; });
    const auto bytes = wanted.size ? Later<SourcePtr>::of(lazy(*wanted.size, verified)) : verified;
    return std::make_shared<LayerBlob>(LayerBlob{found, bytes, false});
  }

  const Container& container_;
  std::map<Digest, uint64_t> sizes_;  // as claimed by the first layer that has a size
  std::map<Digest, Result<BlobPtr>> found_;
};

class PackageOpener {
 public:
  PackageOpener(const Container& container, Package& package) : finder_(container, package.items), package_(package) {}

  Result<void> open() {
    const auto problems = TRY(find_blobs());
    const std::string own = name_layers(layers_, package_.warnings);
    package_.parts.push_back({own, Later<SourcePtr>::of(package_.container.bytes), FileChecksums(package_.digest)});
    package_.stored_bytes = package_.container.bytes->size();
    size_t problem = 0;
    for (Item& item : package_.items) {
      if (!item.layer.descriptor.digest) continue;
      if (item.blob != nullptr)
        add_part(item);
      else
        miss(item, problems[problem++]);
    }
    return {};
  }

 private:
  // The errors of unavailable blobs, in order.
  Result<std::vector<Error>> find_blobs() {
    std::vector<Error> problems;
    for (Item& item : package_.items) {
      if (!item.layer.descriptor.digest) continue;
      layers_.push_back(&item.layer);
      auto blob = finder_.find(item.layer, package_.warnings);
      if (!blob) {
        problems.push_back(blob.error());
        continue;
      }
      item.blob = std::move(*blob);
      // Nothing is fetched only to name a file.
      if (!item.blob->is_local || !item.layer.is_container()) continue;
      item.layer.content = TRY(content_once(*item.blob));
    }
    return problems;
  }

  // Unreadable bytes are named by their media type; reading them reports the error.
  Result<Content> content_once(const LayerBlob& blob) {
    const auto known = contents_.find(&blob);
    if (known != contents_.end()) return known->second;
    const ResolvedBlob found = TRY(blob.found.get());
    TRY_VOID(package_.container.budget->charge(Cost::input, kHeadSize));
    const auto look = detect_content(*found.unverified);
    if (!look && !is_about_the_bytes(look.error())) return tl::unexpected(look.error());
    return contents_.emplace(&blob, look.value_or(Content::unknown)).first->second;
  }

  void add_part(Item& item) {
    item.part = package_.parts.size();
    package_.parts.push_back({item.layer.path, item.blob->bytes, FileChecksums(*item.layer.descriptor.digest)});
    const auto bytes = item.blob->bytes.peek();
    if (!bytes || !counted_.insert(bytes->get()).second) return;
    // Claimed sizes are unchecked; a file system counts no further than this.
    constexpr uint64_t kMaxSize = INT64_MAX;
    package_.stored_bytes += std::min((*bytes)->size(), kMaxSize - std::min(kMaxSize, package_.stored_bytes));
  }

  void miss(const Item& item, const Error& problem) {
    const bool is_missing = problem.code == Code::not_found || problem.code == Code::network;
    package_.warnings.miss_file(problem.code, "{}: {}; it is {}", quoted(item.layer.path), problem.message,
                                is_missing ? "missing" : "left out");
    const LayerKind kind = item.layer.kind;
    const bool may_have_tensors = item.layer.is_container() || kind == LayerKind::tensor || kind == LayerKind::other;
    if (!may_have_tensors) package_.warnings.lose(problem, {});
  }

  BlobFinder finder_;
  Package& package_;
  std::vector<Layer*> layers_;
  std::set<const Source*> counted_;
  std::map<const LayerBlob*, Content> contents_;
};

}  // namespace

Result<Package> open_package(const Container& container) {
  const uint64_t size = container.bytes->size();
  if (size > kMaxManifestSize)
    return failure(Code::unsupported,
                   fmt::format("a manifest of {} bytes, at most {} are read", size, kMaxManifestSize));
  const std::string text = TRY(read_text(*container.bytes, 0, size));
  Package package{.container = container, .digest = sha256(text)};
  package.manifest = TRY(read_manifest(text, package.warnings, *container.budget));
  const size_t layers = package.manifest.layers.size() + package.manifest.manifests.size() + 1;
  TRY_VOID(container.budget->charge(Cost::member, kMembersPerLayer * layers));
  TRY_VOID(container.budget->charge(Cost::kept, kTextsPerLayer * text.size()));
  for (Layer& layer : layers_of(package.manifest, package.warnings)) package.items.push_back({std::move(layer)});
  if (package.items.empty()) package.warnings.add("the manifest names no layers");
  TRY_VOID(PackageOpener(container, package).open());
  return package;
}

Result<Content> detect_content(const Source& bytes) {
  switch (TRY(detect_blob_content(bytes))) {
    case BlobContent::gguf:
      return Content::gguf;
    case BlobContent::safetensors:
      return Content::safetensors;
    case BlobContent::other:
      break;
  }
  return Content::other;
}

}  // namespace weightfs::ollama
