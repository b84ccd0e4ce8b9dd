// The options of an operator: those of a builtin operator by name, those of a custom one by their place in the file.
#pragma once

#include "formats/graphs/graph_writer.h"
#include "formats/tflite/file.h"

namespace weightfs::tflite {

/// The size of an operator's options in bytes, with what they refer to. Fails with corrupt if they are not all inside
/// the file.
Result<uint64_t> options_size(const Call& call);

/// Appends the options as attributes of a node. A table or a value that is not known is shown
/// as its number. Fails as reading the file, and as GraphWriter::check_size().
Result<void> append_options(GraphWriter& out, const File& file, const Call& call);

}  // namespace weightfs::tflite
