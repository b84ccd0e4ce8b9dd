// Recognizes manifests and selects one from an index. formats/ollama reads their layers. manifest.cc has
// models_in_index() and layers_of() of protocols/registry.h, too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "protocols/registry.h"

namespace weightfs::registry {

/// Nothing if `body` is a manifest: an object with `layers` or `config`. For an index (an object with `manifests`; OCI
/// image-spec, image-index.md, and Docker's manifest list), the digest of the selected manifest: the first for Linux on
/// this machine's architecture, else the first that is not an attestation. Fails with unsupported otherwise.
Result<std::optional<Digest>> select_from_index(const std::string& body);

/// Whether `body` is an index of several models, for any platform (KitOps' index of models).
bool is_index_of_models(const std::string& body);

/// The entries of an index of referrers (distribution-spec, "Listing Referrers"); empty if it is not an index. At most
/// 100.
std::vector<Referrer> referrers_in(const std::string& body);

}  // namespace weightfs::registry
