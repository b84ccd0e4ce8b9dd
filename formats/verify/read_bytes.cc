#include "formats/verify/read_bytes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/blobs.h"
#include "base/files/leaf.h"
#include "formats/archive/zip.h"

namespace weightfs {
namespace {

// Whether reading all of a file compares its checksums: it is a compressed member, or a blob of a store.
Result<bool> is_compared_by_reading(const Source& source) {
  if (source.verification() != VerifiedBy::unknown) return true;
  const auto range = TRY(archive::stored_range_of(source));
  return range && range->method != archive::kStored;
}

}  // namespace

void ReadBytes::Ranges::add(uint64_t begin, uint64_t end) {
  auto next = ends.upper_bound(begin);
  if (next != ends.begin() && std::prev(next)->second >= begin) begin = (--next)->first;
  for (; next != ends.end() && next->first <= end; next = ends.erase(next)) end = std::max(end, next->second);
  ends.emplace(begin, end);
}

bool ReadBytes::add(const Source& source) {
  bool is_all_known = true;
  for (uint64_t at = 0; at < source.size();) {
    auto place = source.place(at, Opens::files);
    if (!place || place->length == 0) return false;
    at += place->length;
    is_all_known = is_all_known && place->leaf != nullptr;
    if (place->leaf == nullptr) continue;
    Ranges& of_leaf = ranges_[place->leaf];
    if (of_leaf.owner == nullptr) of_leaf.owner = std::move(place->owner);
    of_leaf.add(place->offset, place->offset + place->length);
  }
  return is_all_known;
}

bool ReadBytes::has_most_of(const Source& source) const {
  const auto place = source.place(0, Opens::nothing);
  if (!place || place->leaf == nullptr) return false;  // no file was opened for it
  uint64_t bytes = 0;
  if (const auto read = ranges_.find(place->leaf); read != ranges_.end())
    for (const auto& [begin, end] : read->second.ends) bytes += end - begin;
  return bytes >= source.size() / 2;
}

bool ReadBytes::has_any_of(const Source& source, uint64_t offset, uint64_t length) const {
  if (length == 0 || offset >= source.size()) return false;
  const auto place = source.place(offset, Opens::nothing);
  if (!place || place->leaf == nullptr) return false;  // no file was opened for it
  if (place->length < length) return true;             // the others may be in files that were read
  const auto read = ranges_.find(place->leaf);
  if (read == ranges_.end()) return false;
  const auto behind = read->second.ends.lower_bound(place->offset + place->length);
  return behind != read->second.ends.begin() && std::prev(behind)->second > place->offset;
}

bool is_read(const Later<SourcePtr>& file, bool is_structure, const ReadBytes* read) {
  const auto source = file.peek();
  if (!source) return false;  // nothing was read of it
  const Source& bytes = **source;
  if (read == nullptr || is_structure ? !is_ready(bytes) : !read->has_any_of(bytes, 0, bytes.size())) return false;
  const auto is_compared = is_compared_by_reading(bytes);
  return !is_compared || !*is_compared;
}

bool is_most_read(const Later<SourcePtr>& file, const ReadBytes* read) {
  const auto source = file.peek();
  if (!source) return false;
  const uint64_t size = (*source)->size();
  if (read != nullptr && size <= kMaxVerifiedFirst) return read->has_any_of(**source, 0, size);
  if (read != nullptr) return read->has_most_of(**source);
  const auto place = (*source)->place(0, Opens::nothing);
  return place && place->leaf != nullptr;
}

}  // namespace weightfs
