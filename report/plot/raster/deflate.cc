#include "report/plot/raster/deflate.h"

#define ZLIB_CONST  // its input is const
#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace weightfs::plot {

struct Deflate::Stream {
  Stream() : is_open(deflateInit(&zlib, Z_DEFAULT_COMPRESSION) == Z_OK) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (is_open) deflateEnd(&zlib);
  }

  z_stream zlib = {};
  bool is_open;
  std::vector<unsigned char> part = std::vector<unsigned char>(size_t{64} << 10);
};

Deflate::Deflate(std::function<void(std::string_view compressed)> take)
    : take_(std::move(take)), stream_(std::make_unique<Stream>()) {}
Deflate::~Deflate() = default;

Result<void> Deflate::run(std::span<const unsigned char> bytes, int flush) {
  if (!stream_->is_open) return failure(Code::resource, "zlib has no memory");
  z_stream& zlib = stream_->zlib;
  std::vector<unsigned char>& part = stream_->part;
  zlib.next_in = bytes.data();
  zlib.avail_in = static_cast<uInt>(bytes.size());
  do {
    zlib.next_out = part.data();
    zlib.avail_out = static_cast<uInt>(part.size());
    if (deflate(&zlib, flush) == Z_STREAM_ERROR) return failure(Code::resource, "zlib has no memory");
    const std::string_view made(reinterpret_cast<const char*>(part.data()), part.size() - zlib.avail_out);
    if (!made.empty()) take_(made);
  } while (zlib.avail_out == 0);
  return {};
}

Result<void> Deflate::add(std::span<const unsigned char> bytes) {
  constexpr size_t kMost = size_t{1} << 30;  // zlib counts in 32 bits
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMost));
    TRY_VOID(run(part, Z_NO_FLUSH));
    bytes = bytes.subspan(part.size());
  }
  return {};
}

Result<void> Deflate::finish() { return run({}, Z_FINISH); }

Result<std::string> deflated(std::string_view text) {
  std::string out;
  Deflate deflate([&](std::string_view compressed) { out += compressed; });
  TRY_VOID(deflate.add({reinterpret_cast<const unsigned char*>(text.data()), text.size()}));
  TRY_VOID(deflate.finish());
  return out;
}

}  // namespace weightfs::plot
