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

/// The place of each piece in its tensor, by its name; empty for a file without pieces. A text that is not valid is as
/// one that is missing. Fails as the budget does.
Result<std::map<std::string, Shape, std::less<>>> places_of_pieces(const Map& metadata, Budget& budget);

/// Adds the warning about a file of pieces that is read alone: its numbers are not all of the model. Fails as the
/// budget does.
Result<void> warn_of_pieces(Model& model, Budget& budget);

/// Reports files with pieces that are missing by the numbers in the names of the others: of the processes, which begin
/// at 1, and of the model's files. No name has the number of processes.
void report_missing_pieces(const std::vector<std::string>& names, Warnings& warnings);

/// Collects the pieces of several files, which are tensors of one list, and joins them.
class Pieces {
 public:
  explicit Pieces(Budget& budget) : budget_(budget) {}

  /// A file whose tensors begin in the list at `first`. Removes its warning of warn_of_pieces(). Fails as the budget
  /// does.
  Result<void> add(Model& read, size_t first);

  /// Replaces the pieces of each tensor by the tensor. One with pieces that overlap or leave a gap is refused, with a
  /// warning. The size of a tensor is that of the pieces that exist. Fails as the budget does.
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
