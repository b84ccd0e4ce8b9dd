// The names in the cache of huggingface_hub: models--ORG--NAME/ has refs/REVISION (a file with a commit),
// snapshots/COMMIT/ (links to blobs) and blobs/ (files that are named by their hashes: SHA-256, or the object id of
// Git).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weightfs::hub_layout {

inline constexpr const char* kSnapshots = "snapshots";
inline constexpr size_t kMaxReference = 256;  ///< bytes of a file in refs/

/// Whether a directory is that of a repository, by its name.
bool is_repository(std::string_view folder);

/// "models--ORG--NAME" of the kind "models" and "ORG/NAME".
std::string folder_of(std::string_view kind, std::string_view repository);

/// "ORG/NAME" of "models--ORG--NAME"; nothing for other names.
std::optional<std::string> model_of(std::string_view folder);

/// The name of the blob that a link leads to, by its text: `../../blobs/HEX`, or `…/models--ORG--NAME/blobs/HEX`.
/// Nothing for other texts.
std::optional<std::string> blob_of_link(std::string_view text);

}  // namespace weightfs::hub_layout
