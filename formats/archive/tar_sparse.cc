#include "formats/archive/tar_sparse.h"

#include <algorithm>

namespace weightfs::archive::tar {
namespace {

class SparseSource final : public Source {
 public:
  SparseSource(SourcePtr tar, uint64_t size, std::vector<Piece> pieces, std::string identity)
      : tar_(std::move(tar)), size_(size), pieces_(std::move(pieces)), identity_(std::move(identity)) {}

  uint64_t size() const override { return size_; }
  uint64_t occupied() const override {
    uint64_t sum = 0;
    for (const Piece& piece : pieces_) sum += piece.size;
    return std::min(sum, tar_->occupied());
  }
  std::string identity() const override { return identity_; }
  std::shared_ptr<const void> keep_cached() const override { return tar_->keep_cached(); }
  VerifiedBy verification() const override { return tar_->verification(); }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
    std::ranges::fill(out, std::byte{0});
    const uint64_t end = offset + out.size();
    // The first piece that ends behind the beginning.
    auto piece = std::partition_point(pieces_.begin(), pieces_.end(),
                                      [&](const Piece& p) { return p.begin + p.size <= offset; });
    for (; piece != pieces_.end() && piece->begin < end; ++piece) {
      const uint64_t from = std::max(offset, piece->begin);
      const uint64_t to = std::min(end, piece->begin + piece->size);
      TRY_VOID(read_exact(*tar_, piece->stored_at + (from - piece->begin), out.subspan(from - offset, to - from)));
    }
    return out.size();
  }

 private:
  SourcePtr tar_;
  uint64_t size_;
  std::vector<Piece> pieces_;
  std::string identity_;
};

}  // namespace

SourcePtr sparse_member(SourcePtr tar, uint64_t size, std::vector<Piece> pieces, std::string identity) {
  return std::make_shared<SparseSource>(std::move(tar), size, std::move(pieces), std::move(identity));
}

}  // namespace weightfs::archive::tar
