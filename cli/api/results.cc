#include "cli/api/results.h"

#include <utility>

namespace weightfs::api {

ContentPtr Results::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return found->second->content;
}

void Results::keep(const std::string& key, ContentPtr content) {
  const std::scoped_lock lock(mutex_);
  if (places_.contains(key)) return;
  kept_.push_front({key, std::move(content)});
  bytes_ += kept_.front().bytes();
  places_.emplace(key, kept_.begin());
  while (bytes_ > max_bytes_) {
    bytes_ -= kept_.back().bytes();
    places_.erase(kept_.back().key);
    kept_.pop_back();
  }
}

}  // namespace weightfs::api
