// Adds tensors and named blobs of ExecuTorch files to a Model.
#pragma once

#include <string>

#include "formats/common/warnings.h"
#include "formats/executorch/file.h"
#include "formats/string_pool.h"

namespace weightfs::executorch {

/// The type and the place in memory of a tensor's elements.
struct Layout {
  int8_t scalar_type = 0;
  flatbuffer::List sizes;      ///< int32: the dimensions
  flatbuffer::List dim_order;  ///< uint8: the dimensions from the outermost in memory; empty for their own order
};

/// Reads the three fields of a Layout from these slots of a table.
Result<Layout> read_layout(const flatbuffer::Table& table, flatbuffer::Slot scalar_type, flatbuffer::Slot sizes,
                           flatbuffer::Slot dim_order);

class TensorAdder {
 public:
  TensorAdder(Model& model, const File& file, Budget& budget) : model_(model), file_(file), budget_(budget) {}

  /// Adds a tensor whose elements begin with `bytes`, which may be longer; or a refused one, with a warning, if `bytes`
  /// is a failure or does not fit. Fails with resource and io, and as the budget does.
  Result<void> tensor(std::string name, const Layout& layout, const Result<Slice>& bytes);

  /// Adds the entries of a list of NamedData: those with a layout as tensors, others as parts. Libraries are
  /// in the common field `code`. Fails as tensor().
  Result<void> named_data(const flatbuffer::List& entries);

  /// Adds a blob as a part; or a warning if `bytes` is a failure. Fails as tensor().
  Result<void> blob(const std::string& path, const Result<Slice>& bytes);

  Warnings& warnings() { return warnings_; }

 private:
  Result<void> place(Tensor& tensor, const Layout& layout, const Result<Slice>& bytes);

  Model& model_;
  const File& file_;
  Budget& budget_;
  Warnings warnings_;
  StringPool spellings_{model_.string_pool};
};

}  // namespace weightfs::executorch
