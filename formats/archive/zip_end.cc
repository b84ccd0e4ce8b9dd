#include "formats/archive/zip_end.h"

#include <fmt/core.h>

#include <algorithm>
#include <concepts>

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

// Programs read different archives in this file.
tl::unexpected<Error> ambiguous(std::string_view what, uint64_t one, uint64_t other) {
  return failure(Code::corrupt, fmt::format("zip: two {}, at bytes {} and {}: programs differ in which one they read",
                                            what, one, other));
}

bool is_empty(const Claim& claim) { return claim.members == 0 && claim.size == 0; }

// The claim as offsets in the file if its directory is where its offset says, in a zip that begins at `begin`.
Result<std::optional<ZipEnd>> at_offset(const Source& zip, const Claim& claim, uint64_t begin) {
  if (begin > claim.position || claim.offset > claim.position - begin) return std::nullopt;
  const uint64_t directory = begin + claim.offset;
  if (claim.size > claim.position - directory) return std::nullopt;
  const bool stands = is_empty(claim) ? directory == claim.position : TRY(stands_at(zip, directory, kDirectory));
  return stands ? std::optional(ZipEnd{begin, directory, 0, claim.members}) : std::nullopt;
}

// The claim if its directory ends where the record begins, as Python's zipfile takes it: data before the zip shift it.
Result<std::optional<ZipEnd>> before_record(const Source& zip, const Claim& claim) {
  if (claim.size > claim.position) return std::nullopt;
  const uint64_t directory = claim.position - claim.size;
  if (!is_empty(claim) && !TRY(stands_at(zip, directory, kDirectory))) return std::nullopt;
  if (claim.offset <= directory) return ZipEnd{directory - claim.offset, directory, 0, claim.members};
  if (is_empty(claim)) return std::nullopt;
  return failure(Code::corrupt, fmt::format("zip: its directory begins at byte {}, and its end record says {}",
                                            directory, claim.offset));
}

// Where the directory is; nothing if it is at neither place. Some writers leave a gap before the record. miniz (torch)
// takes the directory at the offset, Python the one before the record.
Result<std::optional<ZipEnd>> placed(const Source& zip, const Claim& claim, uint64_t begin) {
  const auto by_offset = TRY(at_offset(zip, claim, begin));
  const auto by_size = TRY(before_record(zip, claim));
  if (by_offset && by_size && by_offset->directory != by_size->directory)
    return ambiguous("directories", by_offset->directory, by_size->directory);
  return by_offset ? by_offset : by_size;
}

// Whether a number of the record is that of its zip64 record, or none. Programs differ in which one they use.
bool agrees(uint64_t number, uint64_t none, uint64_t number_64) { return number == none || number == number_64; }

// Reads the zip64 record of the locator at `position`: at its offset, or, shifted, right before the locator.
Result<std::optional<ZipEnd>> placed_64(const Source& zip, std::string_view locator, uint64_t position,
                                        const Claim& record) {
  const auto located = number_at<uint64_t>(locator, 8);
  if (position < kEnd64Size || located > position - kEnd64Size) return std::nullopt;
  const uint64_t before = position - kEnd64Size;
  const bool is_located = TRY(stands_at(zip, located, kEnd64)), is_before = TRY(stands_at(zip, before, kEnd64));
  if (!is_located && !is_before) return std::nullopt;
  if (is_located && is_before && located != before) return ambiguous("zip64 end records", located, before);
  const uint64_t at = is_located ? located : before;
  const Claim claim = claim_of_64(TRY(read_text(zip, at, kEnd64Size)), at);
  if (!agrees(record.members, UINT16_MAX, claim.members) || !agrees(record.size, UINT32_MAX, claim.size) ||
      !agrees(record.offset, UINT32_MAX, claim.offset))
    return failure(Code::corrupt, "zip: its end record and its zip64 end record contradict each other");
  return placed(zip, claim, at - located);
}

// Parses the end record at `at` of `tail`, the end of `zip`; nothing if no directory is where it says.
Result<std::optional<ZipEnd>> end_at(const Source& zip, std::string_view tail, size_t at) {
  const std::string_view record = tail.substr(at);
  const uint64_t position = zip.size() - record.size();
  const Claim claim = claim_of(record, position);
  const auto locator = tail.substr(0, at).substr(at - std::min(at, kLocatorSize));
  auto found = locator.starts_with(kLocator) && locator.size() == kLocatorSize
                   ? TRY(placed_64(zip, locator, position - kLocatorSize, claim))
                   : TRY(placed(zip, claim, 0));
  if (found) found->end = position + kEndSize;
  return found;
}

// Fails if an end record before the one at `last` has a comment that ends with the file, so that the other one is in
// it.
Result<void> check_no_other_end(const Source& zip, std::string_view tail, size_t last) {
  for (size_t at = tail.find(kEnd); at < last; at = tail.find(kEnd, at + 1)) {
    const std::string_view record = tail.substr(at);
    if (record.size() < kEndSize || comment_length(record) != record.size() - kEndSize) continue;
    const uint64_t before = zip.size() - tail.size();
    const auto other = end_at(zip, tail, at);
    if (!other && other.error().code != Code::corrupt) return tl::unexpected(other.error());
    if (!other || *other) return ambiguous("end records", before + at, before + last);
  }
  return {};
}

}  // namespace

Result<ZipEnd> find_zip_end(const Source& zip) {
  const uint64_t looked_at = std::min<uint64_t>(zip.size(), kLocatorSize + kEndSize + kMaxCommentLength);
  const std::string tail = TRY(read_text(zip, zip.size() - looked_at, looked_at));
  for (size_t at = tail.rfind(kEnd); at != tail.npos; at = at == 0 ? tail.npos : tail.rfind(kEnd, at - 1)) {
    if (tail.size() - at < kEndSize) continue;
    const auto end = TRY(end_at(zip, tail, at));
    if (!end) continue;
    if (comment_length(std::string_view(tail).substr(at)) > tail.size() - at - kEndSize)
      return failure(Code::corrupt, "zip: the file ends before its comment; interrupted download?");
    TRY_VOID(check_no_other_end(zip, tail, at));
    return *end;
  }
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
