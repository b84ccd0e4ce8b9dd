// The names in a pickle of PyTorch that unpickling would import: which of them are harmless.
#pragma once

#include <string>
#include <string_view>

#include "base/values/value.h"
#include "formats/common/warnings.h"
#include "formats/pickle/pickle.h"

namespace weightfs::pytorch {

/// Whether torch.load(weights_only=True) permits the name: it creates tensors or plain values. So do the classes of
/// TorchScript, which are part of the file.
bool is_permitted(std::string_view global);

/// The names that are not permitted.
struct ReportedGlobals {
  List all;
  std::string dangerous;  ///< those that can run code, joined by ", "
};

/// Adds a warning for each name of a pickle that can run code, then one for all other names that are not permitted.
/// `subject` is in front of the warnings.
ReportedGlobals report_globals(const pickle::Pickle& pickle, std::string_view subject, Warnings& warnings);

}  // namespace weightfs::pytorch
