#include "formats/archive/zip_end.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <limits>

#include "base/text.h"
#include "formats/format.h"

namespace weightfs::archive {
namespace {

using namespace std::string_view_literals;

constexpr auto kMember = "PK\3\4"sv;
constexpr auto kDirectory = "PK\1\2"sv;
constexpr auto kEnd = "PK\5\6"sv;
constexpr auto kEnd64 = "PK\6\6"sv;
constexpr auto kLocator = "PK\6\7"sv;

// The fixed parts of the records (APPNOTE 4.3.14 to 4.3.16), in bytes.
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64Size = 56;
constexpr size_t kLocatorSize = 20;
constexpr size_t kMaxCommentLength = 0xFFFF;

template <std::unsigned_integral T>
T number_at(std::string_view bytes, size_t at) {
  uint64_t number = 0;
  for (size_t i = sizeof(T); i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return static_cast<T>(number);
}

size_t comment_length(std::string_view end_record) { return number_at<uint16_t>(end_record, 20); }

// The values of a record, unchecked.
struct Claim {
  uint64_t position;  // of the record; the directory is before it
  uint64_t members, size, offset;
};

Claim claim_of(std::string_view record, uint64_t position) {
  return {position, number_at<uint16_t>(record, 10), number_at<uint32_t>(record, 12), number_at<uint32_t>(record, 16)};
}

Claim claim_of_64(std::string_view record, uint64_t position) {
  return {position, number_at<uint64_t>(record, 32), number_at<uint64_t>(record, 40), number_at<uint64_t>(record, 48)};
}

Result<bool> stands_at(const Source& zip, uint64_t offset, std::string_view signature) {
  const uint64_t size = zip.size();
  if (offset > size || size - offset < signature.size()) return false;
  return TRY(read_text(zip, offset, signature.size())) == signature;
}

// The claim as offsets in the file if the zip begins at `begin`; nothing if it does not fit.
Result<std::optional<ZipEnd>> placed(const Source& zip, const Claim& claim, uint64_t begin) {
  if (begin > claim.position || claim.offset > claim.position - begin) return std::nullopt;
  const uint64_t directory = begin + claim.offset;
  if (claim.size > claim.position - directory) return std::nullopt;
  const bool empty = claim.members == 0 && claim.size == 0 && directory == claim.position;
  if (!empty && !TRY(stands_at(zip, directory, kDirectory))) return std::nullopt;
  return ZipEnd{begin, directory, 0, claim.members};
}

// Data before the zip shift its directory, which ends where the record begins; some writers leave a gap there.
Result<std::optional<ZipEnd>> placed(const Source& zip, const Claim& claim) {
  if (auto plain = TRY(placed(zip, claim, 0))) return plain;
  if (claim.size > claim.position || claim.offset > claim.position - claim.size) return std::nullopt;
  return placed(zip, claim, claim.position - claim.size - claim.offset);
}

// Reads the zip64 record of the locator at `position`: at its offset, or, shifted, right before the locator.
Result<std::optional<ZipEnd>> placed_64(const Source& zip, std::string_view locator, uint64_t position) {
  const auto located = number_at<uint64_t>(locator, 8);
  if (position < kEnd64Size) return std::nullopt;
  for (const uint64_t at : {located, position - kEnd64Size}) {
    if (at < located || at > position - kEnd64Size || !TRY(stands_at(zip, at, kEnd64))) continue;
    return placed(zip, claim_of_64(TRY(read_text(zip, at, kEnd64Size)), at), at - located);
  }
  return std::nullopt;
}

// Parses the end record at `at` of `tail`, the end of `zip`; nothing if it is inconsistent.
Result<std::optional<ZipEnd>> end_at(const Source& zip, std::string_view tail, size_t at) {
  const std::string_view record = tail.substr(at);
  if (record.size() < kEndSize || comment_length(record) > record.size() - kEndSize) return std::nullopt;
  const uint64_t position = zip.size() - record.size();
  const auto locator = tail.substr(0, at).substr(at - std::min(at, kLocatorSize));
  auto found = locator.starts_with(kLocator) && locator.size() == kLocatorSize
                   ? TRY(placed_64(zip, locator, position - kLocatorSize))
                   : TRY(placed(zip, claim_of(record, position)));
  if (found) found->end = position + kEndSize;
  return found;
}

}  // namespace

Result<ZipEnd> find_zip_end(const Source& zip) {
  const uint64_t looked_at = std::min<uint64_t>(zip.size(), kLocatorSize + kEndSize + kMaxCommentLength);
  const std::string tail = TRY(read_text(zip, zip.size() - looked_at, looked_at));
  std::optional<ZipEnd> best;
  for (size_t at = tail.find(kEnd); at != tail.npos; at = tail.find(kEnd, at + 1)) {
    const auto end = TRY(end_at(zip, tail, at));
    if (end && (!best || end->begin < best->begin)) best = end;
  }
  if (best) return *best;
  if (tail.find(kEnd) == tail.npos && TRY(stands_at(zip, 0, kMember)))
    return failure(Code::corrupt, "zip: a zip without its directory: the file was cut; interrupted download?");
  return failure(Code::corrupt,
                 fmt::format("zip: no valid end of central directory record in the last {} bytes", looked_at));
}

}  // namespace weightfs::archive

namespace weightfs {

// A zip after other data is detectable only at its end, where a file of another format may have a zip inside.
Match matches_zip(const Probe& probe) {
  using namespace archive;
  if (probe.head.starts_with(kMember)) return Match::yes;
  if (probe.head.starts_with(kEnd) && probe.size >= kEndSize) return Match::yes;
  for (size_t at = probe.tail.find(kEnd); at != probe.tail.npos; at = probe.tail.find(kEnd, at + 1)) {
    const auto record = probe.tail.substr(at);
    if (record.size() >= kEndSize && comment_length(record) == record.size() - kEndSize) return Match::maybe;
  }
  return Match::no;
}

}  // namespace weightfs
