// The headers of --header-file: lines of a file that are sent to one server, such as keys of artifact stores.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/http/client.h"

namespace weightfs::header_file {

inline constexpr size_t kMaxFile = 16 * 1024;  ///< bytes
inline constexpr size_t kMaxLines = 32;        ///< headers

/// "Name: value" of each line (RFC 9110, sections 5.1 and 5.5), without those that are empty or begin with `#`. Fails
/// with unsupported if a line is not a header, or one that each request sets by itself; the message has the number of
/// the line, never its value.
Result<std::vector<std::string>> parse(std::string_view text);

/// Whether one of the headers is `name`, in lower case.
bool has(const std::vector<std::string>& headers, std::string_view name);

/// The headers of a private file (read_private_file()). It is read again when it changes, and when the server answers
/// 401 or 403, then at most every 10 seconds. If that fails, the last headers are sent. `token`: further credentials,
/// for Authorization; may be null. Fails as read_private_file() and parse() do, and with unsupported if both have an
/// Authorization.
Result<http::CredentialsPtr> credentials(
    std::string path, http::CredentialsPtr token = nullptr,
    std::function<std::chrono::steady_clock::time_point()> now = &std::chrono::steady_clock::now);

}  // namespace weightfs::header_file
