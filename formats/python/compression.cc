#include "formats/python/compression.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "formats/archive/tar.h"
#include "formats/codec/codec.h"
#include "formats/codec/codec_meter.h"

namespace weightfs::python {
namespace {

using namespace std::string_view_literals;

struct Row {
  std::string_view magic;
  Compression compression;
};

// The costs are those of tars.
constexpr auto kRows = std::to_array<Row>({
    {"\x1F\x8B"sv, {"gzip", codec::gunzip_stream, 1}},
    {"BZh"sv, {"bzip2", archive::tar::bzip2_stream, 7}},
    {"\x5D\x00\x00"sv, {"lzma", codec::lzma_alone_stream, 4}},
    {"\xFD\x37\x7A\x58\x5A\x00"sv, {"xz", codec::xz_stream, 4}},
    {"\x04\x22\x4D\x18"sv, {"lz4", archive::tar::lz4_stream, 1}},
    {"\x28\xB5\x2F\xFD"sv, {"zstd", codec::zstd_stream, 1}},
});

constexpr Compression kZlib{"zlib", codec::zlib_stream, 1};

// RFC 1950, section 2.2: Deflate, a window of at most 32 KiB, no dictionary, and a checksum of both bytes.
bool begins_zlib(std::string_view head) {
  if (head.size() < 2) return false;
  const auto method = static_cast<uint8_t>(head[0]);
  const auto flags = static_cast<uint8_t>(head[1]);
  return method == 0x78 && (flags & 0x20) == 0 && (method * 256 + flags) % 31 == 0;
}

// "ZF", then the length as hexadecimal digits padded with spaces: 19 characters, or 20 by joblib up to 0.8.4 in Python
// 2.
std::optional<Compression> old_zlib(std::string_view head) {
  constexpr std::string_view kMagic = "ZF0x";
  if (!head.starts_with(kMagic)) return std::nullopt;
  for (const uint64_t begin : {uint64_t{21}, uint64_t{22}}) {
    if (head.size() < begin + 2 || !begins_zlib(head.substr(begin))) continue;
    Compression compression = kZlib;
    compression.begin = begin;
    return compression;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Compression> compression_of(std::string_view head) {
  const auto* const row = std::ranges::find_if(kRows, [&](const Row& r) { return head.starts_with(r.magic); });
  if (row != kRows.end()) return row->compression;
  if (begins_zlib(head)) return kZlib;
  return old_zlib(head);
}

std::string first_decoded(std::string_view head, const Compression& compression, size_t most) {
  const auto stream =
      compression.decompress(in_memory(std::string(head.substr(std::min<size_t>(head.size(), compression.begin)))));
  std::string bytes(most, '\0');
  size_t filled = 0;
  while (stream && filled < most) {
    const auto got = (*stream)->next(std::as_writable_bytes(std::span(bytes)).subspan(filled));
    if (!got || *got == 0) break;
    filled += *got;
  }
  bytes.resize(filled);
  return bytes;
}

Result<SourcePtr> decompressed(const SourcePtr& file, const Compression& compression, const Container& container) {
  const Slice content = TRY(slice(file, compression.begin, file->size() - std::min(file->size(), compression.begin)));
  const auto charge = std::make_shared<codec::DecodeCharge>(container.budget);
  const codec::DecodeCharge::Active active(charge);
  BlobProducer producer{.name = container.name, .depth = container.depth + 1};
  if (const std::string identity = file->identity(); !identity.empty())
    producer.key = fmt::format("{} decoded from {}", identity, compression.name);
  producer.start = [charge, compression, source = std::make_shared<const Slice>(content)] {
    return codec::charge_decoding(charge, source, compression.decompress, compression.output_cost);
  };
  return container.blobs->materialize(std::move(producer));
}

}  // namespace weightfs::python
