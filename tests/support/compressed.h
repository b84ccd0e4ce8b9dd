// Deflate, gzip, xz and Zstandard data for tests, written by hand: every byte is visible, and no compressor is needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/digest.h"

namespace weightfs::test {

/// The `count` low bytes of `n`, the lowest first.
inline std::string le(uint64_t n, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(n >> (8 * i) & 0xFF);
  return bytes;
}

/// Raw Deflate of `bytes` in stored blocks (RFC 1951, 3.2.4).
inline std::string deflate_stored(std::string_view bytes) {
  std::string blocks;
  do {
    const std::string_view block = bytes.substr(0, 0xFFFF);
    bytes.remove_prefix(block.size());
    blocks += static_cast<char>(bytes.empty() ? 1 : 0);
    blocks += le(block.size(), 2) + le(~block.size(), 2) + std::string(block);
  } while (!bytes.empty());
  return blocks;
}

/// The CRC-32 of `bytes`, as it is stored.
inline std::string crc_of(std::string_view bytes) { return le(crc32(0, std::as_bytes(std::span(bytes))), 4); }

/// A gzip member (RFC 1952) around `deflate`, whose bytes have this checksum and this size. `flags`, and what they
/// announce.
inline std::string gzip_member(std::string_view deflate, std::string_view crc, uint64_t size, char flags = 0,
                               std::string_view announced = {}) {
  return std::string("\x1F\x8B\x08", 3) + flags + std::string("\0\0\0\0\0\xFF", 6) + std::string(announced) +
         std::string(deflate) + std::string(crc) + le(size, 4);
}

/// A gzip member that holds `bytes` in stored blocks.
inline std::string gzip_stored(std::string_view bytes, char flags = 0, std::string_view announced = {}) {
  return gzip_member(deflate_stored(bytes), crc_of(bytes), bytes.size(), flags, announced);
}

/// Raw Deflate of an `x` and `runs` times 258 more, 13 bits each: the maximum expansion of Deflate.
inline std::string deflate_bomb(size_t runs) {
  std::string bytes;
  int used = 8;
  const auto put = [&](uint32_t code, int bits) {  // as they come
    for (int i = 0; i < bits; ++i, ++used) {
      if (used == 8) bytes += '\0', used = 0;
      bytes.back() = static_cast<char>(static_cast<uint8_t>(bytes.back()) | (code >> i & 1) << used);
    }
  };
  const auto put_code = [&](uint32_t code, int bits) {  // Huffman codes begin with the highest bit
    while (bits-- > 0) put(code >> bits & 1, 1);
  };
  put(1, 1);                      // the last block
  put(1, 2);                      // of fixed codes
  put_code(0x30 + 'x', 8);        // a literal
  constexpr size_t kPeriod = 13;  // bytes of 8 runs, after which the bytes repeat
  for (size_t left = std::min(runs, 16 + runs % 8); left > 0; --left) {
    put_code(0b11000101, 8);  // length 258
    put_code(0, 5);           // distance 1
  }
  if (runs > 16 + runs % 8) {
    const char last = bytes.back();  // not all bits of which are written
    bytes.pop_back();
    const std::string period = bytes.substr(bytes.size() - kPeriod);
    for (size_t left = (runs - 16) / 8; left > 0; --left) bytes += period;
    bytes += last;
  }
  put_code(0, 7);  // the end
  return bytes;
}

/// 606 bytes of text, and the output of zlib (level 9), xz and zstd (level 19, with a checksum).
inline std::string sample_text() {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "layer " + std::to_string(i) + ": weight " + std::to_string(i * i) + "\n";
  return text;
}
inline std::string sample_deflate() {
  return std::string(
      "\x4D\x91\x31\x0E\x02\x31\x0C\x04\x7B\x5E\x91\x27\x9C\x1D\xC7\x49\xF8\x0D\xC5\xE9\x40\xBA\x0A\x21\x21\x7E"
      "\x0F\x42\xF1\xAE\xDB\x91\xB3\xDE\x71\xCE\xDB\x67\x7F\x96\xED\x5A\xDE\xFB\xE3\xB8\xBF\xCA\x76\x39\xFF\x44"
      "\x40\x64\x11\x05\xB1\x45\x2A\xC8\x5C\xC4\xF8\xCA\x17\x6A\x40\xDA\x16\x72\xA0\x1A\x53\x9D\xE1\x91\x35\x80"
      "\x3C\x16\x4E\xA0\x11\xAD\x84\xD5\x65\x43\xF9\xD4\x5E\x31\x49\x01\xB1\x48\x94\x9A\x1A\xC7\x66\x49\x1A\x33"
      "\x1A\x4A\x12\x81\x89\x78\xB2\xC3\x24\x65\x74\x20\x93\x3A\x55\xB1\x7D\xA6\x4B\xE0\xCE\x34\x32\x18\x29\x8D"
      "\xCC\x30\x99\xBE\x64\x44\xA6\xD2\xA8\x69\x6C\x57\x1A\xB5\x1E\x3D\x95\x46\x0E\x23\xA5\x91\x73\x92\x46\x9D"
      "\x99\x34\xEA\xDC\x9E\xBE\xE8\xD7\xF3\x0B",
      166);
}
inline std::string sample_gzip() { return gzip_member(sample_deflate(), crc_of(sample_text()), sample_text().size()); }
inline std::string sample_xz() {
  return std::string(
      "\xFD\x37\x7A\x58\x5A\x00\x00\x04\xE6\xD6\xB4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2F\xE5\xA3\xE0\x02"
      "\x5D\x00\x9A\x5D\x00\x36\x18\x4B\x98\xE9\xC3\x72\x37\xEA\x25\xC7\x7A\xD1\xC9\x38\xB2\x0A\xA6\x2C\x3E\x55"
      "\x39\xD8\x63\xD7\xBD\x01\xB0\xEF\xF8\x74\xDC\x6C\xB9\xB9\x0C\xAA\x24\x1D\x85\xAC\x98\x2D\x6F\x92\xB0\x2C"
      "\xC1\x9F\xD2\x1A\x25\x3D\xFF\x60\x53\x1D\x47\x8D\x05\xC1\x69\x10\x30\x86\xBD\xA4\x60\x3A\x5E\xA3\x4E\xD4"
      "\xB9\x73\x5A\x0E\x10\x10\xD8\x09\x29\x02\x2D\xCC\x05\xE6\xF1\xEA\x22\xB9\x25\x25\x2C\x17\x7D\xE1\xEC\xAE"
      "\x1D\xB3\xF1\x6F\x6D\x52\x1C\xD0\xDB\xA5\x5E\x1C\x04\x61\xF0\x8E\x54\x83\x23\x31\x78\x08\x0A\x75\x30\xA1"
      "\x93\xE9\x16\xBF\x7D\x23\x5B\x0F\xC8\x99\x99\xCC\xCB\x58\xE9\x97\x88\xFD\x04\xAE\x23\x78\x2F\xDF\xE2\x77"
      "\x59\x96\x00\x00\x00\x00\x6B\xE5\xFA\xA8\x93\x5D\xE3\x9C\x00\x01\xB6\x01\xDE\x04\x00\x00\x73\x6B\x24\xF3"
      "\xB1\xC4\x67\xFB\x02\x00\x00\x00\x00\x04\x59\x5A",
      220);
}
inline std::string sample_zstd() {
  return std::string(
      "\x28\xB5\x2F\xFD\x04\x68\x3D\x04\x00\x92\x88\x15\x13\xB0\xA9\x03\x6F\xD0\x61\x09\x24\xA9\xB4\x2D\xB7\x94"
      "\x69\xA7\xE3\xB3\xC3\x81\x40\x7F\x34\x0F\xD1\x34\xA2\x89\x8C\x36\x9A\xA8\x68\xBA\x68\xDE\x69\xFE\xF4\x8D"
      "\x6B\x27\xF5\x3E\xD7\x74\x46\xB5\xB2\xB5\xEC\xAA\xA5\xBE\xC9\x7A\xFA\xD7\xAD\x5B\x53\xB6\x97\x6E\x97\x8E"
      "\xEC\x58\xB9\xAC\x4F\xE7\x6E\x01\xC3\xA4\x20\x8C\x41\x61\x60\x88\x0C\x8B\x70\x04\x3A\xA8\x11\x40\x69\xBE"
      "\x7F\x06\xD0\x73\x35\x10\x14\x2F\xF8\x6B\x2B\x82\x52\x27\xA5\xAA\xA6\x3A\x4B\x7F\x6D\xAD\x36\x87\x7B\xA0"
      "\xD4\xD7\x8E\x51\x8D\x91\x6D\x2F\x64\xFB\x82\x02\xA4\x0A\x17\x72\x15\xDA",
      148);
}

namespace xz {

/// `bytes` with zeros behind them to a multiple of four bytes.
inline std::string padded(std::string bytes) { return bytes.append((4 - bytes.size() % 4) % 4, '\0'); }

/// The beginning of a stream (The .xz File Format, 2.1). Checks have numbers: 1 is CRC-32.
inline std::string stream_header(char check = 1) {
  const std::string flags = {'\0', check};
  return std::string(
             "\xFD"
             "7zXZ\0",
             6) +
         flags + crc_of(flags);
}

/// The header of a block in LZMA2 (3.1), with the largest dictionary that `dictionary` stands for: 2 or 3 (its lowest
/// bit) times 2 to the power of 11 and its upper bits.
inline std::string block_header(char dictionary = 0, char filter = 0x21) {
  const std::string header = padded(std::string{'\2', '\0', filter, '\1', dictionary});
  return header + crc_of(header);
}

/// A chunk of LZMA2 that holds 1 to 65536 bytes as they are, and the end.
inline std::string chunk(std::string_view bytes) {
  const size_t size = bytes.size() - 1;
  return std::string{'\1', static_cast<char>(size >> 8), static_cast<char>(size & 0xFF)} + std::string(bytes) + '\0';
}

/// A stream of one block of fewer than 100 bytes, with any check.
inline std::string stream(std::string_view bytes, std::string_view check, char dictionary = 0) {
  const std::string block = block_header(dictionary) + chunk(bytes);
  const std::string index =
      padded({'\0', '\1', static_cast<char>(block.size() + check.size()), static_cast<char>(bytes.size())});
  const std::string footer = le(index.size() / 4, 4) + std::string{'\0', '\1'};
  return stream_header() + padded(block) + std::string(check) + index + crc_of(index) + crc_of(footer) + footer + "YZ";
}
inline std::string stream(std::string_view bytes) { return stream(bytes, crc_of(bytes)); }

}  // namespace xz

namespace zstd {

inline constexpr uint32_t kMagic = 0xFD2FB528;

/// A block (RFC 8878, 3.1.1.2) that holds `bytes` as they are.
inline std::string raw_block(std::string_view bytes, bool last = true) {
  return le(bytes.size() << 3 | (last ? 1 : 0), 3) + std::string(bytes);
}
/// A block of `count` times the same byte, 128 KiB at most.
inline std::string run_block(char byte, uint64_t count, bool last = true) {
  return le(count << 3 | 2 | (last ? 1 : 0), 3) + byte;
}
/// A frame of `blocks` whose window has this logarithm, without content size.
inline std::string frame(std::string_view blocks, int window_log = 10) {
  return le(kMagic, 4) + le(0, 1) + le(static_cast<uint64_t>(window_log - 10) << 3, 1) + std::string(blocks);
}
/// A frame with `bytes` and their size.
inline std::string sized_frame(std::string_view bytes) {
  return le(kMagic, 4) + le(0xA0, 1) + le(bytes.size(), 4) + raw_block(bytes);
}
/// A skippable frame with user data.
inline std::string skippable(std::string_view data) {
  return le(0x184D2A53, 4) + le(data.size(), 4) + std::string(data);
}

/// `runs` blocks of 128 KiB each, four bytes a block.
inline std::string bomb(size_t runs) {
  std::string blocks;
  for (; runs > 0; --runs) blocks += run_block('x', 128 << 10, runs == 1);
  return frame(blocks, 17);
}

}  // namespace zstd

}  // namespace weightfs::test
