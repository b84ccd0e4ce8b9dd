// Internals that the files of the Carton reader share. Reference: the carton file format specification, version 1.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/archive/archive.h"

namespace weightfs::carton {

/// The maximum size of a TOML file, in bytes: its values take many times that in memory.
inline constexpr uint64_t kMaxTomlSize = 4 << 20;

/// The maximum size of MANIFEST, in bytes: it has one line per file.
inline constexpr uint64_t kMaxManifestSize = 16 << 20;

/// MANIFEST: the digests of the files.
struct Manifest {
  std::map<std::string, Digest, std::less<>> digests;  ///< by path; of two lines for a path the last is used
  Digest hash;                                         ///< of MANIFEST itself: the model hash
};

/// Parses a MANIFEST as the reference does: a line is split at its last `=`. Invalid lines and digests are skipped with
/// a warning. Lines beyond the budget are omitted, with a warning.
Manifest read_manifest(std::string_view text, Warnings& warnings, Budget& budget);

/// LINKS: the URLs of files, by digest.
struct Links {
  std::map<std::string, std::vector<std::string>, std::less<>> urls;  ///< by digest: 64 lower-case hex digits
};

/// Parses LINKS. Fails with corrupt if it is not TOML; values of a wrong type are skipped with a warning.
Result<Links> read_links(std::string_view text, Warnings& warnings, Budget& budget);

/// Checks the keys of carton.toml against the specification; missing keys and wrong types become warnings. Returns the
/// fields that models have in common, as copies that are charged to `budget`; beyond the budget it returns none, with a
/// warning. All of carton.toml stays in the metadata.
Map common_fields(const Map& carton_toml, Warnings& warnings, Budget& budget);

/// Checks that the files that carton.toml references as @tensor_data/NAME and @misc/PATH exist.
void check_references(const Map& carton_toml, const archive::Archive& archive, const Model& model, Warnings& warnings);

/// Adds the tensors of tensor_data/index.toml to the model. `manifest` has their digests. Fails if the index cannot be
/// read; errors in it become warnings. Tensors beyond the budget are omitted, with a warning.
Result<void> add_tensors(Model& model, const archive::Archive& archive, const Manifest& manifest, Warnings& warnings,
                         const BudgetPtr& budget);

}  // namespace weightfs::carton
