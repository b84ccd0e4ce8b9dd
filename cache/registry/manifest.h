// Recognizes manifests and selects one from an index. formats/ollama reads their layers.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/blobs.h"
#include "base/digest.h"
#include "base/result.h"

namespace weightfs::registry {

/// Nothing if `body` is a manifest: an object with `layers` or `config`. For an index (an object with `manifests`; OCI
/// image-spec, image-index.md, and Docker's manifest list), the digest of the selected manifest: the first for Linux on
/// this machine's architecture, else the first that is not an attestation. Fails with unsupported otherwise.
Result<std::optional<Digest>> select_from_index(const std::string& body);

/// Whether `body` is an index of several models, for any platform (KitOps' index of models).
bool is_index_of_models(const std::string& body);

/// The names and digests of the manifests in an index; at most 10,000.
std::vector<std::pair<std::string, Digest>> manifests_in(const std::string& body);

/// The layers of a manifest that have a SHA-256 digest and a size, named by their digests; empty if it is none. At most
/// 10,000.
std::vector<BlobRef> layers_in(const std::string& body);

/// The digests and artifact types of an index of referrers (distribution-spec, "Listing Referrers"); nothing if it is
/// not an index. At most 100.
std::vector<std::pair<std::string, std::string>> referrers_in(const std::string& body);

}  // namespace weightfs::registry
