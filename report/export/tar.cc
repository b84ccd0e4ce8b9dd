#include "report/export/tar.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace weightfs::exporting {
namespace {

constexpr size_t kRecord = 512;
constexpr size_t kMaxName = 100;
constexpr uint64_t kMaxOctalSize = (uint64_t{1} << 33) - 1;  // 11 octal digits

// The ustar header, with the checksum of its bytes where the checksum itself counts as spaces.
std::string header(std::string_view name, uint64_t size, Time modified, char type) {
  std::string out(kRecord, '\0');
  const auto put = [&](size_t at, std::string_view text) { out.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");  // owner
  put(116, "0000000");  // group
  put(124, fmt::format("{:011o}", size));
  put(136, fmt::format("{:011o}", std::clamp<int64_t>(modified / 1'000'000'000, 0, int64_t{kMaxOctalSize})));
  put(148, "        ");
  out[156] = type;
  put(257, std::string_view("ustar\00000", 8));
  const unsigned sum = std::accumulate(out.begin(), out.end(), 0U,
                                       [](unsigned all, char byte) { return all + static_cast<unsigned char>(byte); });
  put(148, fmt::format("{:06o}", sum));
  out[154] = '\0';
  return out;
}

// A record of an extended header begins with its own length.
std::string extended(std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t size = rest + 1;
  while (std::to_string(size).size() + rest != size) size = std::to_string(size).size() + rest;
  return fmt::format("{} {}={}\n", size, key, value);
}

}  // namespace

std::string tar_header(std::string_view path, uint64_t size, Time modified) {
  std::string records;
  if (path.size() > kMaxName) records += extended("path", path);
  if (size > kMaxOctalSize) records += extended("size", std::to_string(size));
  std::string out;
  if (!records.empty()) {
    out = header("././@PaxHeader", records.size(), modified, 'x') + records;
    out += tar_padding(records.size());
  }
  return out + header(path.substr(0, kMaxName), std::min(size, kMaxOctalSize), modified, '0');
}

std::string tar_padding(uint64_t size) { return std::string((kRecord - size % kRecord) % kRecord, '\0'); }

std::string tar_end() { return std::string(2 * kRecord, '\0'); }

}  // namespace weightfs::exporting
