// Work that is divided among the processors, such as a large block that many reads wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace weightfs {

/// Calls `work` for each part in [0, parts): in the calling thread and in at most `threads - 1` others, which have
/// ended when it returns. If no thread can be started, the calling thread does all of it. After an error, parts that
/// have not begun are left out, and one of the errors is returned. A lack of memory is an error with Code::resource.
/// When the calling thread is cancelled (base/cancel.h), the others are, too.
Result<void> in_parallel(uint64_t parts, size_t threads, const std::function<Result<void>(uint64_t part)>& work);

/// The number of processors that the calling thread may use, at least 1 and at most `most`.
size_t processors(size_t most);

}  // namespace weightfs
