// A text or table of many records, such as the header of a file of 100,000 tensors: rendered when it is read.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/budget.h"
#include "base/source.h"

namespace weightfs::views {

/// Appends a record to `out`: always the same bytes. Called from any thread. A read fails with its error.
using AppendRecord = std::function<Result<void>(std::string& out, size_t record)>;

/// The size of a record in bytes, without reading anything.
using RecordSize = std::function<uint64_t(size_t record)>;

/// The records [0, count) one after the other. Keeps 16 bytes for each 16 KiB. The measuring is charged to `budget`;
/// fails as Budget::charge does.
Result<SourcePtr> records(size_t count, AppendRecord append, const RecordSize& size_of, const BudgetPtr& budget);

/// Records that are measured by appending each once, which must succeed.
Result<SourcePtr> records(size_t count, AppendRecord append, const BudgetPtr& budget);

}  // namespace weightfs::views
