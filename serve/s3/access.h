// Who may read objects by access keys: AWS Signature Version 4, in the Authorization header or in the query of a
// presigned URL (base/signing/sigv4.h).
#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fs/http/protocol/message.h"

namespace weightfs::objects {

/// Secrets by the ids of their keys. Never logged or printed.
using AccessKeys = std::map<std::string, std::string>;

/// Parses lines `ACCESS_KEY SECRET`; empty lines and those that begin with `#` are ignored. Fails with unsupported for
/// other lines, without quoting them, for a key that is there twice, and if there is none.
Result<AccessKeys> parse_access_keys(std::string_view text);

/// Why a request is refused: a status, the code of the error, and a sentence.
struct Denial {
  int status;
  const char* code;
  std::string message;
};

inline constexpr std::time_t kMaxSkew = 15 * 60;                ///< seconds, of a client's clock
inline constexpr std::time_t kMaxPresigned = 7 * 24 * 60 * 60;  ///< seconds that a presigned URL may be valid

/// Whether one of the keys signed the request; nothing if it did. Signed must be `host` and each x-amz-* field; the
/// region may be any. Secrets are compared in constant time.
std::optional<Denial> check_signature(const AccessKeys& keys, const httpd::Request& request, std::time_t now);

}  // namespace weightfs::objects
