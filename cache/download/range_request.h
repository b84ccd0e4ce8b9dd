// A request to one origin for bytes of a file: the response is checked, and its bytes are passed on as they arrive.
// (RFC 9110: 13.1.1 If-Match, 14 ranges, 15.3.7 status 206.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "base/source.h"
#include "cache/download/origin.h"
#include "cache/download/response.h"

namespace weightfs::download {

/// What requests to an origin have found.
struct OriginState {
  Origin origin;
  std::string redirect = {};  ///< the URL that it redirected to, which may be signed and expire; empty: none
  bool is_public = false;     ///< the server that responded last is
  std::optional<bool> has_ranges = {};
  std::optional<FileVersion> version = {};  ///< of the first response
  bool needs_pinned_version = false;        ///< a first response without one is that of a file that has changed
  bool had_other_version = false;           ///< a response had; a later one may have this version again,
  bool has_versions_in_turn = false;        ///< and did: several servers answer
  bool is_rejected = false;
  bool has_contributed = false;  ///< sent bytes since the last rejection

  const std::string& url() const { return redirect.empty() ? origin.url : redirect; }
  void set_server(const http::Response& response);
};

/// The request for the whole file.
http::Request request_to(const Origin& origin);
/// The outcome of a response without the requested bytes.
Outcome refusal(const Origin& origin, const http::Response& response);
/// Ends a request early; the outcome is recorded elsewhere.
tl::unexpected<Error> enough();
Error wrong_size(const std::string& url, uint64_t size, uint64_t expected);

/// Bytes of the body of an error response that are read.
constexpr size_t kMaxErrorBody = 4096;

/// For one call of perform(), by one thread.
class RangeRequest {
 public:
  /// Receives bytes; false: no more are needed. Without bytes, it is called before more are waited for, and as
  /// http::ResponseHandler::on_wait.
  using Sink = std::function<Result<bool>(uint64_t offset, std::span<const std::byte> bytes)>;
  /// Changes the state of the origin, which other requests use, too.
  using ChangeState = std::function<void(const std::function<void(OriginState&)>& change)>;
  struct File {
    http::Client& http;
    const std::string& name;  ///< for messages; empty for a file that is named by its URL
    std::optional<uint64_t> size;
    http::Urgency urgency = http::Urgency::waited_for;
  };

  /// For the bytes of the range, or for all bytes, if the origin sends no ranges: then those before `passed` are not
  /// passed to the sink again.
  RangeRequest(File file, OriginState state, ChangeState change_state, ByteRange range, uint64_t passed,
               const Sink& sink);

  Outcome perform(const std::stop_token& stop);

  /// The next byte.
  uint64_t at() const { return at_; }
  /// Bytes that were passed to the sink.
  uint64_t received() const { return received_; }
  /// Whether the server sent the whole file.
  bool is_whole() const { return is_whole_; }
  /// Nothing more to request: the range is complete, or the file ends, or the sink needs no more.
  bool is_complete() const { return is_whole_ || is_enough_ || at_ == range_.to || at_ == total_; }

 private:
  const Origin& origin() const { return state_.origin; }
  std::string printable() const { return http::printable_url(state_.url()); }
  Error changed() const;
  Outcome other_version() const;
  http::Request request() const;
  Result<void> on_response(const http::Response& response);
  Result<void> on_part(const http::Response& response, const std::optional<ContentRange>& range);
  Result<void> on_whole(const http::Response& response);
  Result<void> on_body(std::span<const std::byte> bytes);
  Result<void> on_wait();
  Outcome with_error_text(Outcome outcome) const;
  Result<void> check_version(const http::Response& response, std::optional<uint64_t> size) const;
  void remember(const http::Response& response, std::optional<bool> has_ranges) const;
  void forget_redirect() const;
  Result<void> pass(std::span<const std::byte> bytes);
  Outcome after_body();
  Result<void> end(Outcome outcome);

  const File file_;
  const OriginState state_;  // before the request
  const ChangeState change_state_;
  const ByteRange range_;
  const uint64_t passed_;
  const Sink& sink_;
  bool is_ranged_ = false;
  bool is_whole_ = false;   // the server sends the whole file
  bool is_enough_ = false;  // the sink needs no more
  uint64_t at_ = 0;         // the next byte
  uint64_t end_ = UINT64_MAX;
  bool has_length_ = false;  // the response ends soon, whether the connection does or not
  uint64_t before_ = 0;      // bytes of the body before the requested ones
  uint64_t after_ = 0;       // bytes of the body after the requested ones that are read, to use the connection again
  uint64_t received_ = 0;    // bytes passed to the sink
  std::optional<uint64_t> total_;
  std::optional<Outcome> outcome_;
  std::string error_body_;
};

}  // namespace weightfs::download
