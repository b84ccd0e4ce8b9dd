// Detects tars, plain or compressed, and decodes compressed ones to blobs.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "formats/archive/tar.h"
#include "formats/codec/codec.h"
#include "formats/format.h"

namespace weightfs::archive::tar {
namespace {

// Parses a field: octal digits after optional spaces; nothing for anything else.
std::optional<uint64_t> octal(std::string_view field) {
  const size_t begin = std::min(field.find_first_not_of(' '), field.size());
  const size_t end = std::min(field.find_first_not_of("01234567", begin), field.size());
  if (begin == end || field.substr(end).find_first_not_of(std::string_view(" \0", 2)) != field.npos)
    return std::nullopt;
  uint64_t number = 0;
  for (const char digit : field.substr(begin, end - begin)) number = number * 8 + static_cast<uint64_t>(digit - '0');
  return number;
}

// Old writers computed the checksum of signed bytes.
bool has_right_checksum(std::string_view block) {
  const auto sum = octal(block.substr(148, 8));
  uint64_t of_unsigned = 0;
  uint64_t of_signed = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const char byte = i >= 148 && i < 156 ? ' ' : block[i];
    of_unsigned += static_cast<uint8_t>(byte);
    of_signed += static_cast<uint64_t>(static_cast<int8_t>(byte));
  }
  return sum && (*sum == of_unsigned || *sum == of_signed);
}

bool has_magic(std::string_view block) { return block.substr(257, 5) == "ustar"; }

// The formats before ustar have no magic number: check for a name padded with zeros, numbers, and a type that is a
// digit or zero.
bool is_plausible_v7(std::string_view block) {
  const std::string_view name = block.substr(0, 100);
  const std::string_view text = name.substr(0, name.find('\0'));
  const char type = block[156];
  return !text.empty() && !is_control(text) && name.find_first_not_of('\0', text.size()) == name.npos &&
         octal(block.substr(100, 8)) && octal(block.substr(124, 12)) && (type == '\0' || (type >= '0' && type <= '7'));
}

// The head is usually too short for compressions in blocks, which are all but gzip.
Match matches_decompressed(std::string_view head, const Compression& compression) {
  const auto stream = compression.decompress(in_memory(std::string(head)));
  const auto block = stream ? first_block(**stream) : tl::unexpected(stream.error());
  if (!block) return Match::maybe;
  return is_header(*block) ? Match::yes : Match::no;
}

// The costs are measured with data that compress well but are not all equal, and rounded up.
constexpr Compression kCompressions[] = {
    {"gzip", {"\x1F\x8B", 2}, codec::gunzip_stream, 1},
    {"xz", {"\xFD\x37\x7A\x58\x5A\0", 6}, codec::xz_stream, 4},
    {"zstd", {"\x28\xB5\x2F\xFD", 4}, codec::zstd_stream, 1},
    {"bzip2", {"BZh", 3}, bzip2_stream, 7},
};

template <class Fits>
const Compression* find_compression(const Fits& fits) {
  const auto* const row = std::find_if(std::begin(kCompressions), std::end(kCompressions), fits);
  return row == std::end(kCompressions) ? nullptr : row;
}

}  // namespace

bool is_header(std::string_view bytes) {
  if (bytes.size() < kBlock) return false;
  const std::string_view block = bytes.substr(0, kBlock);
  return has_right_checksum(block) && (has_magic(block) || is_plausible_v7(block));
}

const Compression* compression_of(std::string_view head) {
  return find_compression([&](const Compression& row) { return head.starts_with(row.magic); });
}

const Compression* compression_named(std::string_view name) {
  return find_compression([&](const Compression& row) { return row.name == name; });
}

void hide_access_lists(std::span<char> bytes, size_t most) {
  const std::string_view text(bytes.data(), bytes.size());
  // PAX: the key of another, unknown attribute. Not in a header, where it is a name and part of the checksum.
  for (const std::string_view key : {"SCHILY.acl.access=", "SCHILY.acl.default="})
    for (size_t at = text.find(key); at < most; at = text.find(key, at + 1))
      if (!is_header(text.substr(at / kBlock * kBlock))) bytes[at] = 's';
  // Solaris: a header of type `A`, which becomes one of PAX that is not well-formed.
  for (size_t at = 0; at + kBlock <= most; at += kBlock) {
    const std::string_view block = text.substr(at, kBlock);
    if (block[156] != 'A' || !has_right_checksum(block)) continue;
    uint64_t sum = *octal(block.substr(148, 8)) + ('x' - 'A');
    bytes[at + 156] = 'x';
    std::fill_n(&bytes[at + 148], 8, '\0');
    for (size_t digit = 6; digit-- > 0; sum /= 8) bytes[at + 148 + digit] = static_cast<char>('0' + sum % 8);
  }
}

Result<std::string> first_block(Stream& stream) {
  std::string block(kBlock, '\0');
  auto left = std::as_writable_bytes(std::span(block));
  while (!left.empty()) {
    const size_t got = TRY(stream.next(left));
    if (got == 0) break;
    left = left.subspan(got);
  }
  block.resize(block.size() - left.size());
  return block;
}

namespace {

Result<StreamPtr> decoding(const codec::DecodeChargePtr& charge, const SourcePtr& stored,
                           const Compression& compression) {
  return codec::charge_decoding(charge, stored, compression.decompress, compression.output_cost);
}

// Data that do not begin like a tar are not decoded to the end.
Result<void> check_begins_tar(const codec::DecodeChargePtr& charge, const SourcePtr& stored,
                              const Compression& compression) {
  const StreamPtr peek = TRY(decoding(charge, stored, compression));
  const std::string block = TRY(first_block(*peek));
  if (block.empty()) return failure(Code::corrupt, fmt::format("{}: 0 bytes, not a tar", compression.name));
  if (!is_header(block) && block.find_first_not_of('\0') != block.npos)
    return failure(Code::unsupported, fmt::format("{} data, but not of a tar", compression.name));
  return {};
}

BlobProducer recipe_for(const Container& container, std::string key) {
  BlobProducer recipe;
  recipe.name = container.name;
  recipe.key = std::move(key);
  recipe.depth = container.depth + 1;
  return recipe;
}

// The budget is charged now, but not when the blob was evicted and is decoded again for a reader. The compressed bytes
// of a file on a server are not kept beside the blob: its identity, which is in the key, names their version.
Result<SourcePtr> decode_to_blob(const Container& container, const Compression& compression,
                                 const codec::DecodeChargePtr& charge) {
  const SourcePtr stored = container.bytes;
  const std::string identity = stored->identity();
  BlobProducer recipe =
      recipe_for(container, identity.empty() ? "" : fmt::format("{} decoded from {}", identity, compression.name));
  const bool was_decoded = container.blobs->is_decoded(recipe);
  if (!was_decoded) TRY_VOID(check_begins_tar(charge, stored, compression));
  recipe.start = [charge, stored, row = &compression] { return decoding(charge, stored, *row); };
  const BlobProducer wanted = recipe;
  SourcePtr decoded = TRY(container.blobs->materialize(std::move(recipe)));
  // Not of a container in another one, which shows the compressed bytes as a file.
  const bool is_outermost = container.depth == 0;
  if (!was_decoded && is_outermost && container.blobs->is_decoded(wanted)) container.blobs->release_ranges(identity);
  return decoded;
}

// Does the same with bytes whose digest is stated. They are not read if the blob is cached.
Result<SourcePtr> decode_stated(const Container& container, const Compression& compression,
                                const codec::DecodeChargePtr& charge, const Digest& digest) {
  BlobProducer recipe = recipe_for(container, codec::key_of_decoded(digest, compression.name));
  if (!container.blobs->is_decoded(recipe))
    TRY_VOID(check_begins_tar(charge, container.bytes, compression).map_error([&](const Error& error) {
      return codec::compared_error(*container.bytes, error);
    }));
  return codec::materialize_compared(
      *container.blobs, std::move(recipe), container.bytes, digest,
      [charge, row = &compression](const SourcePtr& bytes) { return decoding(charge, bytes, *row); });
}

// The stated compression, if the tar was decoded before.
const Compression* decoded_before(const Container& container, const codec::StatedInput& stated) {
  const Compression* const row = compression_named(stated.compression);
  if (row == nullptr) return nullptr;
  const bool is_decoded =
      container.blobs->is_decoded(recipe_for(container, codec::key_of_decoded(stated.digest, row->name)));
  return is_decoded ? row : nullptr;
}

// By the first bytes; null for a plain tar.
Result<const Compression*> compression_in(const Source& tar) {
  const std::string head = TRY(read_text(tar, 0, std::min<uint64_t>(tar.size(), kBlock)));
  return is_header(head) ? nullptr : compression_of(head);
}

}  // namespace

Result<SourcePtr> decompressed_tar(const Container& container, const std::optional<codec::StatedInput>& stated,
                                   const codec::DecodeChargePtr& charge) {
  const Compression* compression = stated ? decoded_before(container, *stated) : nullptr;
  if (compression == nullptr) compression = TRY(compression_in(*container.bytes));
  if (compression == nullptr) return nullptr;
  if (stated) return decode_stated(container, *compression, charge, stated->digest);
  return decode_to_blob(container, *compression, charge);
}

}  // namespace weightfs::archive::tar

namespace weightfs {

// tar(1) reads a file of zeros as an empty tar; here only --format=tar does.
Match matches_tar(const Probe& probe) {
  if (archive::tar::is_header(probe.head)) return Match::yes;
  const archive::tar::Compression* const compression = archive::tar::compression_of(probe.head);
  return compression == nullptr ? Match::no : archive::tar::matches_decompressed(probe.head, *compression);
}

}  // namespace weightfs
