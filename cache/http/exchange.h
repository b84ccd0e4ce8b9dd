// One URL asked once, over a connection of libcurl's: what http.cc makes whole requests of. Here every connection is
// held against the bounds of the one who named the URL.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "cache/http/client.h"

namespace weightfs {

/// What must be known of a URL before it is asked.
struct Place {
  std::string url;  ///< normal form, without a fragment
  std::string scheme;
  std::string host;
  std::string origin;
};

/// Fails with unsupported when the URL is one that nobody may ask for.
Result<Place> place_of(const std::string& text);

/// Where the addresses that a URL leads to may lie.
struct Bounds {
  bool public_only = false;
  bool loopback_only = false;
  std::string_view who = {};

  /// Why not there; empty when it may.
  std::string forbid(const sockaddr& address) const;
};

/// What libcurl needs for a request, with the connections that it keeps.
struct Handle;
struct HandleEnd {
  void operator()(Handle* handle) const;
};
using HandlePtr = std::unique_ptr<Handle, HandleEnd>;
HandlePtr new_handle();

/// What is asked, of whom.
struct Question {
  const HttpOptions& options;
  const Request& request;
  const Receiver& receiver;
  Place place;
  Bounds bounds;
  std::string authorization = {};
  bool may_be_challenged = false;
};

/// What came of it. Only of a final answer was the receiver told.
struct Hopped {
  enum class Kind { final, redirect, challenge };
  Kind kind;
  Answer answer;
  std::string kept;  ///< the beginning of a challenge's body
};

Result<Hopped> hop(Handle& handle, const Question& question, const std::atomic<bool>& stop);

}  // namespace weightfs
