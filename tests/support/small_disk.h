// Blobs with a small size limit, so that tests of hostile containers are fast.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/blobs.h"

namespace weightfs::test {

/// Materializes blobs of at most kRoom bytes; fails with unsupported and kFull for larger ones.
class SmallDisk final : public Blobs {
 public:
  static constexpr uint64_t kRoom = 1 << 20;
  static constexpr std::string_view kFull = "no room on the small disk";

  /// Whether `error` is one of these refusals.
  static bool refused(const Error& error) { return error.message.find(kFull) != error.message.npos; }

  SourcePtr blob(BlobProducer recipe) override {
    if (*recipe.size <= kRoom) return uncached_blobs()->blob(std::move(recipe));
    return lazy(*recipe.size, Later<SourcePtr>([]() -> Result<SourcePtr> { return full(); }));
  }

  Result<SourcePtr> materialize(BlobProducer recipe) override {
    const StreamPtr stream = TRY(recipe.start());
    std::string bytes;
    std::array<char, 16 * 1024> buffer;
    while (const size_t got = TRY(stream->next(std::as_writable_bytes(std::span(buffer))))) {
      if (got > kRoom - bytes.size()) return full();
      bytes.append(buffer.data(), got);
    }
    return in_memory(std::move(bytes));
  }

 private:
  static tl::unexpected<Error> full() { return failure(Code::unsupported, std::string(kFull)); }
};

}  // namespace weightfs::test
