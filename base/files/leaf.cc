#include "base/files/leaf.h"

#include <algorithm>
#include <vector>

#include "base/files/no_passthrough.h"

namespace weightfs {
namespace {

Result<void> read_each(const Source& source, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) TRY_VOID(read_exact(source, piece.offset, piece.out));
  return {};
}

// The leaf that has all bytes of the source, at its place.
bool is_in_one_leaf(const Source& source, const Place& first) {
  return first.leaf != nullptr && first.length == source.size();
}

}  // namespace

Result<Place> Leaf::place(uint64_t offset, Opens) const {
  return Place{.leaf = this, .offset = std::min(offset, size()), .length = bytes_after(offset), .is_ready = is_ready()};
}

Result<std::optional<MappedBytes>> Leaf::map(uint64_t, size_t) const { return std::nullopt; }

void Leaf::advise(ByteRange, Advice) const {}

Result<void> Leaf::read_pieces(std::span<const Piece> pieces) const { return read_each(*this, pieces); }

Result<Descriptor> Leaf::open_whole_file() const { return failure(NoPassthrough::not_local); }

bool is_ready(const Source& source) {
  for (uint64_t at = 0;;) {
    const auto place = source.place(at, Opens::nothing);
    if (!place || !place->is_ready) return false;
    at += place->length;
    if (place->length == 0 || at >= source.size()) return true;
  }
}

std::optional<Extent> extent_of(const Source& source) {
  const auto place = source.place(0, Opens::files);
  if (!place || !is_in_one_leaf(source, *place)) return std::nullopt;
  const auto whole = place->leaf->extent();
  if (!whole) return std::nullopt;
  return Extent{whole->fd, whole->offset + place->offset, place->length, whole->open};
}

Result<std::optional<MappedBytes>> map_bytes(const Source& source, uint64_t offset, size_t size) {
  const Place place = TRY(source.place(offset, Opens::files));
  const size_t count = bytes_inside(source.size(), offset, size);
  if (place.leaf == nullptr || count > place.length) return std::nullopt;
  return place.leaf->map(place.offset, count);
}

void advise(const Source& source, ByteRange range, Advice advice) {
  const uint64_t to = std::min(range.to, source.size());
  for (uint64_t at = range.from; at < to;) {
    const auto place = source.place(at, Opens::nothing);
    if (!place || place->length == 0) return;
    const uint64_t count = std::min(place->length, to - at);
    if (place->leaf != nullptr) place->leaf->advise({place->offset, place->offset + count}, advice);
    at += count;
  }
}

Result<void> read_pieces(const Source& source, std::span<const Piece> pieces) {
  if (pieces.empty()) return {};
  const uint64_t first = std::ranges::min(pieces, {}, &Piece::offset).offset;
  const Place place = TRY(source.place(first, Opens::files));
  std::vector<Piece> in_leaf;
  in_leaf.reserve(pieces.size());
  bool is_in_place = place.leaf != nullptr;
  for (const Piece& piece : pieces) {
    TRY_VOID(check_inside(source, piece.offset, piece.out.size()));
    const uint64_t after = piece.offset - first;
    is_in_place = is_in_place && after + piece.out.size() <= place.length;
    in_leaf.push_back({place.offset + after, piece.out});
  }
  return is_in_place ? place.leaf->read_pieces(in_leaf) : read_each(source, pieces);
}

Result<Descriptor> open_whole_file(const Source& source) {
  const Place place = TRY(source.place(0, Opens::files));
  if (!is_in_one_leaf(source, place)) return failure(NoPassthrough::not_local);
  if (place.leaf->size() != source.size()) return failure(NoPassthrough::part_of_file);
  return place.leaf->open_whole_file();
}

}  // namespace weightfs
