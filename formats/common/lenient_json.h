// Small JSON files beside models, such as config.json. They are hostile, and not always JSON: Python writes NaN, and
// some editors a byte order mark.
#pragma once

#include "base/budget.h"
#include "base/source.h"
#include "base/values/value.h"

namespace weightfs {

/// The maximum size of a small JSON file, in bytes.
inline constexpr uint64_t kMaxSmallJson = 10'000'000;

/// The value of the whole file. A byte order mark is skipped; NaN and the infinities become null. Fails with
/// unsupported if the file is larger than kMaxSmallJson or has more than 400,000 values, as parse_json() does, and as
/// reading does. The value stays charged.
Result<Value> parse_small_json(const Source& file, Budget& budget);

}  // namespace weightfs
