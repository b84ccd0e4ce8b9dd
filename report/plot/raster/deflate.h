// Deflate in the format of zlib (RFC 1950), as PNG and PDF have it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weightfs::plot {

/// Compresses bytes as they come, and passes on the compressed ones.
class Deflate {
 public:
  explicit Deflate(std::function<void(std::string_view compressed)> take);
  ~Deflate();

  /// Fails with resource. Equal bytes in equal parts give equal compressed bytes.
  Result<void> add(std::span<const unsigned char> bytes);
  /// Passes on what is left, after the last bytes.
  Result<void> finish();

 private:
  struct Stream;

  Result<void> run(std::span<const unsigned char> bytes, int flush);

  std::function<void(std::string_view compressed)> take_;
  std::unique_ptr<Stream> stream_;
};

/// A whole text, compressed. Fails with resource.
Result<std::string> deflated(std::string_view text);

}  // namespace weightfs::plot
