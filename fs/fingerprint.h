// Whether a model that is read again is the one that was read before: inode numbers and cached pages stay valid then.
#pragma once

#include <cstdint>
#include <vector>

#include "fs/tree.h"

namespace weightfs {

/// A hash over the nodes of a tree: names, kinds, places, and the sizes of tensors.
uint64_t fingerprint_of(const Tree& tree);

/// Hashes of the identities of the local files that a model is read from, as far as they are open; sorted.
using FileIdentities = std::vector<uint64_t>;
FileIdentities file_identities(const Model& model);

/// Whether one includes the other: a model that is read again may have opened fewer of its files, or more of them.
bool may_be_same(const FileIdentities& a, const FileIdentities& b);

}  // namespace weightfs
