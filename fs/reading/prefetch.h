// Downloads data of a mount before it is read, in one background thread: the tensors after those that were read in
// order, or all files. Data of local files is never read for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "fs/tree/forest.h"

namespace weightfs {

enum class PrefetchMode {
  off,
  in_order,  ///< tensors after those that were read in the order of their container
  all,       ///< all files
};

struct PrefetchOptions {
  PrefetchMode mode = PrefetchMode::in_order;
  uint64_t cache_size = UINT64_MAX;                  ///< bytes that the cache can hold
  std::function<void(const std::string&)> log = {};  ///< receives the first error
};

/// Thread-safe. The thread is started by the first work, so that a mount can still fork before.
class Prefetch {
 public:
  static constexpr size_t kMinRun = 3;                ///< tensors that were read in order
  static constexpr uint64_t kFirstWindow = 32 << 20;  ///< bytes ahead of the reader; doubles with each tensor
  static constexpr uint64_t kMaxWindow = 256 << 20;   ///< and never more than a quarter of the cache
  static constexpr uint64_t kMaxRequest = 32 << 20;   ///< bytes that still arrive after a cancellation
  static constexpr uint64_t kMinSpace = 8 << 20;      ///< free bytes of the window before more are requested
  static constexpr size_t kMaxSkipped = 16;           ///< local tensors after each one that was read
  static constexpr size_t kMaxEmpty = 64;             ///< empty tensors in a row that do not end the order
  static constexpr size_t kMaxTogether = 1024;        ///< tensors in one request

  /// The forest must outlive it.
  Prefetch(Forest& forest, PrefetchOptions options);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  /// Begins to download all files, with PrefetchMode::all.
  void start();
  /// Cancels the download, and begins no other. Does not wait for its end.
  void stop();

  /// Cancels the download if a file is read that is a tensor out of order. Called at the first read of an open file.
  void begin_file(Ino file);
  /// Continues the order if the file is the next tensor. Called when the last byte of a file has been read.
  void finish_file(Ino file);

  /// A read in progress: no file is downloaded meanwhile with PrefetchMode::all.
  class Read {
   public:
    explicit Read(Prefetch& prefetch) : prefetch_(prefetch) { ++prefetch_.reads_; }
    ~Read() { --prefetch_.reads_; }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

   private:
    Prefetch& prefetch_;
  };

 private:
  // A range to download.
  struct Request {
    SourcePtr source;
    ByteRange range;
    uint64_t run;
  };

  bool continues(const Forest::TensorRef& tensor) const;
  bool has_space() const;
  bool finds_request(const Model& model);
  void restart();
  void start_thread(void (Prefetch::*work)(const std::stop_token&));
  std::optional<Request> next_request();
  void fetch_in_order(const std::stop_token& stop);
  void fetch_all(const std::stop_token& stop);
  Result<void> fetch_file(Ino file, uint64_t& left, const std::stop_token& stop);
  void wait_for_readers(const std::stop_token& stop);
  void report(const Error& error);

  Forest& forest_;
  const PrefetchOptions options_;
  std::atomic<uint64_t> reads_ = 0;  // in progress
  std::atomic<uint64_t> run_ = 0;    // the number of the current run: requests of earlier ones are cancelled
  std::mutex mutex_;                 // guards the rest
  std::condition_variable_any changed_;
  std::weak_ptr<const Model> model_;  // of the run
  size_t last_ = 0;                   // the tensor that was read last
  size_t length_ = 0;                 // tensors of the run
  uint64_t window_ = 0;
  size_t next_ = 0;           // the tensor to request
  uint64_t next_offset_ = 0;  // in it
  uint64_t ahead_ = 0;        // bytes between the end of last_ and there
  bool is_stopped_ = false;
  bool has_logged_ = false;
  std::jthread thread_;
};

}  // namespace weightfs
