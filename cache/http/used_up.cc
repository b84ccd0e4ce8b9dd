#include "cache/http/used_up.h"

namespace weightfs::http {

std::optional<Error> UsedUp::find(const std::string& url) const {
  const std::scoped_lock lock(mutex_);
  const auto found = errors_.find(url);
  return found == errors_.end() ? std::nullopt : std::optional(found->second);
}

void UsedUp::add(const std::string& url, const Error& error) {
  const std::scoped_lock lock(mutex_);
  if (errors_.size() < kMaxUrls) errors_.emplace(url, error);
}

void UsedUp::remove(const std::string& url) {
  const std::scoped_lock lock(mutex_);
  errors_.erase(url);
}

}  // namespace weightfs::http
