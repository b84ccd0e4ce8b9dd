// The lists of `weightfs info`: all tensors (--tensors), all metadata (--metadata).
#pragma once

#include <functional>
#include <string>

#include "report/info/subject.h"
#include "report/text/style.h"

namespace weightfs::info {

using WriteLine = std::function<void(const std::string& line)>;

/// How wide the list of tensors may be: on a terminal names lose what most have in common, and columns that do not fit
/// are left out; elsewhere all is complete.
enum class Names { shortened, complete };

/// A header, and a line or two for each tensor: name, type, shape, elements, size.
void list_tensors(const Subject& subject, const Style& style, Names names, const WriteLine& write);

/// All metadata, a line or more for each key. A long value is replaced by its length and the file, or the option, that
/// prints it, which is named with `source`; none is cut.
void list_metadata(const Model& model, const std::string& source, const Style& style, const WriteLine& write);

}  // namespace weightfs::info
