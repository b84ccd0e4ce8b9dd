#include "fs/views/sequence.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

namespace weightfs::views {
namespace {

// A held file is open. The files of a model with more are opened again when they are read.
constexpr size_t kMaxHeld = 256;

class Sequence final : public Source {
 public:
  Sequence(FileLayoutPtr layout, OpenPiece open) : layout_(std::move(layout)), open_(std::move(open)) {}

  uint64_t size() const override { return layout_->size(); }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_pieces_of(offset, out, [](const Source& piece, uint64_t, uint64_t within, std::span<std::byte> into) {
      return read_exact(piece, within, into);
    });
  }

  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    const auto read_piece = [&](const Source& piece, uint64_t begin, uint64_t within,
                                std::span<std::byte> into) -> Result<void> {
      const ByteRange inside = in_piece(piece, begin, expected);
      if (TRY(piece.read_ahead(within, into, inside)) < into.size()) return failure(Code::corrupt, "ends too early");
      return {};
    };
    return read_pieces_of(offset, out, read_piece);
  }

  Result<void> prefetch(ByteRange range) const override {
    const uint64_t to = std::min(range.to, size());
    for (size_t i = first_piece(range.from); i < layout_->ends.size() && layout_->begin(i) < to; ++i) {
      const SourcePtr piece = TRY(opened(i));
      const ByteRange inside = in_piece(*piece, layout_->begin(i), range);
      if (inside.from < inside.to) TRY_VOID(piece->prefetch(inside));
    }
    return {};
  }

  Result<CachedBytes> cached(ByteRange range) const override {
    CachedBytes sum;
    const uint64_t to = std::min(range.to, size());
    for (size_t i = first_piece(range.from); i < layout_->ends.size() && layout_->begin(i) < to; ++i) {
      const SourcePtr piece = TRY(opened(i));
      sum += TRY(piece->cached(in_piece(*piece, layout_->begin(i), range)));
    }
    return sum;
  }

  // In one piece, or in the zeros behind it. It is not known whether reads wait: that would be asked of many pieces.
  Result<Place> place(uint64_t offset, Opens opens) const override {
    if (layout_->ends.empty()) return Source::place(offset, opens);
    const size_t i = std::min(first_piece(offset), layout_->ends.size() - 1);
    const SourcePtr piece = TRY(opened(i));
    const uint64_t within = offset - layout_->begin(i);
    if (within >= piece->size() && offset < size()) return Place{.length = layout_->ends[i] - offset};
    Place place = TRY(piece->place(within, opens));
    place.is_ready = false;
    place.owner = std::make_shared<std::pair<SourcePtr, std::shared_ptr<const void>>>(piece, std::move(place.owner));
    return place;
  }

  std::shared_ptr<const void> keep_cached() const override {
    auto held = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    const std::set<SourcePtr> all = sources();
    if (all.size() > kMaxHeld) return nullptr;
    for (const SourcePtr& source : all)
      if (auto one = source->keep_cached()) held->push_back(std::move(one));
    return held->empty() ? nullptr : held;
  }

  VerifiedBy verification() const override {
    auto worst = VerifiedBy::unknown;
    for (const SourcePtr& source : sources()) worst = worse(worst, source->verification());
    return worst;
  }

 private:
  // The bytes of the range that are in the piece, which begins at `begin`.
  static ByteRange in_piece(const Source& piece, uint64_t begin, ByteRange range) {
    const uint64_t from = std::clamp(range.from, begin, begin + piece.size());
    return {from - begin, std::clamp(range.to, from, begin + piece.size()) - begin};
  }

  // The sources of the tensors, each once.
  std::set<SourcePtr> sources() const {
    std::set<SourcePtr> found;
    SourcePtr last;
    for (size_t i = 0; i < layout_->tensors.size(); ++i) {
      const TensorView tensor = layout_->tensor(i);
      if (tensor.source.whole() != last) found.insert(last = tensor.source.whole());
    }
    return found;
  }

  size_t first_piece(uint64_t offset) const {
    const auto& ends = layout_->ends;
    return static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), offset) - ends.begin());
  }

  Result<SourcePtr> opened(size_t position) const {
    SourcePtr piece = TRY(open_(position));
    const uint64_t size = layout_->ends[position] - layout_->begin(position);
    if (piece->size() > size)
      return failure(Code::io, fmt::format("{} bytes of a tensor, {} expected", piece->size(), size));
    return piece;
  }

  // Calls `read_piece` with each piece that has bytes of the range, its offset, and the offset in it.
  template <class ReadPiece>
  Result<size_t> read_pieces_of(uint64_t offset, std::span<std::byte> out, const ReadPiece& read_piece) const {
    size_t done = 0;
    for (size_t i = first_piece(offset); done < out.size() && i < layout_->ends.size(); ++i) {
      const uint64_t within = offset + done - layout_->begin(i);
      const uint64_t left = layout_->ends[i] - offset - done;
      if (left == 0) continue;
      const SourcePtr piece = TRY(opened(i));
      const auto target = out.subspan(done, static_cast<size_t>(std::min<uint64_t>(left, out.size() - done)));
      const uint64_t stored = piece->size() - std::min(within, piece->size());
      const auto bytes = target.first(static_cast<size_t>(std::min<uint64_t>(stored, target.size())));
      if (!bytes.empty()) TRY_VOID(read_piece(*piece, layout_->begin(i), within, bytes));
      std::fill(target.begin() + static_cast<std::ptrdiff_t>(bytes.size()), target.end(), std::byte{0});
      done += target.size();
    }
    return done;
  }

  FileLayoutPtr layout_;
  OpenPiece open_;
};

}  // namespace

SourcePtr sequence(FileLayoutPtr layout, OpenPiece open) {
  return std::make_shared<Sequence>(std::move(layout), std::move(open));
}

SourcePtr sequence(const FileLayoutPtr& layout) {
  return sequence(layout, [layout](size_t position) -> Result<SourcePtr> {
    return bytes_in_file(*layout->model, layout->types, layout->tensors[position]);
  });
}

}  // namespace weightfs::views
