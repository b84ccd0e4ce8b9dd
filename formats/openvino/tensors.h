// The constants of an OpenVINO model as tensors: ranges of its .bin file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/string_pool.h"

namespace weightfs::openvino {

/// A constant as the structure has it. Its texts belong to the caller.
struct Constant {
  std::string_view name;                  ///< of its layer
  std::string_view scope;                 ///< the layer and the body that it is in; empty for the outermost graph
  std::string_view type;                  ///< "f32"
  std::optional<std::string_view> shape;  ///< "3,4"; nothing if only the size is known (IR 2 to 7)
  std::string_view offset, size;          ///< in bytes of the .bin file, as text
};

/// Adds constants to a model. The model and the container outlive it.
class Tensors {
 public:
  /// Opens the .bin file with the container's stem. Fails if that is fatal; else a missing file refuses the constants.
  static Result<Tensors> open(const Container& container, Model& model);

  /// Adds a constant, refused if its description is wrong or it is not inside of the file. Fails as the budget does.
  Result<void> add(const Constant& constant);

  /// Adds the .bin file to the parts, and the warnings.
  void finish();

 private:
  Tensors(const Container& container, Model& model, std::string name, Result<SourcePtr> weights)
      : budget_(container.budget),
        model_(&model),
        pool_(model.string_pool),
        name_(std::move(name)),
        weights_(std::move(weights)) {}

  Result<Slice> place(const Constant& constant, Shape& shape) const;

  BudgetPtr budget_;
  Model* model_;
  StringPool pool_;
  std::string name_;  // of the .bin file
  Result<SourcePtr> weights_;
  uint64_t lost_ = 0;  // tensors without a .bin file
  Warnings warnings_;
};

}  // namespace weightfs::openvino
