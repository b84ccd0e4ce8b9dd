// The file .metadata of a checkpoint: a pickle of torch.distributed.checkpoint.metadata.Metadata, which lists the
// tensors, their chunks, and where in the files beside it these are. As metadata.py and filesystem.py of torch 2.9
// write it.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/boxes/boxes.h"
#include "formats/pickle/pickle.h"
#include "formats/pytorch/torch_types.h"

namespace weightfs::dcp {

using pickle::Index;
using pickle::Pickle;

/// An entry of state_dict_metadata.
struct Entry {
  std::string_view name;
  Index value = pickle::kNoValue;
  bool is_tensor = false;  ///< a TensorStorageMetadata; else another object: BytesStorageMetadata
};

/// The place of a chunk or an object: a _StorageInfo.
struct Place {
  std::string_view path;  ///< of the file, below the directory; unchecked
  uint64_t offset = 0;
  uint64_t length = 0;
  bool is_transformed = false;  ///< compressed, for example
};

/// The values of a .metadata. The Pickle outlives it.
class Metadata {
 public:
  /// Finds the entries and the places. Those that are invalid are left out: a tensor without its place is refused.
  /// Fails with corrupt if the pickle is of another object, and as the budget does.
  static Result<Metadata> of(const Pickle& pickle, Charges& charges);

  /// In the order of the file, each name once.
  const std::vector<Entry>& entries() const { return entries_; }

  /// Entries that are left out: their names are no texts, or too long, or they are of an unknown class.
  uint64_t unknown_entries() const { return unknown_; }

  uint64_t chunks() const { return places_.size(); }  ///< how many chunks and objects have a place

  /// The shape and the type of a tensor. Fails with corrupt and unsupported.
  Result<Shape> shape_of(const Entry& tensor) const;
  Result<const pytorch::TorchType*> type_of(const Entry& tensor) const;

  /// The chunks of a tensor of this shape. Fails with corrupt if one is not inside of it, and as the budget does.
  Result<std::vector<Box>> chunks_of(const Entry& tensor, const Shape& shape, Charges& charges) const;

  /// Where the chunk of this entry is that begins at `start`, or the object, which has no start. Fails with corrupt if
  /// it has no place.
  Result<Place> place_of(const Entry& entry, const std::optional<Shape>& start) const;

 private:
  using Key = std::pair<std::string_view, std::optional<Shape>>;

  explicit Metadata(const Pickle& pickle) : pickle_(&pickle) {}

  Result<void> read_entries(Index entries, Charges& charges);
  Result<void> read_places(Index places, Charges& charges);

  const Pickle* pickle_;
  std::vector<Entry> entries_;
  std::map<Key, Index> places_;  // the values are _StorageInfo
  uint64_t unknown_ = 0;
};

/// Whether the name is that of a class of a .metadata.
bool is_plain_name(std::string_view global);

/// Whether all uses of `builtins.getattr` in the pickle, which is `global`, are members of the enumeration of memory
/// formats, as Python 3.11 spells them.
bool is_only_memory_format(const Pickle& pickle, std::string_view global);

}  // namespace weightfs::dcp
