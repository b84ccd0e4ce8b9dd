// Results that were computed before, in memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fs/http/protocol/message.h"

namespace weightfs::api {

/// What a request is answered with.
struct Content {
  std::string type = "application/json";
  std::string bytes;
  std::string grid = {};  ///< the field Weightfs-Grid; empty: none
};
using ContentPtr = std::shared_ptr<const Content>;

/// The results that were used last, up to a number of bytes. Callable from any thread.
class Results {
 public:
  explicit Results(size_t max_bytes) : max_bytes_(max_bytes) {}

  /// The content for a response and for keep(). Refuses one of more than kMaxContent with 422, and with 503 if those
  /// that are kept or being sent, or all memory of the process, exceed their limits.
  httpd::Accepted<ContentPtr> share(Content content);
  ContentPtr find(const std::string& key);
  void keep(const std::string& key, ContentPtr content);

  static constexpr size_t kMaxContent = 64 << 20;  ///< bytes
  static constexpr size_t kMaxShared = 96 << 20;   ///< bytes of all contents that exist

 private:
  void make_room(size_t bytes);
  void remove_last();

  struct Kept {
    std::string key;
    ContentPtr content;
    size_t bytes() const { return 2 * key.size() + content->bytes.size() + content->grid.size() + 200; }
  };
  using Place = std::list<Kept>::iterator;

  const size_t max_bytes_;
  std::mutex mutex_;      // guards the rest
  std::list<Kept> kept_;  // the last used first
  std::unordered_map<std::string, Place> places_;
  size_t bytes_ = 0;
  // The bytes of all contents that exist: a slow client keeps its own. They may outlive this object.
  std::shared_ptr<std::atomic<size_t>> shared_ = std::make_shared<std::atomic<size_t>>(0);
};

/// Adds a piece of a content. What follows kMaxContent is left out: Results::share() refuses the content then, and a
/// result of any size is not in memory before that.
inline void append(Content& content, std::string_view text) {
  if (content.bytes.size() <= Results::kMaxContent) content.bytes += text;
}

}  // namespace weightfs::api
