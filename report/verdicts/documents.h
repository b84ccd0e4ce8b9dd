// The verdicts of `weightfs verify` for programs: JSON, and SARIF 2.1.0 (OASIS), which code hosts show beside a change.
#pragma once

#include <string>
#include <string_view>

#include "report/verdicts/verdict.h"

namespace weightfs::verdicts {

/// {"models": [{"name", "state", "text", …}], "beside", "whole", "damaged", "failed"} (docs/checksums.md).
std::string to_json(const Report& report);

/// A log with one run: a rule for each kind of problem, a result for each problem with the URI of its file. `version`
/// is that of weightfs.
std::string to_sarif(const Report& report, std::string_view version);

}  // namespace weightfs::verdicts
