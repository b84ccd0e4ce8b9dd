// Which tensors of a model a file of another format has, under which names, and with which bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/string_arena.h"
#include "formats/common/warnings.h"
#include "fs/views/model_file.h"

namespace weightfs::views {

/// Offsets and sizes up to here are exact in every reader of JSON: 2^53 bytes.
inline constexpr uint64_t kMaxFileOffset = uint64_t{1} << 53;

/// Which types the tensors have in a file.
struct TypesInFile {
  FileTypes types = FileTypes::stored;
  std::function<bool(const TensorView& tensor)> has_type = {};  ///< whether the format has the type of the tensor
  OverflowsPtr overflows = {};

  /// The type that the numbers of the tensor are converted to; null if its bytes are as stored.
  const DType* conversion(const TensorView& tensor) const;
};

/// The tensors of a file in their order, and where they are. The header and the bytes of the file share it.
struct FileLayout {
  FileLayout(ModelPtr its_model, TypesInFile its_types);

  ModelPtr model;
  TypesInFile types;
  std::vector<uint32_t> tensors;  ///< indices into Model::tensors
  std::vector<uint64_t> ends;     ///< of each, with its padding, from the beginning of the first one
  BudgetPtr budget;               ///< the model's; an unlimited one if it has none
  Charges charges;                ///< for the two lists

  TensorView tensor(size_t position) const { return model->tensors[tensors[position]]; }
  uint64_t begin(size_t position) const { return position == 0 ? 0 : ends[position - 1]; }
  uint64_t size() const { return ends.empty() ? 0 : ends.back(); }
};
using FileLayoutPtr = std::shared_ptr<const FileLayout>;

/// The name of a tensor in a file without scopes: "SCOPE/NAME".
std::string name_in_file(const TensorView& tensor);

/// A tensor and its name in a file, to be sorted.
struct NamedTensor {
  std::string_view name;
  uint32_t tensor;

  bool operator<(const NamedTensor& other) const { return name < other.name; }
};

/// The tensors with their names, which belong to the model or are added to `texts`. Charges the time of sorting them.
Result<std::vector<NamedTensor>> named_tensors(const FileLayout& layout, StringArena& texts);

/// The size of the tensor in a file.
uint64_t size_in_file(const TypesInFile& types, const TensorView& tensor);

/// The bytes of the tensor of an index in a file.
SourcePtr bytes_in_file(const Model& model, const TypesInFile& types, size_t tensor);

/// The reason why a format cannot hold the tensor of an index; empty if it can.
using Reason = std::function<std::string(size_t index, const TensorView& tensor)>;

/// Whether the second tensor of a name is left out.
enum class RepeatedNames { left_out, kept };

/// Starts the layout of a file with those selected tensors that the format can hold, in the order of the container.
/// Refused tensors and those of more than kMaxFileOffset bytes or elements are left out. Fails as Budget::charge does.
Result<std::shared_ptr<FileLayout>> choose_tensors(const ModelPtr& model, const Selection& selection,
                                                   const TypesInFile& types, const Reason& reason,
                                                   RepeatedNames repeated, Warnings& left_out);

/// The error for a file that would have no tensors: why it cannot have the first one. Its code is unsupported.
Error no_tensors(std::string_view format, const Warnings& left_out);

}  // namespace weightfs::views
