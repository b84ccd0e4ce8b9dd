// The SHA-256 of files whose container states none. Protocols name files by it, so it is computed, once: a pass over
// the file, in the background, kept under the identity of the file.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/digest.h"
#include "base/source.h"

namespace weightfs::digests {

/// What keeps texts for later processes, and the log. Each may be null.
struct Keeper {
  std::function<std::optional<std::string>(const std::string& key)> load = {};
  std::function<void(const std::string& key, std::string_view text)> save = {};
  std::function<void(const std::string& line)> log = {};
};

/// How long a caller waits for a digest.
struct Patience {
  std::chrono::steady_clock::time_point until = {};
  std::function<bool()> has_left = {};  ///< the client; null: not known
};

/// Callable from any thread.
class FileDigests {
 public:
  /// How many callers of get() wait at one time. Each takes a thread of the server.
  static constexpr size_t kMaxCallers = 16;

  explicit FileDigests(Keeper keeper = {}) : keeper_(std::move(keeper)) {}
  ~FileDigests();
  FileDigests(const FileDigests&) = delete;
  FileDigests& operator=(const FileDigests&) = delete;

  /// The digest if it was computed, also by an earlier process. Reads nothing of the file.
  std::optional<Digest> known(const SourcePtr& file);

  /// Begins to compute the digest if it is not known, and does not wait for it; `name` is for messages.
  void begin(const SourcePtr& file, const std::string& name);

  /// The digest of the file, which is computed if it is not known. Fails with resource, and the progress as its
  /// message, if it is not known in time, or if kMaxCallers wait already: computing goes on. Fails as reading the file
  /// does.
  Result<Digest> get(const SourcePtr& file, const std::string& name, const Patience& patience);

  /// Begins to end the computations: those that wait fail with resource.
  void stop();

  /// After stop(): whether no file is read any more. False if that takes longer than `within`: a file system is not
  /// responding, and there must be no destructor.
  bool has_ended(std::chrono::milliseconds within);

 private:
  struct Job {
    SourcePtr file;                      // null when the result is known
    std::weak_ptr<const Source> source;  // the same
    std::string name;
    std::string key;    // empty: the file has no identity, and the digest lasts as long as the source
    std::string place;  // in jobs_
    std::atomic<uint64_t> done = 0;
    std::optional<Result<Digest>> result = {};
  };
  using JobPtr = std::shared_ptr<Job>;

  std::optional<Digest> kept(const std::string& key);
  JobPtr job_for(const SourcePtr& file, const std::string& name);
  void keep(const std::string& key, const Digest& digest);
  void work();
  void work_until_stopped();
  Result<Digest> compute(Job& job);

  static constexpr size_t kMaxKnown = 100'000;  // files
  static constexpr size_t kMaxWaiting = 10'000;

  const Keeper keeper_;
  std::atomic<bool> stops_ = false;
  std::mutex mutex_;  // guards the rest, and Job::result
  std::condition_variable changed_;
  std::map<std::string, Digest> known_;  // by the key of the file
  std::map<std::string, JobPtr> jobs_;   // in progress, by the key; by the address of the source also those that ended
  std::deque<JobPtr> queue_;
  size_t callers_ = 0;  // that wait
  bool is_working_ = false;
  std::thread worker_;
};

}  // namespace weightfs::digests
