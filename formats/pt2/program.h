// The JSON of an exported program, as torch/_export/serde/schema.py of torch 2.9 defines it: only what describes the
// program is kept. The nodes of its graph, which may have 100 MB, are counted.
#pragma once

#include "base/budget.h"
#include "base/source.h"
#include "base/values/value.h"

namespace weightfs::pt2 {

/// The maximum size of a JSON file of an archive, in bytes.
inline constexpr uint64_t kMaxJson = 200'000'000;

/// Facts about a program: torch_version, schema_version, opset_version, inputs, outputs, and operators with their
/// numbers of nodes. They stay charged. Fails as read_json and the budget do, and with unsupported if it is another
/// JSON text or longer than kMaxJson.
Result<Map> describe_program(const Source& json, Budget& budget);

}  // namespace weightfs::pt2
