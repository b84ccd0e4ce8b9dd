// The names in a pickle that unpickling would import: which of them are harmless, which are typical of malware.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/values/value.h"
#include "formats/common/warnings.h"

namespace weightfs::pytorch {

/// Whether torch.load(weights_only=True) permits the name: it creates tensors or plain values. So do the classes of
/// TorchScript, which are part of the file.
bool is_permitted(std::string_view global);

/// Whether the name runs programs, loads code or reaches other functions by their names. A hint, not a proof: other
/// names can do the same.
bool can_run_code(std::string_view global);

/// The names that are not permitted.
struct ReportedGlobals {
  List all;
  std::string dangerous;  ///< those that can run code, joined by ", "
};

/// Adds a warning for each name that can run code, then one for all other names that are not permitted. `subject` is in
/// front of the warnings.
ReportedGlobals report_globals(const std::vector<std::string>& globals, std::string_view subject, Warnings& warnings);

}  // namespace weightfs::pytorch
