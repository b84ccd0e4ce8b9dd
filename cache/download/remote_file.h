// A file that one or several servers have, and requests for its bytes: the origins are tried in turn, failures are
// retried, and responses are checked. (RFC 9110: 13.1.2 If-None-Match, 14 ranges.)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/source.h"
#include "cache/download/range_request.h"

namespace weightfs::download {

class MirrorScheduler;

/// Thread-safe.
class RemoteFile {
 public:
  using Sink = RangeRequest::Sink;

  static constexpr uint64_t kHead = 16 * 1024;  ///< bytes that open() requests

  /// Limits the requests that a container with many URLs can cause: further origins are not used.
  static constexpr size_t kMaxOrigins = 16;

  /// `name` is for messages; empty for a file that is named by its URL. If `size` is known, origins that report another
  /// size are not used. Sends no request.
  RemoteFile(http::ClientPtr http, std::string name, std::vector<Origin> origins, std::optional<uint64_t> size,
             RetryPolicy retries);

  /// A file whose version is known from a listing or an earlier response, which had the bytes `head`, perhaps none. A
  /// version without a strong ETag is that of the first response. Sends no request. Without `http` (--offline), fetch()
  /// fails with network.
  static std::shared_ptr<RemoteFile> of_version(http::ClientPtr http, Origin origin, FileVersion version,
                                                std::string head, RetryPolicy retries);

  /// A file whose digest is known, and whose version an earlier process has seen: a server may have given the same
  /// bytes another version since. All responses have the version of the first one, which has a strong ETag. Sends no
  /// request.
  static std::shared_ptr<RemoteFile> of_digest(http::ClientPtr http, std::string name, Origin origin,
                                               FileVersion version, RetryPolicy retries);

  /// Requests the first bytes, to learn the size, the version, and whether the server sends ranges. A server that still
  /// has the version `known` sends no bytes. Fails as fetch(), and with unsupported if the server does not report a
  /// size. Must end before other calls.
  Result<void> open(const std::optional<FileVersion>& known, const std::stop_token& stop);

  /// Whose report of a size counts.
  enum class SizeBy { any, server };  ///< server: what only mirrors report does not
  /// Asks for the size without downloading (HEAD): as reported by all origins that respond; nothing if one does not
  /// report the decoded size, if they differ, or if none that counts does. Fails as fetch() when no origin responds.
  /// All requests together take at most one connect and stall timeout, because listing a directory may wait for it.
  Result<std::optional<uint64_t>> query_size(const std::stop_token& stop, SizeBy counts = SizeBy::any);

  /// Requests the bytes of the range, and passes them to `sink` in order; resumes after the last byte received. A range
  /// without end (UINT64_MAX) is the whole file of unknown size. A server without ranges sends all bytes from the first
  /// one on; they are passed until the sink needs no more.
  /// Each origin is tried once before any is retried; one is used as long as it makes progress
  /// (http::Options::min_speed). Fails with network when no origin delivers the bytes, not_found when all report that
  /// the file is missing, unsupported when no URL is allowed, corrupt when the bytes cannot be the file's (wrong
  /// length, another version, invalid encoding), and as the sink does.
  Result<void> fetch(ByteRange range, const Sink& sink, const std::stop_token& stop,
                     http::Urgency urgency = http::Urgency::waited_for);

  /// Reports that the file did not match its digest; `was_resumed`: some of its bytes came from another process.
  /// Excludes the origin that sent all of it. Returns whether another attempt from the first byte makes sense.
  bool reject(bool was_resumed);

  /// Forgets what earlier requests found, and earlier rejections. No other call may be active.
  void reset();

  /// 0 if unknown.
  uint64_t size() const { return size_.value_or(0); }
  /// As open() found it.
  const FileVersion& version() const { return version_; }
  /// The SHA-256 of the file as the response to open() has stated it; nothing if it has not.
  const std::optional<Digest>& stated_digest() const { return stated_digest_; }
  /// The first bytes that open() received: kHead, or fewer.
  const std::string& head() const { return head_; }

  /// Whether the origin in use sends ranges; nothing if it was not asked yet.
  std::optional<bool> has_ranges() const;
  /// The URL that the user or container named.
  std::string url() const;
  /// That URL without its query: "https://example.com/model.gguf".
  std::string printable() const { return http::printable_url(url()); }

  uint64_t requests() const { return requests_; }

 private:
  template <class Attempt>
  Result<void> try_origins(const std::stop_token& stop, Attempt attempt);
  Outcome fetch_from(size_t origin, ByteRange& range, uint64_t& passed, const Sink& sink, MirrorScheduler& mirrors,
                     const std::stop_token& stop, http::Urgency urgency);
  Outcome probe(size_t origin, const std::optional<FileVersion>& known, const std::stop_token& stop);
  OriginState state(size_t origin) const;
  template <class Change>
  void change_state(size_t origin, Change change);
  void report_if_mirror(size_t origin, const Error& error) const;

  const http::ClientPtr http_;
  const std::string name_;
  const RetryPolicy retries_;
  std::optional<uint64_t> size_;
  FileVersion version_;
  std::optional<Digest> stated_digest_;
  std::string head_;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<size_t> current_ = 0;   // the origin that was used last
  mutable std::mutex mutex_;          // guards the rest
  std::vector<OriginState> origins_;  // their number does not change
  int unattributed_ = 0;              // rejections without a single responsible origin
};

using RemoteFilePtr = std::shared_ptr<RemoteFile>;

}  // namespace weightfs::download
