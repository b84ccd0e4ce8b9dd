#include "report/plot/raster/png.h"

#include <string_view>
#include <vector>

#include "base/digest.h"
#include "report/plot/raster/deflate.h"

namespace weightfs::plot {
namespace {

constexpr unsigned char kFilterUp = 2;  // bytes are differences from the row above: most are 0

void add_number(std::string& out, size_t number) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(number >> shift & 0xFF);
}

void add_chunk(std::string& out, std::string_view type, std::string_view bytes) {
  add_number(out, bytes.size());
  const size_t begin = out.size();
  out += type;
  out += bytes;
  add_number(out, crc32(0, std::as_bytes(std::span(out).subspan(begin))));
}

}  // namespace

Result<std::string> to_png(std::span<const Rgb> pixels, size_t width) {
  std::string out = "\x89PNG\r\n\x1a\n";
  std::string header;
  add_number(header, width);
  add_number(header, pixels.size() / width);
  header += std::string_view("\x08\x02\0\0\0", 5);  // 8 bits, RGB, the usual compression and filters, not interlaced
  add_chunk(out, "IHDR", header);
  Deflate deflate([&](std::string_view compressed) { add_chunk(out, "IDAT", compressed); });
  std::vector<unsigned char> row(1 + 3 * width), above(3 * width);
  row[0] = kFilterUp;
  for (size_t begin = 0; begin + width <= pixels.size(); begin += width) {
    for (size_t i = 0; i < 3 * width; ++i) {
      const Rgb& pixel = pixels[begin + i / 3];
      const uint8_t value = i % 3 == 0 ? pixel.red : i % 3 == 1 ? pixel.green : pixel.blue;
      row[1 + i] = static_cast<unsigned char>(value - above[i]);
      above[i] = value;
    }
    TRY_VOID(deflate.add(row));
  }
  TRY_VOID(deflate.finish());
  add_chunk(out, "IEND", "");
  return out;
}

}  // namespace weightfs::plot
