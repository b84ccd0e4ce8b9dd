// Regular files that are open already, as sources.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

#include "base/os/descriptor.h"
#include "base/source.h"

namespace weightfs {

/// As open_file(path), of `file`, which was opened as `name` relative to `directory`; `path` is for messages. Fails
/// with io when it is not a regular file.
Result<SourcePtr> source_of_file(Descriptor file, SharedDescriptor directory, std::string name,
                                 const std::string& path);

/// Source::identity() and occupied() of a regular file, by stat(2).
std::string file_identity(const struct stat& file);
uint64_t file_occupied(const struct stat& file);

}  // namespace weightfs
