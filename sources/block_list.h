// Where the block list of a source is (`--tree`): given as a file; beside the file at a URL, with the suffix .fsverity;
// or in a registry, as an artifact that refers to the manifest of the model (OCI image-spec, `subject`;
// distribution-spec, "Listing Referrers").
#pragma once

#include <string>

#include "protocols/registry.h"
#include "sources/source.h"

namespace weightfs {

/// The artifact type of a block list in a registry: its only layer is the file of the list.
inline constexpr const char* kBlockListType = "application/vnd.weightfs.block-list.v1";

/// The block list of the file at a URL; null if none is required. Fails with mismatch if the list that is there has
/// another digest, and as opening it does.
Result<BlockListPtr> block_list_of_url(const std::string& url, const RegistryOptions& registries);

/// The blobs of a manifest, so that ranges of the layer of the list's size are verified with it; unchanged if no list
/// is required. Fails with not_found if no artifact in the registry has the list of the required digest, with mismatch
/// if no layer, or more than one, has the size of its file.
Result<BlobsPtr> with_block_list(const Reference& reference, const ResolvedManifest& found,
                                 const RegistryOptions& registries);

/// The only layer of a manifest that is large enough to be read by ranges. `name` is for messages. Fails with
/// unsupported if there is none or more than one.
Result<SourcePtr> open_large_layer(const std::string& name, const ResolvedManifest& found);

}  // namespace weightfs
