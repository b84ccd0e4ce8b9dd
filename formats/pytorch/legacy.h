// Files of torch before 1.6, which pickles of Python hold as bytes: pickle.dump of a tensor writes its storage as one.
#pragma once

#include "formats/pytorch/contents.h"

namespace weightfs::pytorch {

/// The storage that is the object of such a file. Its pickles must be short: they are read now. The globals of the
/// pickles are added to `out`. Fails with corrupt if the object is not a storage, as read_pickle() does, and as the
/// budget does.
Result<LoadedStorage> storage_in(const Slice& bytes, const pickle::File& around, Contents& out);

}  // namespace weightfs::pytorch
