// Detects whether a reloaded model is unchanged, so that inode numbers and cached pages are still valid.
#pragma once

#include <cstdint>
#include <vector>

#include "fs/tree/tree.h"

namespace weightfs {

/// A hash of the nodes of a tree: names, kinds, positions, and the sizes of tensors.
uint64_t fingerprint_of(const Tree& tree);

/// Hashes of the identities of a model's local files, sorted. Files that are not open yet are missing.
using FileIdentities = std::vector<uint64_t>;
FileIdentities file_identities(const Model& model);

/// Whether one includes the other: a reloaded model may have opened fewer or more of its files.
bool may_be_same(const FileIdentities& a, const FileIdentities& b);

}  // namespace weightfs
