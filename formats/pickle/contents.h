// What was found in pickles.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/budget.h"
#include "formats/common/warnings.h"
#include "formats/model.h"
#include "formats/pickle/pickle.h"

namespace weightfs::pickle {

/// The metadata and the tensors are charged to `charges`.
struct Contents {
  explicit Contents(Budget& of) : budget(of), charges(of) {}

  Budget& budget;
  Charges charges;
  TensorList tensors;
  std::map<size_t, Slice> npy_files;   ///< as those of a Model
  std::list<std::string> string_pool;  ///< owns the spellings of the tensors' types
  Map metadata;                        ///< values that are no tensors
  Map classes;                         ///< by name: the class of objects that have attributes, the outermost first
  List globals;                        ///< names that are neither of tensors nor of plain values
  std::string dangerous;               ///< those of them that can run code, joined by ", "
  std::set<std::string> unknown;       ///< those that are not known to be harmless, besides
  Warnings warnings;
};

/// Removes the tensors at these places, which ascend.
void erase_tensors(Contents& contents, std::span<const size_t> places);

/// Whether every use of a global that can run code is known to run none.
using IsHarmless = std::function<bool(std::string_view global)>;

/// What is known of a global by its uses, too: `getattr(Class, 'NAME')`, as some versions of Python write the members
/// of an enumeration, is not dangerous, but as unknown as the class.
Standing standing_in(const Pickle& pickle, const Global& global);

/// Adds the unknown names of a pickle. Fails as the budget does.
Result<void> add_unknown(const Pickle& pickle, Contents& out);
/// Adds an unknown name. Fails as the budget does.
Result<void> add_unknown(const std::string& name, Contents& out);

/// Adds the names that are dangerous and unknown to the common fields of a model.
void add_names(Model& model, Contents& contents);

/// Adds the globals of a pickle that are not plain, and a warning for each that can run code unless it is harmless.
/// `is_harmless` may be null. Fails as the budget does.
Result<void> report_globals(const Pickle& pickle, bool (*is_plain)(std::string_view), const IsHarmless& is_harmless,
                            Contents& out);

/// Adds the tensors, the warnings and the names that can run code to a model that may have others, and sets its
/// metadata.
void add_to(Model& model, Warnings& warnings, Contents contents);

/// Moves the contents into the model. `facts` about the container go under the format's name in the metadata, with the
/// globals and names that share one tensor. Names that can run code are among the common fields too, as
/// `dangerous_globals`, so that every summary of the model shows them, and unknown ones as `unknown_globals`.
Result<void> add_contents(Model& model, Contents contents, Map facts);

}  // namespace weightfs::pickle
