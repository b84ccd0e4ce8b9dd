#include "fs/living/directory_watch.h"

#include <fmt/core.h>
#include <sys/inotify.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/os/kernel.h"

namespace weightfs {
namespace {

// IN_MODIFY is left out: a download would report each of its writes.
constexpr uint32_t kEvents = IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVED_FROM |
                             IN_MOVED_TO | IN_MOVE_SELF | IN_ONLYDIR;

bool is_local(int directory) {
  struct statfs status {};
  if (::fstatfs(directory, &status) != 0) return false;
  const auto type = static_cast<long>(status.f_type);
  return std::ranges::find(kernel::kLocalMagics, type) != std::end(kernel::kLocalMagics);
}

// A quarter of what the user has for all programs.
size_t share_of_watches() {
  size_t all = 0;
  return std::ifstream("/proc/sys/fs/inotify/max_user_watches") >> all ? all / 4 : SIZE_MAX;
}

}  // namespace

DirectoryWatch::DirectoryWatch(size_t most)
    : most_(std::min(most, share_of_watches())), inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

std::optional<int> DirectoryWatch::add(const Descriptor& directory) {
  if (!inotify_ || !is_local(directory.number())) return std::nullopt;
  const std::string path = fmt::format("/proc/self/fd/{}", directory.number());
  const int watch = ::inotify_add_watch(inotify_.number(), path.c_str(), kEvents);
  if (watch < 0) return std::nullopt;
  if (watches_.contains(watch) || watches_.size() < most_) {
    watches_.insert(watch);
    return watch;
  }
  ::inotify_rm_watch(inotify_.number(), watch);
  return std::nullopt;
}

void DirectoryWatch::remove(int watch) {
  if (inotify_) ::inotify_rm_watch(inotify_.number(), watch);
  watches_.erase(watch);
}

DirectoryWatch::Events DirectoryWatch::read() {
  Events events;
  alignas(inotify_event) std::array<char, 16 << 10> buffer;
  ssize_t size = 0;
  while (inotify_ && (size = ::read(inotify_.number(), buffer.data(), buffer.size())) > 0) {
    for (const char* at = buffer.data(); at < buffer.data() + size;) {
      inotify_event event;
      std::memcpy(&event, at, sizeof event);
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) events.has_lost = true;
      if ((event.mask & IN_IGNORED) != 0) {
        events.ended.push_back(event.wd);
        watches_.erase(event.wd);
      }
      if (event.wd >= 0) events.watches.push_back(event.wd);
    }
    for (auto* list : {&events.watches, &events.ended}) {
      std::ranges::sort(*list);
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
  }
  return events;
}

}  // namespace weightfs
