// Temporary files that nothing leads to: they are gone with whoever has them open, however that ends.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weightfs {

/// Where temporary files may be large: $TMPDIR, then /var/tmp, then /tmp, which is often in memory.
std::vector<std::string> temporary_places();

/// A descriptor, close-on-exec, of a new file in `directory` that has no name; -1 and errno when there can be none.
int open_nameless(const std::string& directory);

/// Makes `opener` do what open_nameless() does, for a process that may not open files there itself. Only while the
/// process has one thread.
void set_nameless_opener(std::function<int(const std::string& directory)> opener);

}  // namespace weightfs
