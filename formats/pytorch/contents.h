// The model that the pickles of a container describe, whatever holds them.
#pragma once

#include "formats/pytorch/tensors.h"

namespace weightfs::pytorch {

/// Walks a pickle, as walk() does, and reports its globals. `subject` is in front of the warnings about these.
Result<void> add_pickle(const Pickle& pickle, const StorageBytes& storages, const std::string& prefix,
                        std::string_view subject, Contents& out);

/// Moves the contents into the model. `facts` about the container go under the format's name in the metadata, with the
/// globals, quantized and sparse tensors, and names that share one tensor. Names that can run code are among the common
/// fields too, as `dangerous_globals`, so that every summary of the model shows them.
Result<void> add_contents(Model& model, Contents contents, Map facts);

}  // namespace weightfs::pytorch
