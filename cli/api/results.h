// Results that were computed before, in memory.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

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

  ContentPtr find(const std::string& key);
  void keep(const std::string& key, ContentPtr content);

 private:
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
};

}  // namespace weightfs::api
