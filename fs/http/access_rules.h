// Who may read: names of the server, tokens, origins of web pages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"

namespace weightfs::httpd {

/// Any web page can make a browser send requests to this machine. Its name in Host shows that (DNS rebinding), so only
/// names of the server are accepted.
struct AccessRules {
  bool is_any_host = false;          ///< of a local socket, which no browser can reach
  bool is_any_address = false;       ///< a server that listens on all addresses: any address is a name of it
  std::vector<std::string> hosts;    ///< names and addresses of the server, in lower case, without ports
  std::string token;                 ///< that a request must have; empty: none
  std::vector<std::string> origins;  ///< of web pages that may read, as in Origin; "*": all
};

/// Whether the request is for this server, not by a page of another origin, and, unless the target is public, has the
/// token or the ticket of its path: else 421, 403 or 401. A link of another page may lead to a public target or `/`.
Accepted<void> check_access(const AccessRules& rules, const Request& request, const Target& target, bool is_public);

/// What stands for the token in the URL of one path: a link of a page cannot send a field. Empty without a token.
std::string ticket_of(const AccessRules& rules, const std::vector<std::string>& segments);

/// Compares in a time that depends only on the length of what was sent. `secret` must not be empty.
bool is_equal(std::string_view sent, std::string_view secret);

/// Whether the request has the token: as a Bearer token (RFC 6750), or as the password of Basic authentication, which
/// browsers ask for.
bool has_token(const AccessRules& rules, const Request& request);

/// Whether Host is a name of this machine: not that of a proxy in front of the server.
bool is_for_this_machine(const AccessRules& rules, const Request& request);

/// Whether a field says that a proxy has forwarded the request: then the client's end of the connection is the proxy's.
bool is_forwarded(const Request& request);

/// Adds the fields that let pages of permitted origins read the response (Fetch standard, CORS).
void allow_origin(const AccessRules& rules, const Request& request, Response& response);

/// Whether a target takes a POST.
enum class Posts { refused, taken };

/// The response to OPTIONS, which browsers send before a request with Range, or a POST of JSON.
Response options_response(const AccessRules& rules, const Request& request, Posts posts);

}  // namespace weightfs::httpd
