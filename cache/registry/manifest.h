// The little that fetching has to know of a manifest: whether it is one, and which of an index is meant. What its
// layers are is for whoever reads the model.
#pragma once

#include <optional>
#include <string>

#include "base/digest.h"
#include "base/result.h"

namespace weightfs {

/// Nothing when `body` is a manifest: an object with `layers` or `config`. When it is an index (of `manifests`; OCI
/// image-spec, image-index.md, and Docker's manifest list) the digest of the one to take: the first for Linux on this
/// machine's processor, or else the first that is no attestation. Fails with unsupported when it is neither.
Result<std::optional<Digest>> chosen_of_index(const std::string& body);

/// The digest that "sha256:" and 64 hex digits name; nothing for any other text.
std::optional<Digest> digest_of_text(std::string_view text);

}  // namespace weightfs
