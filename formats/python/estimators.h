// What people ask about a pickled model: its class, the classes of its parts, and the version of scikit-learn that
// wrote it.
#pragma once

#include "formats/pickle/contents.h"

namespace weightfs::python {

/// "class" of the root and "classes" of the objects inside of it, by their names; "sklearn_version", or a list of them
/// with a warning if parts have different ones.
Map facts_of(pickle::Contents& contents);

}  // namespace weightfs::python
