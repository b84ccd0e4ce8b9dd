// What the directory of a model shows: all of its entries, or those that are chosen.
#pragma once

#include <array>
#include <bitset>
#include <string_view>

namespace weightfs {

enum class LayoutPart { files, tensors, npy, float32, views, metadata, nested };

/// The names, in the order of LayoutPart. `metadata` is all documents: tensors.json and warnings.txt, too.
inline constexpr std::array<std::string_view, 7> kLayoutParts = {"files", "tensors",  "npy",   "float32",
                                                                 "views", "metadata", "nested"};

/// A set of parts; by default all.
class LayoutParts {
 public:
  bool has(LayoutPart part) const { return parts_.test(static_cast<size_t>(part)); }
  /// False for a part without a row in kLayoutParts, such as a view that cannot be chosen.
  bool has(std::string_view name) const {
    for (size_t i = 0; i < kLayoutParts.size(); ++i)
      if (kLayoutParts.at(i) == name) return parts_.test(i);
    return false;
  }
  void clear() { parts_.reset(); }
  void add(LayoutPart part) { parts_.set(static_cast<size_t>(part)); }

 private:
  std::bitset<kLayoutParts.size()> parts_ = ~std::bitset<kLayoutParts.size()>();
};

}  // namespace weightfs
