#include "protocols/s3/stated_hash.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "base/download_scope.h"
#include "base/text.h"
#include "base/values/base64.h"

namespace weightfs::s3 {
namespace {

// A product of polynomials modulo that of CRC-32C; the highest bit is the coefficient of x^0.
uint32_t multiplied(uint32_t a, uint32_t b) {
  constexpr uint32_t kPolynomial = 0x82F63B78;
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// The CRC of bytes with the CRC `first`, and of `size` more bytes with the CRC `second`: zeros multiply by x^8 each.
uint32_t joined(uint32_t first, uint32_t second, uint64_t size) {
  uint32_t power = uint32_t{1} << 23;  // x^8
  uint32_t shift = uint32_t{1} << 31;  // x^0
  for (; size != 0; size >>= 1) {
    if ((size & 1) != 0) shift = multiplied(power, shift);
    power = multiplied(power, power);
  }
  return multiplied(shift, first) ^ second;
}

void add_hash(StatedHash& found, std::string_view text) {
  constexpr std::string_view kCrc = "crc32c=", kMd5 = "md5=";
  if (text.starts_with(kCrc)) {
    const auto bytes = from_base64(text.substr(kCrc.size()));
    if (!bytes || bytes->size() != sizeof(uint32_t)) return;
    uint32_t crc = 0;
    for (const char c : *bytes) crc = crc << 8 | static_cast<uint8_t>(c);
    found.crc32c = crc;
  } else if (text.starts_with(kMd5)) {
    const auto bytes = from_base64(text.substr(kMd5.size()));
    Md5 sum;
    if (!bytes || bytes->size() != sizeof(sum.bytes)) return;
    std::memcpy(sum.bytes.data(), bytes->data(), bytes->size());
    found.md5 = sum;
  }
}

class ComparedSource final : public Source {
 public:
  ComparedSource(SourcePtr bytes, uint32_t crc32c, std::string shown, std::function<void()> on_mismatch)
      : bytes_(std::move(bytes)),
        crc32c_(crc32c),
        shown_(std::move(shown)),
        on_mismatch_(std::move(on_mismatch)),
        read_(bytes_->size()) {}

  uint64_t size() const override { return bytes_->size(); }
  uint64_t occupied() const override { return bytes_->occupied(); }
  std::string identity() const override { return bytes_->identity(); }
  VerifiedBy verification() const override { return is_refused_ ? VerifiedBy::mismatch : bytes_->verification(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    TRY_VOID(check());
    const size_t count = TRY(bytes_->read(offset, out));
    TRY_VOID(note(offset, out.first(count)));
    return count;
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    TRY_VOID(check());
    const size_t count = TRY(bytes_->read_ahead(offset, out, expected));
    TRY_VOID(note(offset, out.first(count)));
    return count;
  }
  // A command that downloads the whole reads nothing.
  Result<void> prefetch(ByteRange range) const override {
    TRY_VOID(check());
    TRY_VOID(bytes_->prefetch(range));
    if (DownloadScope::is_active()) return {};
    constexpr size_t kPiece = 1 << 20;
    std::vector<std::byte> piece(std::min<uint64_t>(kPiece, size()));
    for (uint64_t at = range.from; at < std::min(range.to, size()) && !is_compared_;) {
      const uint64_t left = std::min(range.to, size()) - at;
      const size_t count = TRY(read(at, std::span(piece).first(std::min<uint64_t>(left, piece.size()))));
      if (count == 0) break;
      at += count;
    }
    return check();
  }
  Result<CachedBytes> cached(ByteRange range) const override { return bytes_->cached(range); }
  std::shared_ptr<const void> keep_cached() const override { return bytes_->keep_cached(); }

 private:
  Result<void> check() const {
    return is_refused_ ? failure(Code::mismatch, fmt::format("{}: {}", shown_, kOtherHash)) : Result<void>();
  }

  Result<void> note(uint64_t offset, std::span<const std::byte> bytes) const {
    if (!is_compared_ && add(offset, bytes)) on_mismatch_();
    return check();
  }

  // Whether these bytes complete a comparison that fails: at most once.
  bool add(uint64_t offset, std::span<const std::byte> bytes) const {
    const std::scoped_lock lock(mutex_);
    if (is_compared_) return false;
    read_.add(offset, bytes);
    const auto whole = read_.whole();
    if (!whole) return false;
    is_refused_ = *whole != crc32c_;
    is_compared_ = true;
    return is_refused_;
  }

  const SourcePtr bytes_;
  const uint32_t crc32c_;
  const std::string shown_;
  const std::function<void()> on_mismatch_;
  mutable std::atomic<bool> is_compared_ = false;
  mutable std::atomic<bool> is_refused_ = false;
  mutable std::mutex mutex_;  // guards read_
  mutable CrcOfRanges read_;
};

}  // namespace

bool StatedHash::is_of(std::string_view bytes) const {
  const auto octets = std::as_bytes(std::span(bytes));
  if (crc32c) return weightfs::crc32c(octets) == *crc32c;  // without MD5, which FIPS mode forbids
  if (!md5) return true;
  Md5Sum sum;
  sum.update(octets);
  return sum.finish() == *md5;
}

StatedHash stated_hash(const http::Response& response) {
  const std::string_view stored = response.header("x-goog-stored-content-encoding");
  if (!stored.empty() && stored != "identity") return {};
  StatedHash found;
  for (const auto& [name, value] : response.headers) {
    if (name != "x-goog-hash") continue;
    for (std::string_view rest = value; !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      add_hash(found, trimmed(one));
    }
  }
  return found;
}

void CrcOfRanges::add(uint64_t offset, std::span<const std::byte> bytes) {
  const uint64_t end = offset + bytes.size();
  for (uint64_t at = offset; at < end;) {
    const auto next = runs_.upper_bound(at);
    auto run = next == runs_.begin() ? runs_.end() : std::prev(next);
    if (run != runs_.end() && run->second.end > at) {
      at = run->second.end;
      continue;
    }
    const uint64_t to = next == runs_.end() ? end : std::min(end, next->first);
    const auto piece = bytes.subspan(at - offset, to - at);
    if (run != runs_.end() && run->second.end == at) {
      run->second = {to, crc32c(run->second.crc, piece)};
    } else {
      if (runs_.size() >= kMaxRuns) return;
      run = runs_.emplace(at, Run{to, crc32c(piece)}).first;
    }
    if (next != runs_.end() && next->first == to) {
      run->second = {next->second.end, joined(run->second.crc, next->second.crc, next->second.end - to)};
      runs_.erase(next);
    }
    at = to;
  }
}

std::optional<uint32_t> CrcOfRanges::whole() const {
  if (size_ == 0) return 0;
  const auto first = runs_.begin();
  if (first == runs_.end() || first->first != 0 || first->second.end != size_) return std::nullopt;
  return first->second.crc;
}

SourcePtr compared(SourcePtr bytes, const StatedHash& stated, std::string shown, std::function<void()> on_mismatch) {
  if (!stated.crc32c) return bytes;
  return std::make_shared<ComparedSource>(std::move(bytes), *stated.crc32c, std::move(shown), std::move(on_mismatch));
}

}  // namespace weightfs::s3
