// Runs functions in child processes with a timeout. For calls that may hang, such as those to a file system served by
// another process: a child that hangs can be abandoned.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/values/value.h"

namespace weightfs {

/// Runs in the child process. Its changes (ids, directory, namespaces) affect only the child.
using IsolatedTask = std::function<Map()>;

inline constexpr std::chrono::milliseconds kIsolatedTimeout{2000};

/// Why there is no result: the child timed out, or it could not be started or died.
enum class IsolationError { timed_out, failed };
using IsolatedResult = tl::expected<Map, IsolationError>;

/// Runs all tasks at once (in batches if descriptors or processes run out) and returns their results. A child that
/// times out is killed. If it does not die, it is abandoned; of the descriptors of this process it holds only `kept`.
/// If this process has other threads, a task must not take a lock that one of them may hold; allocating memory and
/// reading files is safe.
std::vector<IsolatedResult> run_isolated(const std::vector<IsolatedTask>& tasks,
                                         std::chrono::milliseconds timeout = kIsolatedTimeout, int kept = -1);

/// Runs one task. If no process can be started, it runs in this process, and may block.
IsolatedResult run_isolated_or_here(const IsolatedTask& task, std::chrono::milliseconds timeout = kIsolatedTimeout,
                                    int kept = -1);

/// Ends this child when its parent exits. A task that changes its ids must call it again, because the kernel resets the
/// setting.
void die_with_parent();

/// The text under `key`, if any.
std::optional<std::string> find_text(const Map& map, std::string_view key);

/// The number under `key`, if there is one that is not negative.
std::optional<uint64_t> find_number(const Map& map, std::string_view key);

}  // namespace weightfs
