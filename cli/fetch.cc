// weightfs fetch: downloads linked files and registry layers into the cache before they are read.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "base/text.h"
#include "cli/console/progress.h"
#include "cli/open_source.h"
#include "cli/verbs.h"
#include "fs/file_walk.h"

namespace weightfs {
namespace {

constexpr size_t kWorkers = 4;

struct FetchArguments {
  SourceInput input;
  std::vector<std::string> paths;
};

// Downloads files by several threads. A directory stands for the files below it.
class Fetcher {
 public:
  explicit Fetcher(Forest& forest) : forest_(forest) {}

  // Adds every file below a directory. Of a model it adds only files/, from which the rest of its tree is built.
  void add(Ino ino, const std::string& path) {
    const auto keep = [&](Ino file, const std::string& name) {
      files_.push_back({file, name});
      return true;
    };
    walk_files(forest_, ino, path, {keep, [&](const std::string& name, const Error& error) { fail(name, error); }});
  }

  void add_path(const std::string& path) {
    const auto ino = forest_.resolve(path, Forest::FinalLink::followed);
    if (!ino) return fail(path, ino.error());
    const auto known = forest_.known_attributes(*ino);
    if (known && known->is_directory())
      add(*ino, path);
    else
      files_.push_back({*ino, path});
  }

  // Downloads all added files. Calls `on_progress` ten times a second and once at the end.
  void run(const std::function<void()>& on_progress) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < std::min(kWorkers, files_.size()); ++i) threads.emplace_back([this] { run_worker(); });
    {
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, std::chrono::milliseconds(100),
                                [&] { return finished_workers_ == threads.size(); })) {
        lock.unlock();
        on_progress();
        lock.lock();
      }
    }
    for (std::thread& thread : threads) thread.join();
    on_progress();
  }

  Exit status() const { return status_; }
  std::vector<std::string> take_errors() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(errors_, {});
  }

 private:
  struct File {
    Ino ino;
    std::string path;
  };

  void run_worker() {
    for (;;) {
      const size_t index = next_++;
      if (index >= files_.size()) break;
      if (const auto done = fetch(files_[index].ino); !done) fail(files_[index].path, done.error());
    }
    const std::scoped_lock lock(mutex_);
    ++finished_workers_;
    changed_.notify_all();
  }

  Result<void> fetch(Ino ino) {
    const SourcePtr bytes = TRY(forest_.open(ino));
    return bytes->fetch({0, bytes->size()});
  }

  void fail(const std::string& path, const Error& error) {
    const std::scoped_lock lock(mutex_);
    if (status_ == Exit::ok) status_ = exit_of(error.code);
    errors_.push_back(error.message.starts_with(path) ? error.message : fmt::format("{}: {}", path, error.message));
  }

  Forest& forest_;
  std::deque<File> files_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  size_t finished_workers_ = 0;
  Exit status_ = Exit::ok;
  std::vector<std::string> errors_;
};

// Shows a progress bar on a terminal, and prints a line for each verified blob.
class Reporter {
 public:
  explicit Reporter(BlobStorePtr store) : store_(std::move(store)), before_(bytes_of(store_->status()).first) {}

  void update(const std::vector<std::string>& errors) {
    const StoreStatus status = store_->status();
    std::string_view working;
    for (const StoreStatus::Blob& blob : status.blobs) {
      if (blob.verified && reported_.insert(blob.digest.hex()).second) print_done(blob);
      if (!blob.verified && blob.fetched > 0) working = blob.name;
    }
    for (const std::string& line : errors) {
      bar_.clear();
      log_to_stderr(line);
    }
    const auto [done, total] = bytes_of(status);
    bar_.show(done, total, working, before_);
  }

  // Prints the totals.
  void print_summary() {
    bar_.clear();
    const StoreStatus status = store_->status();
    uint64_t verified = 0;
    uint64_t bytes = 0;
    for (const StoreStatus::Blob& blob : status.blobs) {
      verified += blob.verified ? 1 : 0;
      bytes += blob.verified ? blob.size.value_or(0) : 0;
    }
    for (const StoreStatus::Remote& remote : status.remotes) print_ranges(remote);
    if (status.blobs.empty() && status.remotes.empty())
      std::printf("nothing to fetch: every file is in its container\n");
    if (!status.blobs.empty())
      std::printf("%llu %s cached (%s), %s fetched\n", static_cast<unsigned long long>(verified),
                  verified == 1 ? "blob" : "blobs", human_size(bytes).c_str(),
                  human_size(status.bytes_fetched).c_str());
  }

 private:
  static std::pair<uint64_t, uint64_t> bytes_of(const StoreStatus& status) {
    uint64_t done = 0;
    uint64_t total = 0;
    for (const StoreStatus::Blob& blob : status.blobs) {
      done += blob.fetched;
      total += blob.size.value_or(0);
    }
    for (const StoreStatus::Remote& remote : status.remotes) {
      done += remote.bytes_fetched;
      total += remote.size;
    }
    return {done, total};
  }

  static void print_ranges(const StoreStatus::Remote& remote) {
    const std::string verified =
        remote.verified_blocks ? fmt::format(", {} verified", *remote.verified_blocks) : std::string();
    std::fputs(fmt::format("{}: {} of {} fetched in {} {}, {} of {} blocks cached{}\n", printable(remote.url),
                           human_size(remote.bytes_fetched), human_size(remote.size), remote.requests,
                           remote.requests == 1 ? "request" : "requests", remote.present, remote.blocks, verified)
                   .c_str(),
               stdout);
  }

  void print_done(const StoreStatus::Blob& blob) {
    bar_.clear();
    std::printf("%s  %s  %s  from %s\n", blob.digest.hex().substr(0, 12).c_str(),
                human_size(blob.size.value_or(0)).c_str(), printable(blob.name).c_str(), printable(blob.from).c_str());
    std::fflush(stdout);
  }

  BlobStorePtr store_;
  uint64_t before_;
  ProgressBar bar_;
  std::set<std::string> reported_;
};

Exit fetch(FetchArguments& arguments) {
  const auto opened = open_source(arguments.input);
  if (!opened) return report_error(opened.error());
  Forest& forest = *opened->forest;
  Fetcher fetcher(forest);
  if (arguments.paths.empty()) fetcher.add(Forest::kRoot, "");
  for (const std::string& path : arguments.paths) fetcher.add_path(path);
  Reporter reporter(opened->store);
  fetcher.run([&] { reporter.update(fetcher.take_errors()); });
  reporter.print_summary();
  return fetcher.status();
}

}  // namespace

Command fetch_command() {
  const auto given = std::make_shared<FetchArguments>();
  return {
      "fetch",
      "download linked files, registry layers and files on web servers into the cache",
      {source_argument(given->input),
       arguments("PATH", "path in the model, such as files/model.gguf or tensors/NAME (default: all)", given->paths)},
      source_options(given->input),
      {},
      [given] { return fetch(*given); }};
}

}  // namespace weightfs
