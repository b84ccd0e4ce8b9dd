// Finds tensors of a model by their names.
#pragma once

#include <string_view>
#include <unordered_map>

#include "formats/model.h"
#include "formats/summary/fields.h"

namespace weightfs::summary {

/// An index of the names of a list, which must outlive it. That of more tensors than any model of pictures has is
/// empty.
class TensorIndex {
 public:
  explicit TensorIndex(const TensorList& tensors) : tensors_(tensors) {
    constexpr size_t kMostTensors = 50'000;
    if (tensors.size() > kMostTensors) return;
    for (size_t i = 0; i < tensors.size(); ++i) places_.emplace(name_in_checkpoint(tensors.name(i)), i);
  }

  size_t size() const { return places_.size(); }
  bool has(std::string_view name) const { return places_.contains(name); }
  /// The size of an axis of a tensor of so many axes; nothing if there is no such tensor.
  Number size_of(std::string_view name, size_t axis, size_t axes) const {
    const auto found = places_.find(name);
    if (found == places_.end() || tensors_.shape(found->second).size() != axes) return std::nullopt;
    return tensors_.shape(found->second)[axis];
  }

 private:
  // Trainers save a dictionary of their state, in which the model is one entry.
  static std::string_view name_in_checkpoint(std::string_view name) {
    constexpr std::string_view kState = "state_dict.";
    return name.starts_with(kState) ? name.substr(kState.size()) : name;
  }

  const TensorList& tensors_;
  std::unordered_map<std::string_view, size_t> places_;
};

}  // namespace weightfs::summary
