// Errors for tensors that an output cannot have: the reason, and what to do.
#pragma once

#include "report/export/files.h"

namespace weightfs::exporting {

/// What is done with tensors that the output cannot have.
enum class Unsupported { refused, left_out };

/// The files for the model of a forest. Fails with a message that says what to do if tensors cannot be written and are
/// not to be left out, or if none can be written; and as files_of() does.
Result<ExportedFiles> writable_files(Forest& forest, const ModelPtr& model, const Request& request,
                                     Unsupported unsupported);

}  // namespace weightfs::exporting
