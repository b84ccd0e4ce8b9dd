// Walks the values of a pickle: names the tensors by the keys that lead to them, and keeps the other values as
// metadata.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "formats/pickle/contents.h"
#include "formats/pickle/pickle.h"

namespace weightfs::pickle {

/// The maximum nesting depth of values. It leaves room for the levels that the model adds around metadata.
inline constexpr int kMaxValueDepth = kMaxDepth - 10;

/// What a value of a pickle stands for.
struct Meaning {
  enum class Kind {
    tensors,   ///< its tensors have been added
    value,     ///< `value`, in the metadata and in keys
    other,     ///< the same as the value `index`
    elements,  ///< the items of the list `index`, whose names have an index for each dimension of `shape`
  };
  Kind kind = Kind::tensors;
  Index index = kNoValue;
  Value value = {};
  Shape shape = {};
};

/// Knows the objects of a library.
class Objects {
 public:
  virtual ~Objects() = default;
  Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  /// The meaning of a call or a persistent value; nothing if it is not one of these objects. Adds its tensors: `name`
  /// is that of the value. Fails with io and resource, and as the budget does.
  virtual Result<std::optional<Meaning>> meaning(const std::string& name, Index value) = 0;

  /// The text of a key; nothing if it is not one of these objects.
  virtual std::optional<std::string> key(Index /*value*/) { return std::nullopt; }
};

/// Adds the tensors and the metadata of a pickle to `out`. Names are joined by `.`: keys of dicts, indices of lists,
/// attributes of objects. `prefix` is the first component of all names, and the key of the metadata; it may be empty.
/// The first of `libraries` that knows an object decides what it is. A value that contains itself is left out there.
/// Fails with unsupported beyond kMaxValueDepth, and as the budget does: values that are shared are visited once for
/// each of their names.
Result<void> walk(const Pickle& pickle, std::span<Objects* const> libraries, const std::string& prefix, Contents& out);

}  // namespace weightfs::pickle
