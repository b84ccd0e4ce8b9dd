// The two kinds of B-trees: version 1 lists the members of old groups and the chunks of datasets, version 2 those of
// new ones and the attributes.
#pragma once

#include <functional>
#include <string_view>

#include "formats/hdf5/file.h"

namespace weightfs::hdf5 {

/// What a B-tree of version 1 is about.
enum class TreeType : uint8_t { group = 0, chunks = 1 };

/// Calls `entry` with the key and the address of every child of the leaves, from the first to the last. A key has
/// `key_size` bytes. `max_entries`: of a node; 0 if not known. Fails with corrupt on an invalid tree, and as `entry`.
Result<void> for_each_child(Metadata& metadata, uint64_t root, TreeType type, uint64_t key_size, uint64_t max_entries,
                            const std::function<Result<void>(std::string_view key, uint64_t child)>& entry);

/// Calls `record` with every record of the B-tree of version 2 whose header is at `address`, in no particular order.
/// Fails with corrupt on an invalid tree or one of another type, and as `record`.
Result<void> for_each_record(Metadata& metadata, uint64_t address, uint8_t type,
                             const std::function<Result<void>(std::string_view record)>& record);

}  // namespace weightfs::hdf5
