// The user's logins for web servers in ~/.netrc, which ftp(1) and curl(1) read, too. It is parsed here and not by
// libcurl, which has sent such logins to targets of redirects (CVE-2024-11053).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/http/client.h"

namespace weightfs::netrc {

struct Login {
  std::string user;
  std::string password;
  friend bool operator==(const Login&, const Login&) = default;
};

/// The login of the first `machine` with this name, without regard to case. An entry `default`, which would be sent to
/// any server, and what follows it are ignored; so are macros. Words may be in double quotes (curl 7.84).
std::optional<Login> find_login(std::string_view text, std::string_view host);

/// $NETRC, or ~/.netrc. It may be missing.
std::string path();

/// The login for the server at this URL, for a keyring: only over https. Without a login, the description says why:
/// also if others may read the file, or it belongs to another user, as it is not used then.
http::CredentialsPtr credentials_for(const std::string& server);

}  // namespace weightfs::netrc
