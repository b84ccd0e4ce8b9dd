// Blobs where there is little room: what keeps tests of hostile containers short, whatever these claim to hold.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/blobs.h"

namespace weightfs::test {

/// Makes what has at most kRoom bytes, and refuses the rest as what is too large: unsupported, with kFull.
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
