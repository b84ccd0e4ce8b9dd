// What is not requested again, because the retries are used up, for commands: a command that reads many tensors of a
// server that is down waits for each of its URLs once, and once for its API. A mount asks again at each read.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"

namespace weightfs::http {

/// Thread-safe.
class UsedUp {
 public:
  /// Why requests to `url` failed; nothing if it may be requested. For an API, the origin of a server that did not
  /// respond at all counts as a URL, too.
  std::optional<Error> find(const std::string& url) const;
  void add(const std::string& url, const Error& error);
  /// A request that had begun before was answered.
  void remove(const std::string& url);

  static constexpr size_t kMaxUrls = 10'000;  ///< a container may name any number; further ones are retried each time

 private:
  mutable std::mutex mutex_;  // guards errors_
  std::map<std::string, Error> errors_;
};

}  // namespace weightfs::http
