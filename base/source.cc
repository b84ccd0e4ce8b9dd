#include "base/source.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/download_scope.h"
#include "base/text.h"

namespace weightfs {
namespace {

tl::unexpected<Error> ends_too_early(uint64_t size, uint64_t offset, uint64_t needed) {
  return failure(Code::corrupt,
                 fmt::format("ends at byte {}, {} byte{} needed at {}", size, needed, needed == 1 ? "" : "s", offset));
}

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<Place> place(uint64_t offset, Opens) const override {
    return Place{.length = bytes_after(offset), .is_ready = true};
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t count = bytes_inside(size(), offset, out.size());
    if (count > 0) std::memcpy(out.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  std::string bytes_;
};

class ConcatSource final : public Source {
 public:
  explicit ConcatSource(std::vector<SourcePtr> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) ends_.push_back(size() + part->size());
  }
  uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_parts(offset, out, [](const Source& part, uint64_t, uint64_t within, std::span<std::byte> wanted) {
      return read_exact(part, within, wanted);
    });
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    const auto read_part = [&](const Source& part, uint64_t begin, uint64_t within,
                               std::span<std::byte> wanted) -> Result<void> {
      if (TRY(part.read_ahead(within, wanted, in_part(part, begin, expected))) < wanted.size())
        return failure(Code::corrupt, "ends too early");
      return {};
    };
    return read_parts(offset, out, read_part);
  }
  Result<void> prefetch(ByteRange range) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const ByteRange inside = in_part(*parts_[i], ends_[i] - parts_[i]->size(), range);
      if (inside.from < inside.to) TRY_VOID(parts_[i]->prefetch(inside));
    }
    return {};
  }
  Result<CachedBytes> cached(ByteRange range) const override {
    CachedBytes sum;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const ByteRange inside = in_part(*parts_[i], ends_[i] - parts_[i]->size(), range);
      if (inside.from < inside.to) sum += TRY(parts_[i]->cached(inside));
    }
    return sum;
  }
  Result<Place> place(uint64_t offset, Opens opens) const override {
    if (parts_.empty()) return Place{.is_ready = true};
    const auto end = std::min(std::upper_bound(ends_.begin(), ends_.end(), offset), std::prev(ends_.end()));
    const Source& part = *parts_[static_cast<size_t>(end - ends_.begin())];
    return part.place(offset - (*end - part.size()), opens);
  }
  std::shared_ptr<const void> keep_cached() const override {
    auto held = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    for (const auto& part : parts_)
      if (auto one = part->keep_cached()) held->push_back(std::move(one));
    return held->empty() ? nullptr : held;
  }
  VerifiedBy verification() const override {
    auto worst = VerifiedBy::unknown;
    for (const SourcePtr& part : parts_) worst = worse(worst, part->verification());
    return worst;
  }
  SourcePtr verified_file() const override {
    std::vector<SourcePtr> direct;  // empty until there is one
    for (size_t i = 0; i < parts_.size(); ++i) {
      SourcePtr part = parts_[i]->verified_file();
      if (part == nullptr) continue;
      if (direct.empty()) direct = parts_;
      direct[i] = std::move(part);
    }
    return direct.empty() ? nullptr : concat(std::move(direct));
  }

 private:
  // The bytes of the range that are in the part, which begins at `begin`.
  static ByteRange in_part(const Source& part, uint64_t begin, ByteRange range) {
    const uint64_t from = std::clamp(range.from, begin, begin + part.size());
    return {from - begin, std::clamp(range.to, from, begin + part.size()) - begin};
  }

  // Calls `read_part` with each part that has bytes of the range, the part's offset, and the offset in the part.
  template <class ReadPart>
  Result<size_t> read_parts(uint64_t offset, std::span<std::byte> out, ReadPart read_part) const {
    size_t done = 0;
    auto end = std::upper_bound(ends_.begin(), ends_.end(), offset);
    for (; done < out.size() && end != ends_.end(); ++end) {
      const Source& part = *parts_[static_cast<size_t>(end - ends_.begin())];
      const uint64_t begin = *end - part.size();
      const uint64_t within = offset + done - begin;
      const auto wanted = out.subspan(done, bytes_inside(part.size(), within, out.size() - done));
      TRY_VOID(read_part(part, begin, within, wanted));
      done += wanted.size();
    }
    return done;
  }

  std::vector<SourcePtr> parts_;
  std::vector<uint64_t> ends_;
};

class LazySource final : public Source {
 public:
  static constexpr uint64_t kMaxDeclared = 256 << 20;

  LazySource(uint64_t size, Later<SourcePtr> made, SourcePtr unverified)
      : size_(size), made_(std::move(made)), unverified_(std::move(unverified)) {}
  uint64_t size() const override { return size_; }
  // The size is only declared until the source is made.
  uint64_t occupied() const override {
    const auto source = made_.peek();
    return source ? (*source)->occupied() : std::min(size_, kMaxDeclared);
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return TRY(made())->read(offset, out);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return TRY(made())->read_ahead(offset, out, expected);
  }
  Result<void> prefetch(ByteRange range) const override { return TRY(made())->prefetch(range); }
  Result<CachedBytes> cached(ByteRange range) const override { return TRY(made())->cached(range); }
  Result<Place> place(uint64_t offset, Opens opens) const override {
    const auto source = made_.peek();
    return source && (*source)->size() == size_ ? (*source)->place(offset, opens) : Source::place(offset, opens);
  }
  std::string identity() const override {
    const auto source = made_.peek();
    return source ? (*source)->identity() : "";
  }
  std::shared_ptr<const void> keep_cached() const override {
    const auto source = made_.peek();
    return source ? (*source)->keep_cached() : nullptr;
  }
  VerifiedBy verification() const override {
    const auto source = made_.peek();
    return source ? (*source)->verification() : VerifiedBy::unknown;
  }
  SourcePtr verified_file() const override {
    const auto source = made_.peek();
    return source && (*source)->size() == size_ ? (*source)->verified_file() : nullptr;
  }
  SourcePtr unverified() const override {
    if (unverified_ != nullptr) return unverified_;
    const auto source = made();
    return source ? (*source)->unverified() : nullptr;
  }

 private:
  Result<SourcePtr> made() const {
    SourcePtr source = TRY(made_.get());
    if (source->size() != size_)
      return failure(Code::io, fmt::format("produced {} bytes, expected {}", source->size(), size_));
    return source;
  }

  uint64_t size_;
  Later<SourcePtr> made_;
  SourcePtr unverified_;
};

}  // namespace

CachedBytes in_proportion(const CachedBytes& cached, uint64_t stored, uint64_t made) {
  const auto of_made = [&](uint64_t bytes) {
    if (bytes >= stored || made == 0) return made;
    const double share = static_cast<double>(bytes) / static_cast<double>(stored);
    return std::min(static_cast<uint64_t>(share * static_cast<double>(made)), made - 1);
  };
  return {of_made(cached.now), of_made(cached.before)};
}

std::string_view to_text(VerifiedBy verification) {
  switch (verification) {
    case VerifiedBy::mismatch:
      return "mismatch";
    case VerifiedBy::unpinned:
    case VerifiedBy::transport:
      return "transport";
    case VerifiedBy::blocks:
      return "blocks";
    case VerifiedBy::whole:
      return "whole";
    case VerifiedBy::unknown:
      break;
  }
  return "";
}

VerifiedBy worse(VerifiedBy a, VerifiedBy b) {
  if (a == VerifiedBy::unknown || b == VerifiedBy::unknown) return std::max(a, b);
  return std::min(a, b);
}

Result<void> Source::prefetch(ByteRange range) const {
  std::byte last;
  if (range.from < range.to && !DownloadScope::is_active()) TRY(read(range.to - 1, std::span(&last, 1)));
  return {};
}

Result<Place> Source::place(uint64_t offset, Opens) const { return Place{.length = bytes_after(offset)}; }

uint64_t Source::bytes_after(uint64_t offset) const { return size() - std::min(offset, size()); }

size_t bytes_inside(uint64_t size, uint64_t offset, size_t wanted) {
  return offset >= size ? 0 : static_cast<size_t>(std::min<uint64_t>(wanted, size - offset));
}

Result<void> check_inside(const Source& source, uint64_t offset, uint64_t size) {
  if (offset <= source.size() && size <= source.size() - offset) return {};
  return ends_too_early(source.size(), offset, size);
}

SourcePtr in_memory(std::string bytes) { return std::make_shared<MemorySource>(std::move(bytes)); }

Result<Slice> slice(SourcePtr whole, uint64_t offset, uint64_t size) {
  const uint64_t there = whole->size();
  if (offset > there || size > there - offset)
    return failure(Code::corrupt,
                   fmt::format("{} bytes at offset {} are outside the source of {} bytes", size, offset, there));
  return Slice(std::move(whole), offset, size);
}

Result<size_t> Slice::read(uint64_t offset, std::span<std::byte> out) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->read(offset_ + std::min(offset, size_), out.first(bytes_inside(size_, offset, out.size())));
}

Result<size_t> Slice::read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->read_ahead(offset_ + std::min(offset, size_), out.first(bytes_inside(size_, offset, out.size())),
                            in_whole(expected));
}

Result<void> Slice::prefetch(ByteRange range) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->prefetch(in_whole(range));
}

Result<CachedBytes> Slice::cached(ByteRange range) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->cached(in_whole(range));
}

ByteRange Slice::in_whole(ByteRange range) const {
  return {offset_ + std::min(range.from, size_), offset_ + std::min(range.to, size_)};
}

Result<Place> Slice::place(uint64_t offset, Opens opens) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  const uint64_t at = std::min(offset, size_);
  Place place = TRY(whole_->place(offset_ + at, opens));
  place.length = std::min(place.length, size_ - at);
  return place;
}

std::string Slice::identity() const {
  const std::string outer = refused() ? "" : whole_->identity();
  return outer.empty() ? "" : fmt::format("{} [{}+{}]", outer, offset_, size_);
}

VerifiedBy Slice::verification() const { return refused() ? VerifiedBy::unknown : whole_->verification(); }

SourcePtr Slice::verified_file() const {
  SourcePtr whole = refused() ? nullptr : whole_->verified_file();
  return whole == nullptr ? nullptr : SourcePtr(new Slice(std::move(whole), offset_, size_));
}

SourcePtr concat(std::vector<SourcePtr> parts) { return std::make_shared<ConcatSource>(std::move(parts)); }

SourcePtr lazy(uint64_t size, Later<SourcePtr> made, SourcePtr unverified) {
  return std::make_shared<LazySource>(size, std::move(made), std::move(unverified));
}

Result<void> read_exact(const Source& source, uint64_t offset, std::span<std::byte> out) {
  const size_t got = TRY(source.read(offset, out));
  return got == out.size() ? Result<void>() : ends_too_early(source.size(), offset, out.size());
}

Result<void> read_exact(const Source& source, uint64_t offset, std::span<std::byte> out, ByteRange expected) {
  const size_t got = TRY(source.read_ahead(offset, out, expected));
  return got == out.size() ? Result<void>() : ends_too_early(source.size(), offset, out.size());
}

Result<std::string> read_text(const Source& source, uint64_t offset, uint64_t size) {
  TRY_VOID(check_inside(source, offset, size));
  std::string text(size, '\0');
  TRY_VOID(read_exact(source, offset, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace weightfs
