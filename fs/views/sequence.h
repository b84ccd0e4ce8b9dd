// The tensors of a file of another format: pieces one after the other, where they are stored.
#pragma once

#include <cstddef>
#include <functional>

#include "base/source.h"
#include "fs/views/selection.h"

namespace weightfs::views {

/// Opens the piece at a position of the layout: at most as many bytes as the layout has for it; zeros follow. Called
/// from any thread, whenever bytes of the piece are read.
using OpenPiece = std::function<Result<SourcePtr>(size_t position)>;

/// The pieces of the layout, whose `ends` are complete. A read finds its first piece by binary search, and reads each
/// piece into its place. Holding it holds the sources of the tensors, unless there are many.
SourcePtr sequence(FileLayoutPtr layout, OpenPiece open);

/// The sequence of the shown bytes of each tensor.
SourcePtr sequence(const FileLayoutPtr& layout);

}  // namespace weightfs::views
