// Storages: the runs of bytes outside of the pickle that tensors refer to, by their persistent identifiers.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "formats/common/strided.h"
#include "formats/pickle/pickle.h"
#include "formats/pytorch/torch_types.h"

namespace weightfs::pytorch {

using pickle::Index;
using pickle::Kind;
using pickle::Pickle;

/// A storage of a whole file, which a pickle has as bytes.
struct LoadedStorage {
  const TorchType* type = nullptr;  ///< null for an untyped storage
  Slice bytes;
};

/// The bytes of the storages of a container.
struct StorageBytes {
  /// Finds the bytes by the storage's key; they may be more than the storage has. Fails with corrupt if there are none,
  /// and with not_found if they are in a file that is missing.
  std::function<Result<Slice>(std::string_view key)> find;
  bool big_endian = false;
  /// Reads a whole file of torch before 1.6, which a pickle has as bytes; null if there are no such files. Fails with
  /// corrupt if its object is not a storage.
  std::function<Result<LoadedStorage>(const Slice& file)> load = nullptr;
  /// Adds the tensors of a module of TorchScript in a package, by its number, under `name`; null if there are none.
  std::function<Result<void>(const std::string& name, const std::string& id)> script = nullptr;
};

/// The persistent identifier of a storage: ("storage", class, key, device, number of elements, [view]).
struct StorageId {
  const TorchType* type = nullptr;  ///< null for an untyped storage, whose elements are bytes
  std::string key;
  uint64_t elements = 0;  ///< bytes for packed types, of which an element of the storage is a byte

  // A part of another storage, in torch before 0.4.
  bool is_view = false;
  uint64_t offset = 0;         ///< in elements
  uint64_t view_elements = 0;  ///< its size
};

/// Parses an identifier. Fails with corrupt if it has another form, and with unsupported if the class is unknown.
Result<StorageId> parse_storage_id(const Pickle& pickle, Index persistent);

/// The size of a storage that claims this many elements; nothing on overflow.
std::optional<uint64_t> storage_size(const TorchType* type, uint64_t elements);

/// The bytes of a storage, or of the part of it that the view is: those that exist, if the identifier claims more.
Result<Slice> storage_bytes(const StorageId& id, const StorageBytes& bytes);

}  // namespace weightfs::pytorch
