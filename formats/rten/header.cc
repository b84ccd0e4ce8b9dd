#include "formats/rten/header.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/common/cursor.h"
#include "formats/format.h"
#include "formats/rten/image.h"

namespace weightfs {
namespace {

constexpr std::string_view kMagic = "RTEN";

// A root offset, a vtable with room for `graph`, a table that has it, and the graph's own first word.
constexpr uint64_t kMinModelSize = 24;

// A number of the head, or nothing where it ends.
template <class T>
std::optional<T> number_at(std::string_view head, uint64_t offset) {
  if (offset > head.size() || sizeof(T) > head.size() - offset) return std::nullopt;
  T number;
  std::memcpy(&number, head.data() + offset, sizeof(T));
  return number;
}

// Whether the vtable of the root could be that of a Model: even, inside the file, and with the required field `graph`.
Match model_vtable(std::string_view head, uint64_t size, uint64_t vtable) {
  const auto vtable_size = number_at<uint16_t>(head, vtable);
  const auto table_size = number_at<uint16_t>(head, vtable + 2);
  const auto graph = number_at<uint16_t>(head, vtable + 6);
  if (!vtable_size || !table_size || !graph) return Match::maybe;
  const bool plausible = *vtable_size % 2 == 0 && *vtable_size >= 8 && *vtable_size <= size - vtable && *graph >= 4 &&
                         *graph + 4 <= *table_size;
  return plausible ? Match::maybe : Match::no;
}

// A version 1 file has no magic number: any file is one whose first words could be the root of a FlatBuffer.
Match match_of_root(std::string_view head, uint64_t size) {
  const auto root = number_at<uint32_t>(head, 0);
  if (!root || size < kMinModelSize || size > rten::kMaxFlatBufferSize) return Match::no;
  if (*root % 4 != 0 || *root < 4 || *root > size - 8) return Match::no;
  const auto to_vtable = number_at<int32_t>(head, *root);
  if (!to_vtable) return Match::maybe;
  const int64_t vtable = int64_t{*root} - *to_vtable;
  if (vtable < 4 || vtable % 2 != 0 || static_cast<uint64_t>(vtable) > size - 8) return Match::no;
  return model_vtable(head, size, static_cast<uint64_t>(vtable));
}

}  // namespace

Match matches_rten(const Probe& probe) {
  return probe.head.starts_with(kMagic) ? Match::yes : match_of_root(probe.head, probe.size);
}

namespace rten {
namespace {

constexpr uint64_t kHeaderSize = 32;

// The next number of the header: the offset of a section.
Result<uint64_t> section(Cursor& header, const char* field, uint64_t file_size) {
  const auto offset = TRY(header.number<uint64_t>());
  if (offset >= kHeaderSize && offset <= file_size) return offset;
  return failure(Code::corrupt, fmt::format("rten: header: {} is {}, not between {} and the file's size, {}", field,
                                            offset, kHeaderSize, file_size));
}

}  // namespace

Result<Sections> find_sections(const Source& file) {
  const uint64_t size = file.size();
  if (size < kMagic.size()) return failure(Code::corrupt, fmt::format("rten: a file of {} bytes is too short", size));
  if (TRY(read_text(file, 0, kMagic.size())) != kMagic)
    return Sections{.version = 1, .file_size = size, .model_offset = 0, .model_size = size};
  if (size < kHeaderSize)
    return failure(Code::corrupt, fmt::format("rten: header: ends after {} bytes, {} needed", size, kHeaderSize));

  Cursor header(file, kMagic.size(), kHeaderSize);
  const auto version = TRY(header.number<uint32_t>());
  Sections found{.version = version, .file_size = size};
  if (found.version != 2)
    return failure(Code::unsupported, fmt::format("rten: header: version {}, not 2", found.version));
  found.model_offset = TRY(section(header, "model_data_offset", size));
  found.model_size = TRY(header.number<uint64_t>());
  if (found.model_size > size - found.model_offset)
    return failure(Code::corrupt,
                   fmt::format("rten: header: model_data_len is {}, and {} bytes follow model_data_offset",
                               found.model_size, size - found.model_offset));
  found.tensors = TRY(section(header, "tensor_data_offset", size));
  return found;
}

}  // namespace rten
}  // namespace weightfs
