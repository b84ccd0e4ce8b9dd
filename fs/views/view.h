// The views of a model. A view is a directory with a file per tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/model.h"

namespace weightfs::views {

/// A row of the table of views (fs/views/views.cc). `tensor` is an index into Model::tensors. The functions may be
/// called from any thread.
struct View {
  std::string_view directory;  ///< "npy"
  std::string_view suffix;     ///< of every file: ".npy"; may be empty
  bool (*has)(const Model& model, size_t tensor);
  /// The size of the file in bytes; nothing if only open() can compute it.
  std::optional<uint64_t> (*size)(const Model& model, size_t tensor);
  /// The content of the file. Fails with corrupt for a refused tensor, and as reading the container fails.
  Result<SourcePtr> (*open)(const Model& model, size_t tensor);
};

/// All views, in the order of the model's directory. The first has every tensor, without a suffix.
std::span<const View* const> all();

/// tensors/: the bytes of each tensor as stored.
extern const View kTensorsView;
/// float32/: the numbers of each tensor.
extern const View kFloat32View;

}  // namespace weightfs::views
