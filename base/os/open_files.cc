#include "base/os/open_files.h"

#include <algorithm>
#include <utility>

namespace weightfs {

// Descriptors are closed without the lock: closing a file on a network takes time.
void RecentFiles::add(OpenFilePtr file) {
  OpenFilePtr closed;
  const std::scoped_lock lock(mutex_);
  if (files_.size() == max_) {
    const auto before = [](const OpenFilePtr& a, const OpenFilePtr& b) {
      return a->last_use.load() < b->last_use.load();
    };
    const auto oldest = std::min_element(files_.begin(), files_.end(), before);
    closed = std::move(*oldest);
    files_.erase(oldest);
  }
  files_.push_back(std::move(file));
}

void RecentFiles::remove(const OpenFilePtr& file) {
  OpenFilePtr closed;
  const std::scoped_lock lock(mutex_);
  const auto found = std::find(files_.begin(), files_.end(), file);
  if (found == files_.end()) return;
  closed = std::move(*found);
  files_.erase(found);
}

bool RecentFiles::clear() {
  std::vector<OpenFilePtr> closed;
  const std::scoped_lock lock(mutex_);
  closed.swap(files_);
  return !closed.empty();
}

RecentFiles& recent_files() {
  static RecentFiles files(kMaxIdleFiles);
  return files;
}

}  // namespace weightfs
