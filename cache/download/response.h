// Interprets response headers. (RFC 9110: 8.4 encodings, 8.8.3 ETag, 14 ranges.)
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"
#include "base/verity/block_list.h"
#include "cache/http/client.h"
#include "cache/http/retry_after.h"

namespace weightfs::download {

/// "bytes 0-9/100", "bytes 0-9/*", "bytes */100".
struct ContentRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> last;
  std::optional<uint64_t> total;
};
/// Nothing for an invalid or contradictory text.
std::optional<ContentRange> parse_content_range(std::string_view text);

using http::parse_rate_limit;
using http::parse_retry_after;
using http::requested_delay;

/// The length of the decoded body, if known.
std::optional<uint64_t> content_length(const http::Response& response);

/// Whether the response says that it is HTML.
bool is_web_page(const http::Response& response);
/// Whether a body with these first bytes is HTML, whatever the response says.
bool begins_web_page(std::string_view body);

/// Why a response 200 to 206 does not tell the size of the whole file: "206 Partial Content without a content-range".
std::string why_no_size(const http::Response& response);

/// The SHA-256 that a Repr-Digest states of the whole file, also in the response to a range (RFC 9530, section 3);
/// nothing if there is none, or if the response is encoded.
std::optional<Digest> stated_digest(const http::Response& response);

/// What identifies the bytes of a remote file.
struct FileVersion {
  uint64_t size = 0;
  /// The ETag, if it is strong: equal tags mean equal bytes. Also one without quotes, as some registries send it.
  std::string etag = {};
  /// A weak ETag and Last-Modified: they detect most changes, but prove nothing.
  std::string weak = {};

  bool is_pinned() const { return !etag.empty(); }
  /// Whether it may be compared by If-Match: a tag without quotes may not be sent.
  bool has_quoted_etag() const { return etag.starts_with('"'); }
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// Identifies the bytes across processes: the URL and its version. Nothing without a strong ETag. Bytes that a block
/// list verified are kept apart.
std::optional<std::string> identity_of(const std::string& url, const FileVersion& version,
                                       const BlockListPtr& list = nullptr);
/// The identity of a file whose digest the server named: whatever its URL on that server, such as that of another
/// commit. Another server may have sent other bytes.
std::optional<std::string> identity_of(const std::string& url, const FileVersion& version, const Digest& digest,
                                       const BlockListPtr& list);

/// A tag without its quotes: some registries send them for a cached file only.
std::string_view unquoted(std::string_view etag);

/// The version that a response states; `size` is that of the whole file.
FileVersion version_of(const http::Response& response, uint64_t size);

/// What the response to a request for the first bytes of a file says about the file.
struct Head {
  FileVersion version = {};
  uint64_t expected = 0;   ///< bytes of the body that are used
  bool has_ranges = true;  ///< the server sends ranges; a short file may be sent whole
};

/// Nothing if the response is an error, or does not tell the size of the file. `known` is the version whose ETag the
/// request excludes; `most` are the bytes that it asks for.
std::optional<Head> head_of(const http::Response& response, const std::optional<FileVersion>& known, uint64_t most);

/// Whether a response of version `sent` is one of `version`, as far as its headers tell.
bool is_same_version(const FileVersion& version, const FileVersion& sent);

/// The version as text, and back; nothing for an invalid text.
std::string version_text(const FileVersion& version);
std::optional<FileVersion> parse_version(std::string_view text);

/// The result of a request.
struct Outcome {
  enum class Next {
    done,         ///< bytes were received, or are no longer needed
    retry_now,    ///< send a different request at once
    retry_later,  ///< retry after a delay
    give_up,      ///< do not use this origin again
    stop,         ///< use no other origin either: the receiver of the bytes failed
  };
  Next next = Next::done;
  Error error = {Code::network, ""};
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< as requested by the server
  bool is_deferred = false;                                   ///< as http::Response::is_deferred
};

/// The result for an error status, with the server's X-Error-Message as shown_reason(). `credentials` are those sent,
/// for the message of a denied request; may be null.
Outcome outcome_of(const http::Response& response, http::Credentials* credentials = nullptr);

/// The result for a request that failed before or during the response.
Outcome outcome_of(const Error& error);

/// Whether the body of an error response says that the connection was idle for too long, which object stores report
/// with status 400, and which a retry may overcome. (Amazon S3 API Reference, "List of error codes".)
bool is_timeout_of_store(std::string_view body);

}  // namespace weightfs::download
