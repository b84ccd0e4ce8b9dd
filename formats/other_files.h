// Files that are no model of a supported format: what they are, and what to do. People meet them under the names of
// models: a Git LFS pointer, the error page of a server, a download that was interrupted.
#pragma once

#include <optional>
#include <string>

#include "formats/format.h"

namespace weightfs {

/// What a file is by its first bytes, before any format reads it: "a Git LFS pointer to a file of 4.6 GiB; run git lfs
/// pull". Nothing if it may be a model. Fails with io. A file that was cut fails with corrupt, another one with
/// unsupported.
Result<void> check_may_be_model(const Container& container);

/// The same for a file that no format accepts: also compressed files, and models of formats that are known and not
/// supported. Nothing if it is unknown. Reads at most 64 KiB.
Result<std::optional<Error>> identify_other_file(const Container& container);

/// The same for a file that is only known to be text. A file with the name of a format is more likely a broken one of
/// it.
Result<std::optional<Error>> identify_text(const Container& container);

}  // namespace weightfs
