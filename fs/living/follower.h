// Keeps a mount up to date with its sources: lists directories again when they have changed, and resolves names again
// when it is asked to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fs/layout/source_tree.h"
#include "fs/living/directory_watch.h"
#include "fs/tree/forest.h"

namespace weightfs {

struct FollowOptions {
  /// Receives lines about directories and names that cannot be read again.
  std::function<void(const std::string&)> log = {};
  /// Called with a new model that replaces that of the mount; an error refuses it.
  std::function<Result<void>(const Tree&)> accept = {};
  std::chrono::seconds refresh_every{0};      ///< how often names are resolved again; 0: never
  size_t max_watches = 100'000;               ///< of inotify: the user may have other programs that need some
  std::chrono::milliseconds gathers{100};     ///< changes of a directory within this time cost one listing
  std::chrono::milliseconds compares{1'000};  ///< how often directories are compared that cannot be watched
};

/// What has happened so far.
struct FollowStatus {
  uint64_t listings = 0;      ///< of directories that had changed
  std::time_t listed = 0;     ///< when the last one was; 0: never
  uint64_t watched = 0;       ///< directories that inotify reports
  uint64_t compared = 0;      ///< directories that are compared every second
  uint64_t refreshes = 0;     ///< that have ended
  std::time_t refreshed = 0;  ///< when the last one ended
  uint64_t changed = 0;       ///< names that the last one added, removed or replaced
  bool is_refreshing = false;
  std::optional<Error> error;  ///< of the last one
  std::string mounted;         ///< the version of the model of the mount, if it is one model
  std::string available;       ///< the version that its name stood for at the last refresh
};

/// One thread. Trees are replaced first, then the kernel is told: a lookup that began before has ended by then, because
/// the kernel locks the directory for both.
class Follower {
 public:
  /// Tells the kernel. Called by the thread of the Follower only.
  using Notify = std::function<void(const Changes&)>;

  /// All must outlive it. The root of the forest is the tree that `sources` opened.
  Follower(Forest& forest, const SourceTrees& sources, FollowOptions options);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// Starts the thread.
  void start(Notify notify);

  /// No call of Notify is in progress or follows. Does not wait for a disk that is not responding.
  void stop();

  /// Whether the thread has ended after stop(), at the latest after that time. If not, the destructor waits for a disk.
  bool has_ended(std::chrono::milliseconds within);

  /// A request for `ino` has failed: its directory may have changed where that is not reported. If a file of its model
  /// has changed (is_changed_file), the model is opened again.
  void check(Ino ino, const Error& error);

  /// Lists all directories again, and resolves all names again.
  void refresh();

  FollowStatus status() const;

 private:
  using Clock = std::chrono::steady_clock;

  // What a followed directory needs: its watches, and the directories that are compared.
  struct Followed {
    std::set<int> watches;
    std::vector<WatchedDirectory> compared;
    Clock::time_point listed;
  };

  void run();
  void wait();
  void take_requests();
  void take_events();
  void compare_directories();
  void process_due();

  void count_directories();
  void follow(Ino directory);
  void unfollow(Ino directory);
  void unfollow_stale();
  void mark(Ino directory, Clock::duration delay);
  std::optional<Error> list_again(Ino directory);
  std::optional<Error> list_unlisted();
  void reopen(Ino directory);
  void refresh_now();
  std::optional<Error> replace_root(const Refreshed& refreshed);
  void apply(Ino directory, const TreePtr& before, const TreePtr& tree);
  void notify(const Changes& changes);

  Forest& forest_;
  const SourceTrees& sources_;
  const FollowOptions options_;
  const Descriptor wake_;

  // Used by the thread only.
  DirectoryWatch watch_{options_.max_watches};
  std::map<Ino, Followed> followed_;
  std::map<int, std::set<Ino>> by_watch_;
  size_t compared_ = 0;                                     // directories without a watch
  std::map<Ino, Clock::time_point> due_;                    // directories to list again, and when
  std::map<std::string, GraftedTrees::Followed> unlisted_;  // directories that could not be listed again, by path
  Clock::time_point next_compare_;
  Clock::time_point next_refresh_;
  uint64_t changed_names_ = 0;

  std::mutex notifying_;  // guards notify_
  Notify notify_;
  mutable std::mutex mutex_;  // guards the rest
  std::vector<Ino> entered_;
  std::map<Ino, bool> failed_;  // and whether a file has changed
  bool is_refresh_requested_ = false;
  bool is_stopped_ = false;
  bool is_running_ = false;
  std::condition_variable ended_;
  FollowStatus status_;
  std::jthread thread_;
};

}  // namespace weightfs
