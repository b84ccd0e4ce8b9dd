// What the process that reads containers and the fetcher say to each other. A request is one message on a socket
// (SOCK_SEQPACKET), with one end of a stream on which its answer comes: frames of a kind, a size and that many bytes.
// The request ends early when either end of the stream is closed. Numbers are little-endian; neither side trusts the
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/fetcher.h"

namespace weightfs::fetcher {

inline constexpr size_t kMaxRequest = 64 * 1024;  ///< bytes of a request
inline constexpr size_t kMaxFrame = 256 * 1024;   ///< bytes of a frame, without its header

enum class Frame : uint8_t {
  response = 1,  ///< a response without its body; once
  body,          ///< the next bytes
  wait,          ///< all bytes that have arrived were sent; before the response: the request waits for its turn
  end,           ///< the result; last
};

/// The header of a frame.
inline constexpr size_t kFrameHeader = 5;
struct FrameHeader {
  Frame kind;
  uint32_t size;
};

/// What the fetcher tells with a response, and at the end: a request may be given up before that.
struct Told {
  std::string credentials = {};                   ///< Credentials::description(); empty: as before
  http::KeyOrigin keys = {};                      ///< Credentials::key_origin()
  std::map<std::string, uint64_t> requests = {};  ///< sent since the last time, by origin
};

struct Answered {
  http::Response response;
  Told told = {};
};

/// How a request ended.
struct Ended {
  std::optional<Error> error = {};
  Told told = {};
};

std::string pack(const Asked& asked);
std::string pack(const Answered& answered);
std::string pack(const Ended& ended);
std::string pack(const FrameHeader& header);

/// These fail with corrupt.
Result<Asked> unpack_request(std::string_view bytes);
Result<Answered> unpack_response(std::string_view bytes);
Result<Ended> unpack_end(std::string_view bytes);
Result<FrameHeader> unpack_header(std::string_view bytes);

}  // namespace weightfs::fetcher
