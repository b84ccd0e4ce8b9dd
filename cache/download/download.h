// Downloads one blob as a stream of decoded bytes in order, over one or more connections and mirrors, and resumes after
// interruptions. The caller verifies the digest.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "base/blobs.h"
#include "cache/download/memory_budget.h"
#include "cache/http/client.h"

namespace weightfs::download {

/// A URL from which a blob can be downloaded, with its credentials.
struct Origin {
  std::string url;
  http::Trust trust = http::Trust::user;
  std::shared_ptr<http::Credentials> credentials = nullptr;
};

/// The origin's credentials, if `url` (the origin's URL or a redirect target) has the same scheme, host and port; else
/// null.
std::shared_ptr<http::Credentials> credentials_for(const Origin& origin, const std::string& url);

/// The bytes that an interrupted download left.
struct ResumePoint {
  uint64_t bytes = 0;          ///< starting at the first byte
  std::string validator = {};  ///< FetchStream::validator() of that download; empty if it had none
};

/// How temporary failures are retried.
struct RetryPolicy {
  int retries = 5;                              ///< without progress in between
  std::chrono::milliseconds first_delay{500};   ///< before the first retry; doubled each time, with jitter
  std::chrono::milliseconds max_delay{30'000};  ///< a longer Retry-After is a failure
};

/// Download settings; tests set short times.
struct FetchOptions : RetryPolicy {
  int max_connections = 8;
  std::chrono::milliseconds scale_up_interval{200};  ///< minimum time between opening connections
  std::chrono::milliseconds reassign_after{3'000};   ///< a stalled chunk is then given to an idle connection
  /// Shared by copies: limits the received and unread bytes of all their downloads. Each download may hold 8 MiB in any
  /// case.
  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>(uint64_t{128} << 20);
};

/// The bytes of a blob, in order.
class FetchStream : public Stream {
 public:
  /// The blob's offset of the stream's first byte: the resume point, or 0.
  virtual uint64_t begins_at() const = 0;
  /// A line of at most 1,000 bytes (URL and ETag) by which a later download checks that it resumes the same bytes;
  /// empty if the server sends no strong ETag. Valid after next() returned.
  virtual std::string validator() const = 0;
  /// The current origin, for messages; valid after next() returned.
  virtual std::string source() const = 0;
};

/// The download of one blob, with the origins that were found to serve wrong bytes. Thread-safe; its stream is not.
class Fetch : public std::enable_shared_from_this<Fetch> {
 public:
  /// Limits the requests that a container with many URLs can cause.
  static constexpr size_t kMaxOrigins = 16;

  /// `name` is for messages. If `size` is known, origins that report another size are rejected. Only the first
  /// kMaxOrigins of `origins` are used.
  Fetch(http::ClientPtr http, std::string name, std::optional<uint64_t> size, std::vector<Origin> origins,
        FetchOptions options = {});

  /// The blob's size as reported by all responding origins (HEAD); nothing if one does not report the decoded size, or
  /// if they differ. Fails as begin() does when no origin responds. All requests together take at most one connect and
  /// stall timeout, because listing a directory may wait for it.
  Result<std::optional<uint64_t>> size(const std::stop_token& stop);

  /// Starts the download, or resumes it. Sends no request before the first next(). Each origin is tried once before any
  /// is retried; an origin is used as long as it makes progress (http::Options::min_speed). next() fails with network
  /// when no origin delivers the blob, not_found when all report that it is missing, unsupported when no URL is
  /// allowed, corrupt when the bytes cannot be the blob (wrong length, invalid encoding). `stop` must outlive the
  /// stream.
  Result<std::unique_ptr<FetchStream>> begin(const ResumePoint& resume, const std::stop_token& stop);

  /// Reports that the downloaded bytes failed verification; the stream must be destroyed before. Excludes the origin
  /// that sent them, if it was the only one and nothing was resumed. Returns whether another attempt from the first
  /// byte makes sense.
  bool reject();

  /// In the given order.
  const std::vector<Origin>& origins() const { return origins_; }

 private:
  class Transfer;

  bool is_rejected(size_t origin);
  void record_contributor(size_t origin);
  void forget_resumed_data();
  size_t origin_count() const { return std::min(origins_.size(), kMaxOrigins); }

  struct SizeReply;
  SizeReply query_size(const Origin& origin, std::chrono::steady_clock::time_point until, const std::stop_token& stop);

  const http::ClientPtr http_;
  const std::string name_;
  const std::optional<uint64_t> size_;
  const std::vector<Origin> origins_;
  const FetchOptions options_;
  std::mutex mutex_;  // guards the rest
  std::set<size_t> rejected_;
  std::set<size_t> contributors_;  // origins of the last transfer's bytes
  bool has_resumed_data_ = false;  // the last transfer resumed an earlier one
  int unattributed_ = 0;           // rejections without a single responsible origin
};

using FetchPtr = std::shared_ptr<Fetch>;

}  // namespace weightfs::download
