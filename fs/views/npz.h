// The .npz file of a model whose checksums are remembered.
#pragma once

#include <string>

#include "fs/views/checksums.h"
#include "fs/views/model_file.h"

namespace weightfs::views {

/// npz_file() of a mount: `checksums` remembers the checksums, and reports under `name` that they are being computed.
/// Null: neither.
Result<ModelFile> npz_file(const ModelPtr& model, const Selection& selection, const std::string& name,
                           const ChecksumsPtr& checksums);

}  // namespace weightfs::views
