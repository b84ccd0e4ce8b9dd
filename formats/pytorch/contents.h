// The model that the pickles of a container describe, whatever holds them.
#pragma once

#include "formats/pytorch/tensors.h"

namespace weightfs::pytorch {

/// Adds the globals of a pickle of PyTorch. `subject` is in front of the warnings about them.
Result<void> add_globals(const Pickle& pickle, std::string_view subject, Contents& out);

/// Reads the next pickle of a file that has several, which is none of its objects. Adds its globals if one of them can
/// run code: torch unpickles all of the pickles. Fails as read_pickle() does.
Result<Pickle> read_next(Cursor& cursor, Budget& budget, Contents& out);

/// Walks a pickle, as walk() does, and adds its globals.
Result<void> add_pickle(const Pickle& pickle, const pickle::File& file, const StorageBytes& storages,
                        const std::string& prefix, std::string_view subject, Contents& out);

/// As pickle::add_contents, with quantized and sparse tensors among the facts.
Result<void> add_contents(Model& model, Contents contents, Map facts);

}  // namespace weightfs::pytorch
