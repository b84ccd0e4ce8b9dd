#include "report/compare/bytes.h"

#include <algorithm>
#include <cstring>

namespace weightfs::compare {
namespace {

// Two of these fit into the cache of a processor.
constexpr size_t kBuffer = 256 * 1024;

Result<void> fill(const Source& source, uint64_t offset, std::span<std::byte> out, ByteRange expected) {
  if (TRY(source.read_ahead(offset, out, expected)) < out.size())
    return failure(Code::corrupt, "the bytes end before their size");
  return {};
}

}  // namespace

tl::expected<bool, SideError> are_equal(const Source& a, const Source& b, ByteRange range,
                                        const CountBytes& count_bytes) {
  const auto size = static_cast<size_t>(std::min<uint64_t>(kBuffer, range.to - range.from));
  std::vector<std::byte> buffer_a(size);
  std::vector<std::byte> buffer_b(size);
  for (uint64_t offset = range.from; offset < range.to;) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(size, range.to - offset));
    if (auto got = fill(a, offset, std::span(buffer_a).first(count), range); !got)
      return tl::unexpected(SideError{Side::a, std::move(got.error())});
    if (auto got = fill(b, offset, std::span(buffer_b).first(count), range); !got)
      return tl::unexpected(SideError{Side::b, std::move(got.error())});
    count_bytes(count);
    if (std::memcmp(buffer_a.data(), buffer_b.data(), count) != 0) return false;
    offset += count;
  }
  return true;
}

Result<Digest> digest_of(const Source& source, const CountBytes& count_bytes) {
  Sha256 sum;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(kBuffer, source.size())));
  for (uint64_t offset = 0; offset < source.size();) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(buffer.size(), source.size() - offset));
    const auto bytes = std::span(buffer).first(count);
    TRY_VOID(fill(source, offset, bytes, {0, source.size()}));
    sum.update(bytes);
    count_bytes(count);
    offset += count;
  }
  return sum.finish();
}

}  // namespace weightfs::compare
