// Detects tars, plain or compressed.
#include <algorithm>
#include <iterator>
#include <optional>

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

}  // namespace

bool is_header(std::string_view bytes) {
  if (bytes.size() < kBlock) return false;
  const std::string_view block = bytes.substr(0, kBlock);
  return has_right_checksum(block) && (has_magic(block) || is_plausible_v7(block));
}

const Compression* compression_of(std::string_view head) {
  const auto* const row =
      std::find_if(std::begin(kCompressions), std::end(kCompressions),
                   [&](const Compression& compression) { return head.starts_with(compression.magic); });
  return row == std::end(kCompressions) ? nullptr : row;
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

}  // namespace weightfs::archive::tar

namespace weightfs {

// tar(1) reads a file of zeros as an empty tar; here only --format=tar does.
Match matches_tar(const Probe& probe) {
  if (archive::tar::is_header(probe.head)) return Match::yes;
  const archive::tar::Compression* const compression = archive::tar::compression_of(probe.head);
  return compression == nullptr ? Match::no : archive::tar::matches_decompressed(probe.head, *compression);
}

}  // namespace weightfs
