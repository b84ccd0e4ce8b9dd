// What the files of the Carton reader share. Source of all of it: the carton file format specification, version 1.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/archive/archive.h"

namespace weightfs::carton {

/// A TOML file of a carton is read up to this size, in bytes: its values take many times that in memory.
inline constexpr uint64_t kLongestToml = 4 << 20;

/// MANIFEST is read up to this size: it has a line for each file.
inline constexpr uint64_t kLongestManifest = 16 << 20;

/// MANIFEST: which file has which digest.
struct Manifest {
  std::map<std::string, Digest, std::less<>> digests;  ///< by path; of two lines for one path the last
  Digest hash;                                         ///< of MANIFEST itself: the model hash
};

/// Reads a MANIFEST as the reference does: a line is split at its last `=`, and what is no line or no digest is passed
/// over with a warning.
/// Lines that the budget cannot afford are left out, with a warning.
Manifest read_manifest(std::string_view text, Warnings& warnings, Budget& budget);

/// LINKS: where a file with a digest can be fetched.
struct Links {
  std::map<std::string, std::vector<std::string>, std::less<>> urls;  ///< by digest, 64 lower-case hex digits
};

/// Fails with corrupt when it is no TOML; what has another type than it should is passed over with a warning.
Result<Links> read_links(std::string_view text, Warnings& warnings, Budget& budget);

/// Checks the keys of carton.toml that the specification has, and says in warnings what is missing or has another type.
/// Gives the fields that models have in common; the whole text stays in the metadata. They are copies, charged to
/// `budget`; without the room for them it gives none, and a warning.
Map common_fields(const Map& carton_toml, Warnings& warnings, Budget& budget);

/// Checks that what carton.toml refers to as @tensor_data/NAME and @misc/PATH is there.
void check_references(const Map& carton_toml, const Archive& archive, const Model& model, Warnings& warnings);

/// Adds the tensors of tensor_data/index.toml to the model. `manifest` gives their digests. Fails when the index cannot
/// be read, but not for what it says. Tensors that the budget cannot afford are left out, with a warning.
Result<void> add_tensors(Model& model, const Archive& archive, const Manifest& manifest, Warnings& warnings,
                         const BudgetPtr& budget);

}  // namespace weightfs::carton
