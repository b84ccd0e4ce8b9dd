// What the files of ExecuTorch have in common: a FlatBuffer, an extended header between its first bytes and its tables,
// and segments of data after it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "formats/flatbuffer/flatbuffer.h"
#include "formats/format.h"

namespace weightfs::executorch {

/// The identifiers at byte 4.
inline constexpr std::string_view kDataIdentifier = "FT01";     ///< of .ptd
inline constexpr std::string_view kProgramIdentifier = "ET12";  ///< of .pte

/// An opened file. Not thread-safe. `segments` is set by the reader of its root.
struct File {
  SourcePtr source;
  std::unique_ptr<flatbuffer::Buffer> bytes;  ///< the tables and lists refer to it
  flatbuffer::Table root;
  std::optional<uint64_t> segment_base;  ///< offset of the segments; nothing without an extended header
  uint64_t segments_size = 0;            ///< in bytes, as the extended header states it; 0 if it does not
  flatbuffer::List segments;             ///< of DataSegment
};

/// Reads the root and the extended header of a .ptd or .pte file. Fails with corrupt if they are not valid. `budget`
/// outlives the result.
Result<File> open_file(const SourcePtr& source, std::string_view identifier, Budget& budget);

/// The bytes of the segment at `index`. Fails with corrupt if there is none or it is not all inside the file.
Result<Slice> segment(const File& file, uint64_t index);

}  // namespace weightfs::executorch
