#include "base/os/memory.h"

#include <fmt/core.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <semaphore>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/os/mounts.h"
#include "base/text.h"

namespace weightfs {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The limit in a file of a cgroup; nothing for "max", for its equivalent in v1 (the maximum number of pages), and for a
// missing file.
std::optional<uint64_t> limit_in(const std::string& path) {
  constexpr uint64_t kNoLimit = uint64_t{1} << 62;
  const std::string text = text_of(path);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && number < kNoLimit ? std::optional(number) : std::nullopt;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

// Whether `list`, words with commas between them, has `word`.
bool has_word(std::string_view list, std::string_view word) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

// A mounted hierarchy that can limit memory.
struct Hierarchy {
  std::string root;   // the group that is mounted
  std::string point;  // where
  bool is_v2;
};

// proc_pid_mountinfo(5): 36 35 98:0 ROOT POINT options [fields] - TYPE source super-options.
std::vector<Hierarchy> hierarchies_in(std::string_view mountinfo) {
  std::vector<Hierarchy> found;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    const auto words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 3) continue;
    const bool is_v2 = dash[1] == "cgroup2";
    if (is_v2 || (dash[1] == "cgroup" && has_word(words.back(), "memory")))
      found.push_back({unescaped(words[3]), unescaped(words[4]), is_v2});
  }
  return found;
}

// The process's group in a hierarchy: "0::/path" of v2, "4:memory:/path" of v1.
std::optional<std::string> group_in(std::string_view cgroup, bool is_v2) {
  std::istringstream lines{std::string(cgroup)};
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (is_v2 ? controllers.empty() : has_word(controllers, "memory")) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The group's path below the mounted one, without a `/` at its end. The mounted one itself ("") where the group is not
// below it: in a container it may be mounted under the path that the host has for it (cgroup_namespaces(7)).
std::string path_below(std::string_view group, std::string_view root) {
  while (root.ends_with('/')) root.remove_suffix(1);
  while (group.ends_with('/')) group.remove_suffix(1);
  if (!group.starts_with(root)) return "";
  group.remove_prefix(root.size());
  const bool leads_out = group.starts_with("/..") && (group.size() == 3 || group[3] == '/');
  return group.starts_with('/') && !leads_out ? std::string(group) : "";
}

void lower(std::optional<uint64_t>& least, std::optional<uint64_t> number) {
  if (number) least = std::min(*number, least.value_or(std::numeric_limits<uint64_t>::max()));
}

std::optional<uint64_t> limit_of_cgroups() {
  return cgroup_memory_limit(text_of("/proc/self/cgroup"), text_of("/proc/self/mountinfo"));
}

uint64_t read_limit() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  if (pages > 0) limit = static_cast<uint64_t>(pages) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) / 4;
  if (const auto group = limit_of_cgroups()) limit = std::min(limit, *group / 2);
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    limit = std::min<uint64_t>(limit, space.rlim_cur / 2);
  return limit;
}

// proc_meminfo(5): "MemAvailable:   12345 kB".
uint64_t read_available() {
  std::ifstream lines("/proc/meminfo");
  uint64_t available = std::numeric_limits<uint64_t>::max();
  for (std::string line; std::getline(lines, line);) {
    const auto words = words_of(line);
    if (words.size() < 2 || words[0] != "MemAvailable:") continue;
    uint64_t kilobytes = 0;
    const auto [end, error] = std::from_chars(words[1].data(), words[1].data() + words[1].size(), kilobytes);
    if (error == std::errc()) available = kilobytes * 1024;
    break;
  }
  return std::min(available, limit_of_cgroups().value_or(available));
}

// A number of bytes that is read at most once a second. Thread-safe.
class RecentNumber {
 public:
  uint64_t get(uint64_t (*read)()) {
    const Clock::rep now = Clock::now().time_since_epoch().count();
    const auto age = Clock::duration(now - read_at_);
    if (number_ != 0 && age < std::chrono::seconds(1)) return number_;
    const uint64_t fresh = read();
    number_ = fresh;
    read_at_ = now;
    return fresh;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<uint64_t> number_ = 0;
  std::atomic<Clock::rep> read_at_ = 0;
};

}  // namespace

std::optional<uint64_t> cgroup_memory_limit(std::string_view cgroup, std::string_view mountinfo) {
  std::optional<uint64_t> least;
  for (const Hierarchy& hierarchy : hierarchies_in(mountinfo)) {
    const auto group = group_in(cgroup, hierarchy.is_v2);
    if (!group) continue;
    const char* const file = hierarchy.is_v2 ? "/memory.max" : "/memory.limit_in_bytes";
    for (std::string path = path_below(*group, hierarchy.root);; path.erase(path.rfind('/'))) {
      lower(least, limit_in(fmt::format("{}{}{}", hierarchy.point, path, file)));
      if (path.empty()) break;
    }
  }
  return least;
}

uint64_t process_memory_limit() {
  static RecentNumber limit;
  return limit.get(read_limit);
}

uint64_t available_memory() {
  static RecentNumber available;
  return available.get(read_available);
}

uint64_t process_memory_used() {
  // Sanitizers replace malloc. The first call initialises that of the C library, and must not run in two threads.
  static const struct mallinfo2 first = ::mallinfo2();
  std::ignore = first;
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

void save_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
  ::mallopt(M_ARENA_MAX, 2);
}

namespace {

// The resident bytes that nothing is allocated in: mallinfo(3) also counts as free what was returned.
uint64_t kept_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("RssAnon:")) continue;
    const uint64_t resident = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) << 10;
    return resident - std::min(resident, process_memory_used());
  }
  return 0;
}

}  // namespace

void give_back_memory() {
  constexpr uint64_t kWorth = uint64_t{32} << 20;
  static uint64_t kept = 0;  // then
  const uint64_t now = kept_memory();
  kept = std::min(kept, now);
  if (now - kept < kWorth) return;
  ::malloc_trim(0);
  kept = kept_memory();
}

namespace {

std::counting_semaphore<>& turns() {
  static std::counting_semaphore<> all{std::max<ptrdiff_t>(8, std::thread::hardware_concurrency())};
  return all;
}

}  // namespace

MemoryTurn::~MemoryTurn() {
  if (is_taken_) turns().release();
  current_ = outer_;
}

void MemoryTurn::take() {
  // Two slow processors need more than a quarter of it for 64 readers, which would then go on without a turn.
  constexpr std::chrono::milliseconds kLongestWait{1000};
  if (current_ == nullptr || std::exchange(current_->has_waited_, true)) return;
  current_->is_taken_ = turns().try_acquire_for(kLongestWait);
}

}  // namespace weightfs
