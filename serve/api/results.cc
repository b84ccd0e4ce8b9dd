#include "serve/api/results.h"

#include <fmt/core.h>

#include <utility>

#include "base/os/memory.h"
#include "base/text.h"

namespace weightfs::api {

httpd::Accepted<ContentPtr> Results::share(Content content) {
  const size_t bytes = content.bytes.size();
  if (bytes > kMaxContent)
    return httpd::refused(
        422, fmt::format("the result has more than {}; use weightfs on the command line", human_size(kMaxContent)));
  make_room(bytes);
  if (*shared_ + bytes > kMaxShared || process_memory_used() > process_memory_limit())
    return httpd::refused(503, "results for other clients use the memory; retry later");
  *shared_ += bytes;
  content.bytes.shrink_to_fit();
  return ContentPtr(new Content(std::move(content)), [shared = shared_, bytes](const Content* last) {
    delete last;
    *shared -= bytes;
  });
}

// Results that are only kept give way to those that are sent.
void Results::make_room(size_t bytes) {
  const std::scoped_lock lock(mutex_);
  while (*shared_ + bytes > kMaxShared && !kept_.empty()) remove_last();
}

// Call with the lock.
void Results::remove_last() {
  bytes_ -= kept_.back().bytes();
  places_.erase(kept_.back().key);
  kept_.pop_back();
}

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
  while (bytes_ > max_bytes_) remove_last();
}

}  // namespace weightfs::api
