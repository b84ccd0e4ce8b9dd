// Regular files that are open already, as sources.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>

#include "base/os/descriptor.h"
#include "base/source.h"

namespace weightfs {

/// Opens the same path once more, by the same rules.
using OpenAgain = std::function<Result<Descriptor>()>;

/// As open_file(path), of `file`, which was opened as `name` relative to `directory`; `path` is for messages. With
/// `open_again` the file is closed when it is not in use (base/os/open_files.h), and opened again by the next read,
/// which fails with io if the path does not lead to the same unchanged file. Fails with io when it is not a regular
/// file.
Result<SourcePtr> source_of_file(Descriptor file, SharedDescriptor directory, std::string name, const std::string& path,
                                 OpenAgain open_again = nullptr);

/// Source::identity() and occupied() of a regular file, by stat(2).
std::string file_identity(const struct stat& file);
uint64_t file_occupied(const struct stat& file);

}  // namespace weightfs
