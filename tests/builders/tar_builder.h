// Builds tars for tests, right or wrong, block by block (POSIX pax(1), "ustar Interchange Format"; GNU tar's manual,
// "The Standard Format").
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/text.h"
#include "tests/support/compressed.h"

namespace weightfs::test::tars {

using test::gzip_stored;

/// `bytes` with zeros behind them to a whole number of blocks.
inline std::string tar_padded(std::string_view bytes) {
  return std::string(bytes) + std::string((512 - bytes.size() % 512) % 512, '\0');
}

/// `n` as a field of `width` bytes: octal digits and a NUL.
inline std::string tar_octal(uint64_t n, int width) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%0*llo", width - 1, static_cast<unsigned long long>(n));
  return std::string(digits) + '\0';
}

inline constexpr std::string_view kUstar(
    "ustar\0"
    "00",
    8);
inline constexpr std::string_view kGnu("ustar  \0", 8);
inline constexpr std::string_view kV7("\0\0\0\0\0\0\0\0", 8);

/// The fields of a header.
struct TarHeader {
  std::string_view name;  ///< cut after 100 bytes
  char type = '0';
  uint64_t size = 0;
  std::string_view link = {};
  std::string_view magic = kUstar;
  std::string_view rest = {};  ///< from byte 345 on: ustar's prefix, GNU's holes
};

/// The header with another checksum, that of its bytes.
inline std::string tar_checked(std::string block) {
  block.replace(148, 8, "        ");
  uint64_t sum = 0;
  for (const char c : block) sum += static_cast<uint8_t>(c);
  return block.replace(148, 8, tar_octal(sum, 7) + ' ');
}

inline std::string tar_block(const TarHeader& header) {
  std::string block(512, '\0');
  const auto put = [&](size_t at, size_t most, std::string_view text) {
    block.replace(at, std::min(text.size(), most), text.substr(0, most));
  };
  put(0, 100, header.name);
  put(100, 8, tar_octal(0644, 8));
  put(108, 8, tar_octal(0, 8));
  put(116, 8, tar_octal(0, 8));
  put(124, 12, tar_octal(header.size, 12));
  put(136, 12, tar_octal(0, 12));
  block[156] = header.type;
  put(157, 100, header.link);
  put(257, 8, header.magic);
  put(345, 167, header.rest);
  return tar_checked(std::move(block));
}

/// A record of a PAX header, "12 path=name\n"; its length counts itself.
inline std::string pax_record(std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (length != rest + std::to_string(length).size()) length = rest + std::to_string(length).size();
  return fmt::format("{} {}={}\n", length, key, value);
}

class TarBuilder {
 public:
  /// Any header, followed by `bytes`, independent of the size in the header.
  TarBuilder& member(const TarHeader& header, std::string_view bytes = {}) {
    bytes_ += tar_block(header) + tar_padded(bytes);
    return *this;
  }
  TarBuilder& file(std::string_view name, std::string_view bytes) {
    return member({.name = name, .size = bytes.size()}, bytes);
  }
  TarBuilder& directory(std::string_view name) { return member({.name = name, .type = '5'}); }
  TarBuilder& link(std::string_view name, std::string_view target) {
    return member({.name = name, .type = '2', .link = target});
  }
  TarBuilder& hard_link(std::string_view name, std::string_view target) {
    return member({.name = name, .type = '1', .link = target});
  }
  /// The next member's name ('L') or link ('K') as GNU tar spells long ones.
  TarBuilder& gnu_long(char type, std::string_view text) {
    const std::string ended = std::string(text) + '\0';
    return member({.name = "././@LongLink", .type = type, .size = ended.size(), .magic = kGnu}, ended);
  }
  /// PAX records for the next member.
  TarBuilder& pax(std::string_view records) {
    return member({.name = "PaxHeaders/x", .type = 'x', .size = records.size()}, records);
  }
  TarBuilder& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }

  size_t size() const { return bytes_.size(); }
  std::string without_end() const { return bytes_; }
  std::string build() const { return bytes_ + std::string(1024, '\0'); }

 private:
  std::string bytes_;
};

/// A small tar that uses most features: a directory, files, links, a long name, a name in PAX.
inline std::string small_tar() {
  TarBuilder b;
  b.directory("./").file("./a.bin", "aaaa").file("./d/empty", "").link("./l", "a.bin").hard_link("./h", "./a.bin");
  b.gnu_long('L', std::string(120, 'n')).file("cut", "long");
  return b.pax(pax_record("path", "ü/ß")).file("?", "pax").build();
}

}  // namespace weightfs::test::tars
