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

// Sets the offset and the size of the segments. A .ptd file has an extended header always: its magic, u32 length, u64
// offset and u64 size of the FlatBuffer before the header was inserted, u64 offset and u64 size of the segments.
Result<void> find_data_segments(const Source& source, File& file) {
  Cursor header(source, kHeaderOffset, source.size());
  const std::string magic = TRY(header.text(4));
  const auto length = TRY(header.number<uint32_t>());
  if (magic != "FH01" || length < kMinDataHeader)
    return failure(Code::corrupt, "no extended header FH01 of at least 40 bytes");
  TRY_VOID(header.skip(2 * sizeof(uint64_t)));
  file.segment_base = TRY(header.number<uint64_t>());
  file.segments_size = TRY(header.number<uint64_t>());
  return {};
}

// Sets nothing if the file has no extended header, as older ones. In a .pte file it has: its magic, u32 length, u64
// size of the program, u64 offset of the segments, and in newer files their u64 size.
Result<void> find_program_segments(const Source& source, File& file) {
  if (source.size() < kHeaderOffset + kMinProgramHeader) return {};
  Cursor header(source, kHeaderOffset, source.size());
  const std::string magic = TRY(header.text(4));
  const auto length = TRY(header.number<uint32_t>());
  if (magic != "eh00") return {};
  if (length < kMinProgramHeader)
    return failure(Code::corrupt,
                   fmt::format("an extended header of {} bytes, less than {}", length, kMinProgramHeader));
  TRY_VOID(header.skip(sizeof(uint64_t)));
  file.segment_base = TRY(header.number<uint64_t>());
  if (length >= kMinProgramHeader + sizeof(uint64_t)) file.segments_size = TRY(header.number<uint64_t>());
  return {};
}

}  // namespace

Result<File> open_file(const SourcePtr& source, std::string_view identifier, Budget& budget) {
  File file{.source = source,
            .bytes = std::make_unique<flatbuffer::Buffer>(*source, budget),
            .root = {},
            .segment_base = {},
            .segments_size = 0,
            .segments = {}};
  if (identifier == kDataIdentifier)
    TRY_VOID(find_data_segments(*source, file));
  else
    TRY_VOID(find_program_segments(*source, file));
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
