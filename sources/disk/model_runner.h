// The store of Docker Model Runner (~/.docker/models): models.json has the tags, manifests/sha256/ the manifests by
// their digests, blobs/sha256/ the layers (pkg/distribution/internal/store of docker/model-runner).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/format.h"
#include "sources/disk_folder.h"

namespace weightfs {

/// Whether the directory is such a store: it has models.json, and the directories of manifests and blobs.
bool is_model_runner_store(const Location& directory);

/// The directory of the blobs of a manifest that is in manifests/sha256/ of such a store, with or without its
/// models.json. Nothing for other files.
std::optional<Location> blobs_of_model_runner(const Location& manifest);

/// A tag in models.json: "ai/smollm2/latest". A model without a tag has the first digits of its digest,
/// or all if others have the same, and so has one whose tag is a directory of other tags.
struct TaggedModel {
  std::string path;
  Location manifest;
};

/// All tags, sorted. Fails with corrupt if models.json is not a list of models, and as reading does.
Result<std::vector<TaggedModel>> read_model_runner_store(const Location& store);

}  // namespace weightfs
