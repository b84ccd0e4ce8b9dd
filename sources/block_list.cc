#include "sources/block_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/verity/block_list.h"
#include "cache/url.h"

namespace weightfs {
namespace {

// Passes the list with references to the blob that it describes.
class BlobsWithList final : public Blobs {
 public:
  BlobsWithList(BlobsPtr blobs, Digest layer, BlockListPtr list)
      : blobs_(std::move(blobs)), layer_(layer), list_(std::move(list)) {}

  SourcePtr blob(BlobProducer producer) override { return blobs_->blob(std::move(producer)); }
  Result<SourcePtr> materialize(BlobProducer producer) override { return blobs_->materialize(std::move(producer)); }
  bool is_decoded(const BlobProducer& producer) override { return blobs_->is_decoded(producer); }
  void release(const Digest& blob) override { blobs_->release(blob); }
  void release_ranges(const std::string& identity) override { blobs_->release_ranges(identity); }
  Result<ResolvedBlob> resolve(const BlobRef& ref) override {
    BlobRef listed = ref;
    if (ref.digest == layer_) listed.block_list = list_;
    return blobs_->resolve(listed);
  }
  bool is_local(const BlobRef& ref) override { return blobs_->is_local(ref); }
  void drop_unverified() override { blobs_->drop_unverified(); }
  void stop() override { blobs_->stop(); }

 private:
  const BlobsPtr blobs_;
  const Digest layer_;
  const BlockListPtr list_;
};

// The list in an artifact; null if it is none of these layers, or has another digest.
Result<BlockListPtr> list_in_artifact(const Reference& artifact, const std::vector<BlobRef>& described,
                                      const Digest& wanted, const RegistryOptions& registries) {
  const ResolvedManifest found = TRY(resolve(artifact, registries.store, registries.http));
  const auto layers = layers_of(found.manifest);
  const auto has_list_of = [&](const BlobRef& layer) {
    return BlockListLayout(*layer.size).list_size() == layers.front().size;
  };
  if (layers.size() != 1 || !std::ranges::any_of(described, has_list_of)) return BlockListPtr();
  const ResolvedBlob blob = TRY(found.blobs->resolve(layers.front()));
  BlockListPtr list = TRY(BlockList::open(blob.verified));
  return list->digest() == wanted ? list : nullptr;
}

Result<BlockListPtr> list_in_registry(const Reference& reference, const ResolvedManifest& model,
                                      const RegistryOptions& registries) {
  const Digest& manifest = model.digest;
  const Digest& wanted = *registries.block_list_digest;
  Error reason{Code::not_found,
               fmt::format("{}/{}@sha256:{}: no artifact of type {} has the block list sha256:{}", reference.host,
                           reference.repository, manifest.hex(), kBlockListType, wanted.hex())};
  for (const Referrer& each : referrers(reference, manifest, registries.store, registries.http, Saved::refreshed)) {
    if (each.type != kBlockListType || each.digest.empty()) continue;
    Reference artifact = reference;
    artifact.tag = each.digest;
    auto list = list_in_artifact(artifact, layers_of(model.manifest), wanted, registries);
    if (list && *list != nullptr) return std::move(*list);
    if (!list) reason = list.error();
  }
  return tl::unexpected(std::move(reason));
}

}  // namespace

Result<BlockListPtr> block_list_of_url(const std::string& url, const RegistryOptions& registries) {
  if (!registries.block_list_digest) return registries.block_list;
  const size_t query = std::min(url.find_first_of("?#"), url.size());
  const std::string beside = url.substr(0, query) + ".fsverity" + url.substr(query);
  const SourcePtr file = TRY(registries.store->open_url(beside));
  BlockListPtr list = TRY(BlockList::open(file));
  if (list->digest() == *registries.block_list_digest) return list;
  return failure(Code::mismatch, fmt::format("{}: is the block list of another file: {}", http::printable_url(beside),
                                             list->digest().hex()));
}

Result<BlobsPtr> with_block_list(const Reference& reference, const ResolvedManifest& found,
                                 const RegistryOptions& registries) {
  if (!registries.has_block_list()) return found.blobs;
  const BlockListPtr list =
      registries.block_list != nullptr ? registries.block_list : TRY(list_in_registry(reference, found, registries));
  std::vector<BlobRef> layers = layers_of(found.manifest);
  std::erase_if(layers, [&](const BlobRef& layer) { return layer.size != list->size(); });
  const auto is_first = [&](const BlobRef& layer) { return layer.digest == layers.front().digest; };
  if (!layers.empty() && std::ranges::all_of(layers, is_first))
    return std::make_shared<BlobsWithList>(found.blobs, layers.front().digest, list);
  return failure(Code::mismatch, fmt::format("{}/{}: {} the size of the file of the block list ({} bytes)",
                                             reference.host, reference.repository,
                                             layers.empty() ? "no layer has" : "several layers have", list->size()));
}

Result<SourcePtr> open_large_layer(const std::string& name, const ResolvedManifest& found) {
  std::vector<BlobRef> layers = layers_of(found.manifest);
  std::erase_if(layers, [&](const BlobRef& layer) { return layer.size <= kMaxVerifiedFirst; });
  if (layers.size() == 1) return TRY(found.blobs->resolve(layers.front())).verified;
  return failure(Code::unsupported, fmt::format("{}: has {} layers above 8 MiB", name, layers.size()));
}

}  // namespace weightfs
