// Pickles where a format has none: pickle.load reads any file from its first byte, whatever its name and its other
// content are.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "formats/model.h"
#include "formats/pickle/pickle.h"

namespace weightfs::pickle {

/// The names of a pickle that are not harmless, as Python 3 spells them.
struct Names {
  std::set<std::string> dangerous, unknown;

  bool empty() const { return dangerous.empty() && unknown.empty(); }
  /// Adds those of a pickle. If it is not whole, only what may have been called counts, so that a text is no alarm.
  void add(const Imports& found);
};

/// What a program that unpickles `bytes` from `begin` on would import, also from pickles that follow the first one.
/// Fails with errors that are not about the bytes, and as the budget does.
Result<Names> hidden_names(const Source& bytes, uint64_t begin, Budget& budget);

/// As that of a file of `size` bytes that begins with `head`. `whole` is only called if these bytes do not tell.
Result<Names> hidden_names(std::string head, uint64_t size, const std::function<Result<SourcePtr>()>& whole,
                           Budget& budget);

/// Adds unknown names to those of a model.
void add_unknown_names(Model& model, const std::set<std::string>& names);

/// Adds the names to the common fields of a model that was read as another format, and warnings about them.
void add_hidden(Model& model, const Names& names);

}  // namespace weightfs::pickle
