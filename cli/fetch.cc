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

#include "base/blobs.h"
#include "base/files/leaf.h"
#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/open_source.h"
#include "cli/verbs.h"
#include "formats/completeness.h"
#include "fs/reading/file_walk.h"

namespace weightfs {
namespace {

constexpr size_t kWorkers = 4;

struct FetchArguments {
  SourceInput input;
  std::vector<std::string> paths;
};

// What a fetch was asked for, and what became of it, in bytes.
struct FetchCounts {
  uint64_t files = 0;  // that are not in their container
  uint64_t failed = 0;
  uint64_t asked = 0;
  uint64_t cached_before = 0;
  uint64_t verified = 0;
};

// Downloads files by several threads. A directory stands for the files below it.
class Fetcher {
 public:
  explicit Fetcher(Forest& forest) : forest_(forest) {}

  // Adds every file below a directory. In a model it adds only files/, from which the rest of its tree is built.
  void add(Ino ino, const std::string& path) {
    const auto keep = [&](Ino file, const std::string& name) {
      add_file(file, name);
      return true;
    };
    // Fetches also the layers that the files of a model are packed in: only whole ones can be verified.
    const auto examine = [&](const std::string& name, const ModelPtr& model) {
      const Completeness completeness = completeness_of(*model);
      if (!completeness.is_complete()) fail(name, {completeness.reason->code, to_sentence(completeness)});
      for (const FileCheck& check : *model->checks)
        if (check.of == FileCheck::Of::layer) files_.emplace_back(check.subject).packed = check.bytes;
    };
    walk_files(forest_, ino, path,
               {keep, [&](const std::string& name, const Error& error) { fail(name, error); }, examine});
  }

  void add_path(const std::string& path) {
    const auto ino = forest_.resolve(path, Forest::FinalLink::followed);
    if (!ino) return fail(path, ino.error());
    const auto known = forest_.known_attributes(*ino);
    if (known && known->is_directory())
      add(*ino, path);
    else
      add_file(*ino, path);
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

  // Compares the blobs of which this and earlier commands fetched all ranges.
  void verify_complete(BlobStore& store) {
    const auto verified = store.verify_complete();
    if (!verified && status() != exit_of(verified.error().code)) fail("", verified.error());
  }

  // What is not in the cache any more was evicted for other files.
  void check_that_all_is_cached(BlobStore& store) {
    for (const auto& [name, digest, size, fetched, verified, from, error] : store.status().blobs) {
      const bool is_downloaded = verified && from.find("://") != from.npos;  // not read in place
      if (is_downloaded && !store.is_local({.name = name, .digest = digest, .size = size}))
        return fail(name, evicted());
    }
    for (const File& file : files_) {
      if (status() != Exit::ok) return;
      if (file.is_local || file.source == nullptr) continue;
      // A view is more than what is cached for it. Other files are in the store's own records.
      const auto cached = file.source->cached({0, file.size});
      if (!cached)
        fail(file.path, cached.error());
      else if (cached->now < file.cached_after)
        fail(file.path, evicted());
    }
  }

  Exit status() const { return outcome_.status(); }
  std::vector<std::string> take_errors() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(errors_, {});
  }

  struct Progress {
    uint64_t done = 0;
    uint64_t total = 0;
    std::string current = {};  // the path of a file that is being downloaded
  };
  Progress progress() const {
    Progress progress;
    for (const File& file : files_) {
      const State state = file.state;
      if (state == State::waiting || file.is_local) {
        progress.total += file.is_local ? 0 : file.size.load();
        continue;
      }
      progress.total += file.size;
      if (state == State::fetched) progress.done += file.size;
      if (state != State::fetching) continue;
      progress.done += file.source->cached({0, file.size}).value_or(CachedBytes()).now;
      if (progress.current.empty()) progress.current = file.path;
    }
    return progress;
  }

  // After run().
  FetchCounts counts() const {
    FetchCounts counts;
    for (const File& file : files_) {
      if (file.is_local) continue;
      ++counts.files;
      counts.failed += file.state != State::fetched;
      counts.asked += file.size;
      counts.cached_before += file.cached_before;
      const VerifiedBy verified = file.source == nullptr ? VerifiedBy::unknown : file.source->verification();
      if (verified == VerifiedBy::whole || verified == VerifiedBy::blocks) counts.verified += file.size;
    }
    return counts;
  }

 private:
  enum class State { waiting, fetching, fetched, failed };

  // Written by one worker; `source` does not change from `fetching` on.
  struct File {
    explicit File(std::string at) : path(std::move(at)) {}

    std::string path;
    std::optional<Ino> ino = {};                  // if it is a file of the forest
    std::optional<Later<SourcePtr>> packed = {};  // else
    SourcePtr source = {};                        // null if it cannot be opened, or is not open yet
    std::atomic<uint64_t> size = 0;
    std::atomic<bool> is_local = false;
    std::atomic<uint64_t> cached_before = 0;
    std::atomic<uint64_t> cached_after = 0;  // when it was fetched
    std::atomic<State> state = State::waiting;
  };

  void add_file(Ino ino, const std::string& path) {
    File& file = files_.emplace_back(path);
    file.ino = ino;
    std::ignore = open(file);  // a failure shows when it is fetched
  }

  void run_worker() {
    for (;;) {
      const size_t index = next_++;
      if (index >= files_.size()) break;
      File& file = files_[index];
      const auto done = fetch_first(file);
      file.state = done ? State::fetched : State::failed;
      if (!done) fail(file.path, done.error());
    }
    const std::scoped_lock lock(mutex_);
    ++finished_workers_;
    changed_.notify_all();
  }

  Result<void> open(File& file) {
    if (file.source != nullptr) return {};
    file.source = TRY(file.packed ? file.packed->get() : forest_.open(*file.ino));
    file.size = file.source->size();
    file.is_local = is_ready(*file.source);
    return {};
  }

  Result<void> fetch_first(File& file) {
    TRY_VOID(open(file));
    file.cached_before = file.source->cached({0, file.size}).value_or(CachedBytes()).before;
    file.state = State::fetching;
    TRY_VOID(fetch(file));
    file.cached_after = file.source->cached({0, file.size}).value_or(CachedBytes()).now;
    // A file of a container that is larger than the cache drops its own beginning, or all that it has. A view has bytes
    // of its own, and nothing is kept of a small blob.
    const bool is_kept = file.cached_after > 0 || file.size > kSmallBlob;
    const bool is_missing = !file.is_local && is_kept && file.cached_after < file.size;
    if (is_missing && is_of_container(file.path)) return tl::unexpected(evicted());
    return {};
  }

  static bool is_of_container(std::string_view path) {
    return path.starts_with("files/") || path.find("/files/") != path.npos;
  }

  static Error evicted() {
    return {Code::io, "evicted during the download: the cache is too small; use a larger --cache-size"};
  }

  Result<void> fetch(File& file) {
    TRY_VOID(open(file));
    return file.source->prefetch({0, file.size});
  }

  void fail(const std::string& path, const Error& error) {
    const std::scoped_lock lock(mutex_);
    outcome_.note(error);
    errors_.push_back(error.message.starts_with(path) ? error.message : fmt::format("{}: {}", path, error.message));
  }

  Forest& forest_;
  std::deque<File> files_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  size_t finished_workers_ = 0;
  Outcome outcome_;
  std::vector<std::string> errors_;
};

// Shows a progress bar on a terminal, and prints a line for each verified blob.
class Reporter {
 public:
  Reporter(BlobStorePtr store, Fetcher& fetcher) : store_(std::move(store)), fetcher_(fetcher) {}

  void update() {
    for (const StoreStatus::Blob& blob : store_->status().blobs)
      if (blob.verified && reported_.insert(blob.digest.hex()).second) print_done(blob);
    for (const std::string& line : fetcher_.take_errors()) {
      bar_.clear();
      log_to_stderr(line);
    }
    if (!bar_.is_shown()) return;
    const Fetcher::Progress progress = fetcher_.progress();
    bar_.show(progress.done, progress.total, progress.current);
  }

  // Prints the totals.
  void print_summary() {
    bar_.clear();
    const StoreStatus status = store_->status();
    for (const StoreStatus::Remote& remote : status.remotes) print_ranges(remote);
    if (status.blobs.empty() && status.remotes.empty()) {
      if (fetcher_.status() == Exit::ok) std::printf("nothing to fetch: every file is in its container\n");
      return;
    }
    const FetchCounts counts = fetcher_.counts();
    const std::string of_all = counts.failed == 0 ? "" : fmt::format("{} of ", counts.files - counts.failed);
    const std::string line =
        fmt::format("{}{} {}, {}: {} cached before, {} downloaded, {} verified\n", of_all, counts.files,
                    counts.files == 1 ? "file" : "files", human_size(counts.asked), human_size(counts.cached_before),
                    human_size(status.bytes_fetched), human_size(counts.verified));
    std::fputs(line.c_str(), stdout);
  }

 private:
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
  Fetcher& fetcher_;
  ProgressBar bar_;
  std::set<std::string> reported_;
};

Exit fetch(FetchArguments& arguments) {
  arguments.input.store_flags.store.keeps_packed = true;  // they are what it was asked for
  const auto opened = open_source(arguments.input);
  if (!opened) return report_error(opened.error());
  wait_for_network(arguments.input.open_options.registries.http, arguments.input.store_flags);
  Forest& forest = *opened->forest;
  Fetcher fetcher(forest);
  if (arguments.paths.empty()) fetcher.add(Forest::kRoot, "");
  for (const std::string& path : arguments.paths) fetcher.add_path(path);
  Reporter reporter(opened->store, fetcher);
  fetcher.run([&] { reporter.update(); });
  fetcher.verify_complete(*opened->store);
  fetcher.check_that_all_is_cached(*opened->store);
  reporter.update();
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
