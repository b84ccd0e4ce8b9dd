#include "formats/executorch/file.h"

#include <fmt/core.h>

#include "formats/common/cursor.h"

namespace weightfs::executorch {
namespace {

// The extended header begins here; tables follow it.
constexpr uint64_t kHeaderOffset = 8;

// The minimum length of the extended header, with its magic and its length.
constexpr uint32_t kMinDataHeader = 40;
constexpr uint32_t kMinProgramHeader = 24;

// The offset of the segments. A .ptd file has an extended header always: its magic, u32 length, u64 offset and u64 size
// of the FlatBuffer before the header was inserted, u64 offset and u64 size of the segments.
Result<uint64_t> data_segments(const Source& source) {
  Cursor header(source, kHeaderOffset, source.size());
  const std::string magic = TRY(header.text(4));
  const auto length = TRY(header.number<uint32_t>());
  if (magic != "FH01" || length < kMinDataHeader)
    return failure(Code::corrupt, "no extended header FH01 of at least 40 bytes");
  TRY_VOID(header.skip(2 * sizeof(uint64_t)));
  return header.number<uint64_t>();
}

// Nothing if the file has none, as older ones. In a .pte file it has: its magic, u32 length, u64 size of the program,
// u64 offset of the segments.
Result<std::optional<uint64_t>> program_segments(const Source& source) {
  if (source.size() < kHeaderOffset + kMinProgramHeader) return std::nullopt;
  Cursor header(source, kHeaderOffset, source.size());
  const std::string magic = TRY(header.text(4));
  const auto length = TRY(header.number<uint32_t>());
  if (magic != "eh00") return std::nullopt;
  if (length < kMinProgramHeader)
    return failure(Code::corrupt,
                   fmt::format("an extended header of {} bytes, less than {}", length, kMinProgramHeader));
  TRY_VOID(header.skip(sizeof(uint64_t)));
  return TRY(header.number<uint64_t>());
}

}  // namespace

Result<File> open_file(const SourcePtr& source, std::string_view identifier, Budget& budget) {
  File file{.source = source,
            .bytes = std::make_unique<flatbuffer::Buffer>(*source, budget),
            .root = {},
            .segment_base = {},
            .segments = {}};
  if (identifier == kDataIdentifier)
    file.segment_base = TRY(data_segments(*source));
  else
    file.segment_base = TRY(program_segments(*source));
  file.root = TRY(flatbuffer::Table::root(*file.bytes));
  return file;
}

Result<Slice> segment(const File& file, uint64_t index) {
  if (index >= file.segments.size())
    return failure(Code::corrupt, fmt::format("is in segment {}, and the file has {}", index, file.segments.size()));
  if (!file.segment_base) return failure(Code::corrupt, "is in a segment, and the file has no extended header");
  const auto table = TRY(file.segments.table(index));
  const auto offset = TRY(table.number<uint64_t>(0));
  const auto size = TRY(table.number<uint64_t>(1));
  uint64_t begin = 0;
  if (__builtin_add_overflow(*file.segment_base, offset, &begin))
    return failure(Code::corrupt,
                   fmt::format("is in segment {} at {} after {}, beyond 2^64", index, offset, *file.segment_base));
  return slice(file.source, begin, size);
}

}  // namespace weightfs::executorch
