// A file on a server that is read by ranges: its size and validator, and one request for a range of it. (RFC
// 9110: 13.1.1 If-Match, 13.1.2 If-None-Match, 14 ranges, 15.3.7 status 206.)
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "cache/download/download.h"
#include "cache/download/origin_info.h"

namespace weightfs::download {

/// What identifies the bytes of a remote file.
struct FileVersion {
  uint64_t size = 0;
  /// The ETag, if it is strong: equal tags mean equal bytes. Also one without quotes, as some registries send it.
  std::string etag = {};
  std::string last_modified = {};  ///< detects most changes, but proves nothing

  bool is_pinned() const { return !etag.empty(); }
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// The version as text, and back; nothing for an invalid text.
std::string version_text(const FileVersion& version);
std::optional<FileVersion> parse_version(std::string_view text);

/// Thread-safe.
class RemoteFile {
 public:
  /// Receives bytes in order.
  using Sink = std::function<Result<void>(uint64_t offset, std::span<const std::byte> bytes)>;

  static constexpr uint64_t kHead = 16 * 1024;  ///< bytes that open() requests

  /// Requests the first bytes of the file at `origin`, and passes them to on_head if the server sent them. A server
  /// that still has the version `known` sends none. Fails with not_found, with network, with unsupported if the server
  /// does not report a size or a rule forbids the URL.
  static Result<std::shared_ptr<RemoteFile>> open(http::ClientPtr http, Origin origin, RetryPolicy retries,
                                                  const std::optional<FileVersion>& known, const std::stop_token& stop);

  /// A file of a known version whose server is not asked: fetch() fails with network.
  static std::shared_ptr<RemoteFile> offline(Origin origin, FileVersion version);

  const FileVersion& version() const { return version_; }
  /// The first bytes that open() received: kHead, or fewer.
  const std::string& head() const { return head_; }
  const std::string& url() const { return origin_.url; }
  /// "https://example.com/model.gguf", without a query.
  std::string printable() const { return http::printable_url(origin_.url); }
  /// Whether the server sends ranges. If not, fetch() requests the whole file.
  bool has_ranges() const;

  /// Requests the bytes of the range, or all of the file, and passes them to `sink`; retries, and resumes after the
  /// last byte received. Fails with corrupt if the file has changed on the server, with network, and as the sink does;
  /// with unsupported if the server turns out to ignore ranges.
  Result<void> fetch(ByteRange range, const Sink& sink, const std::stop_token& stop);

  uint64_t requests() const { return requests_; }

 private:
  class RangeGet;

  RemoteFile(http::ClientPtr http, Origin origin, RetryPolicy retries)
      : http_(std::move(http)), origin_(std::move(origin)), retries_(retries), url_(origin_.url) {}

  Outcome probe(const std::optional<FileVersion>& known, const std::stop_token& stop);
  std::string current_url() const;
  void set_current_url(const std::string& url);

  const http::ClientPtr http_;
  const Origin origin_;
  const RetryPolicy retries_;
  FileVersion version_;
  std::string head_;
  std::atomic<uint64_t> requests_ = 0;
  mutable std::mutex mutex_;  // guards the rest
  std::string url_;           // after redirects; they may be signed and expire
  bool is_public_ = false;    // the server at url_ was
  bool has_ranges_ = true;
};

using RemoteFilePtr = std::shared_ptr<RemoteFile>;

}  // namespace weightfs::download
