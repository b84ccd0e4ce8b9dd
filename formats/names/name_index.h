// Finds the row of the table for the name of a tensor, without a look at all rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/names/names.h"

namespace weightfs::mapping {

/// Which names of a row are looked for.
enum class NameForm : uint8_t { hub, gguf };

/// The rows of one architecture by one form of their names. Callable from any thread.
class NameIndex {
 public:
  NameIndex(const Architecture& architecture, NameForm form);

  /// A row, and the numbers in the name; nothing where the name has none.
  struct Found {
    TensorPart part;
    std::optional<uint32_t> block, expert;
  };

  /// The row of a tensor, or of the module that it is a piece of, such as "model.layers.3.mlp.up_proj" of
  /// "model.layers.3.mlp.up_proj.qweight". What is in front of a text model that is part of another model, such as
  /// "language_model.", is not looked at. Nothing if no row has the name. Components may be separated by `/`.
  std::optional<Found> find(std::string_view name) const;

 private:
  struct Row {
    std::string key;  // the name, with `#` in place of its numbers
    TensorPart part;
    size_t numbers;
    bool has_expert;  // the last number is that of an expert
  };
  const Row* row_of(std::string_view key, size_t numbers) const;

  NameForm form_;
  std::vector<Row> rows_;  // sorted by key
};

}  // namespace weightfs::mapping
