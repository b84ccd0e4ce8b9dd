// One blob being fetched from where it can be had: as a stream of plain bytes in order, over as many connections as
// help, going on where it was cut off. Nothing is believed here: whoever takes the bytes compares the digest.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/blobs.h"
#include "cache/download/memory_budget.h"
#include "cache/http/client.h"

namespace weightfs {

/// Where a blob can be had.
struct Origin {
  std::string url;
  Trust trust = Trust::user;
  std::shared_ptr<Credentials> credentials = nullptr;
};

/// What whoever answers at `url`, to which the origin led, was told of who asks; null where that is another place.
std::shared_ptr<Credentials> credentials_for(const Origin& origin, const std::string& url);

/// What a fetch that ended early left.
struct Left {
  uint64_t bytes = 0;     ///< from the first one on
  std::string from = {};  ///< FetchStream::validator() of the one that gave them; empty when it had none
};

/// How often one who fails for a moment is asked again.
struct Patience {
  int retries = 5;                                  ///< without progress in between
  std::chrono::milliseconds first_pause{500};       ///< before the first retry; doubled for each, with jitter
  std::chrono::milliseconds longest_pause{30'000};  ///< a Retry-After beyond that is a failure
};

/// How transfers go; the defaults are for people, tests make them short.
struct FetchOptions : Patience {
  int most_connections = 8;
  std::chrono::milliseconds look{200};    ///< so long after the last one, another connection may be opened
  std::chrono::milliseconds idle{3'000};  ///< so long one may bring nothing that is waited for, when another is free
  /// Shared by copies: what all their fetches may have received and not given out. Each may have 8 MiB in any case.
  std::shared_ptr<Memory> memory = std::make_shared<Memory>(uint64_t{128} << 20);
};

/// Bytes of a blob, in order.
class FetchStream : public Stream {
 public:
  /// The first byte that it gives is this one of the blob: where it was asked to go on, or 0.
  virtual uint64_t begins_at() const = 0;
  /// What a later fetch needs to know that it goes on with the same bytes (URL and ETag, one line of at most 1,000
  /// bytes); empty when the server gives nothing to know it by. Known once next() has returned.
  virtual std::string validator() const = 0;
  /// Where the bytes come from, for people; known once next() has returned.
  virtual std::string source() const = 0;
};

/// How one blob is fetched, and from where it must not be fetched again. Callable from any thread, its stream from one.
class Fetch : public std::enable_shared_from_this<Fetch> {
 public:
  /// Whoever lists more is not to make us ask them all.
  static constexpr size_t kMostOrigins = 16;

  /// `name` for messages; `size` when it is known: a server that says another has not this blob. Of `origins` the first
  /// kMostOrigins are asked.
  Fetch(HttpPtr http, std::string name, std::optional<uint64_t> size, std::vector<Origin> origins,
        FetchOptions options = {});

  /// The blob's size as all origins that answer say (HEAD); nothing when one does not tell that of the plain bytes, or
  /// they differ. Fails as a fetch does when none can be asked. Whoever wants to know a size lists a directory, maybe:
  /// all together get no longer than one may take to connect and to stall.
  Result<std::optional<uint64_t>> size(const std::atomic<bool>& stop);

  /// Begins, or goes on after `left`. Asks nobody before the first next(). Each origin is asked once before any is
  /// asked again, and one that brings bytes as long as it does (HttpOptions::least_speed). next() fails with
  /// unreachable when no origin gives it, with not_found when all say that they have not got it, with unsupported when
  /// no URL may be asked, with corrupt when what came cannot be it (a wrong length, a broken encoding). `stop` outlives
  /// the stream.
  Result<std::unique_ptr<FetchStream>> begin(const Left& left, const std::atomic<bool>& stop);

  /// What was fetched proved to be other bytes (its stream is gone): the origins that gave some of it are not asked
  /// again, unless several or an earlier fetch had a part in it. Whether it is worth to begin anew, with nothing left.
  bool reject();

  /// As they were given.
  const std::vector<Origin>& origins() const { return origins_; }

 private:
  class Transfer;

  bool is_rejected(size_t origin);
  void note_giver(size_t origin);
  void forget_earlier();
  size_t asked() const { return std::min(origins_.size(), kMostOrigins); }

  struct SizeAt;
  SizeAt size_at(const Origin& origin, std::chrono::steady_clock::time_point until, const std::atomic<bool>& stop);

  const HttpPtr http_;
  const std::string name_;
  const std::optional<uint64_t> size_;
  const std::vector<Origin> origins_;
  const FetchOptions options_;
  std::mutex mutex_;  // guards the rest, which transfers leave here
  std::set<size_t> rejected_;
  std::set<size_t> gave_;  // of the last transfer
  bool earlier_ = false;   // an earlier fetch had a part in it
  int unexplained_ = 0;    // how often nobody in particular was to blame
};

using FetchPtr = std::shared_ptr<Fetch>;

}  // namespace weightfs
