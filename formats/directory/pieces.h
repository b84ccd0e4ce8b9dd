// Pieces of tensors in safetensors files: each process of torch.distributed.checkpoint writes its own pieces, with
// their places in the metadata DCP_SHARDING_INFO (HuggingFaceStorageWriter with save_sharded, before consolidation).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::directory {

/// Whether a file of this name has the pieces of one process: "shard-00002-model-00001-of-00001.safetensors".
bool is_named_as_pieces(std::string_view name);

/// The place of each piece in its tensor, by the name of the tensor. Empty for a file without pieces, and for metadata
/// that is not valid. Fails as the budget does.
Result<std::map<std::string, Shape, std::less<>>> places_of_pieces(const Map& metadata, Budget& budget);

/// Adds the warning about a file of pieces that is read alone, so that its tensors are not whole. Fails as the budget
/// does.
Result<void> warn_of_pieces(Model& model, Budget& budget);

/// Reports missing files with pieces, by the gaps in the numbers in the names of the others: the number of the process,
/// from 1 on, and that of the model's file. The names do not tell how many processes there were.
void report_missing_pieces(const std::vector<std::string>& names, Warnings& warnings);

/// Collects the pieces of several files, which are tensors of one list, and joins them.
class Pieces {
 public:
  explicit Pieces(Budget& budget) : budget_(budget) {}

  /// A file whose tensors begin in the list at `first`. Removes its warning of warn_of_pieces(). Fails as the budget
  /// does.
  Result<void> add(Model& read, size_t first);

  /// Replaces the pieces of each tensor by the tensor. A tensor is refused, with a warning, if its pieces overlap or
  /// leave a gap. Its shape is the one that the existing pieces span. Fails as the budget does.
  Result<void> join(TensorList& tensors, Warnings& warnings);

 private:
  struct Piece {
    size_t tensor;
    Shape place;
  };

  Result<Slice> joined(const std::vector<Piece>& pieces, const TensorList& tensors, Shape& shape);

  Budget& budget_;
  std::map<std::string, std::vector<Piece>, std::less<>> pieces_;  // by the name of the tensor
};

}  // namespace weightfs::directory
