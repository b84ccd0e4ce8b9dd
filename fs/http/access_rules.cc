#include "fs/http/access_rules.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/base64.h"

namespace weightfs::httpd {
namespace {

constexpr std::string_view kMethods = "GET, HEAD, OPTIONS";

// Without the port, and without the brackets of IPv6.
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, std::min(host.find(']'), host.size()) - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> out{};
  return ::inet_pton(AF_INET, name.c_str(), out.data()) == 1 || ::inet_pton(AF_INET6, name.c_str(), out.data()) == 1;
}

bool is_own_name(const AccessRules& rules, std::string_view host) {
  if (rules.is_any_host) return true;
  std::string name = lower_case(name_of(host));
  if (name.ends_with('.')) name.pop_back();
  return std::ranges::find(rules.hosts, name) != rules.hosts.end() || (rules.is_any_address && is_address(name));
}

const std::string* permitted_origin(const AccessRules& rules, const Request& request) {
  const std::string* const origin = request.field("origin");
  // RFC 6454, section 6.2: no white space. A field's value may have tabs, which would be sent back.
  if (origin == nullptr || origin->empty() || !is_visible_ascii(*origin)) return nullptr;
  const bool is_permitted =
      std::ranges::any_of(rules.origins, [&](const std::string& each) { return each == "*" || each == *origin; });
  return is_permitted ? origin : nullptr;
}

// A page of another origin has made the browser send it (Origin; Fetch Metadata Request Headers, which are sent to
// https and to this machine). Such a page must not even learn whether a file exists, by the events of its elements, or
// by what becomes of a window that it opens: links only lead to what is always there.
bool is_of_another_page(const Request& request, bool may_be_linked) {
  const std::string* const origin = request.field("origin");
  const std::string* const host = request.field("host");
  if (origin != nullptr && host != nullptr && !origin->ends_with("://" + *host)) return true;
  const std::string* const site = request.field("sec-fetch-site");
  if (site == nullptr || (*site != "cross-site" && *site != "same-site")) return false;
  const std::string* const destination = request.field("sec-fetch-dest");
  return !may_be_linked || destination == nullptr || *destination != "document";
}

}  // namespace

bool is_forwarded(const Request& request) {
  constexpr auto kFields = std::to_array<std::string_view>(
      {"forwarded", "x-forwarded-for", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"});
  return std::ranges::any_of(kFields, [&](std::string_view field) { return request.field(field) != nullptr; });
}

bool is_equal(std::string_view sent, std::string_view secret) {
  unsigned difference = sent.size() == secret.size() ? 0U : 1U;
  for (size_t i = 0; i < sent.size(); ++i)
    difference |= static_cast<unsigned>(static_cast<unsigned char>(sent[i]) ^
                                        static_cast<unsigned char>(secret[i % secret.size()]));
  return difference == 0;
}

bool has_token(const AccessRules& rules, const Request& request) {
  const std::string* const field = request.field("authorization");
  if (rules.token.empty() || field == nullptr) return false;
  const size_t space = std::min(field->find(' '), field->size());
  const std::string scheme = lower_case(field->substr(0, space));
  const std::string_view credentials = trimmed(std::string_view(*field).substr(space));
  if (scheme == "bearer") return is_equal(credentials, rules.token);
  if (scheme != "basic") return false;
  const auto user_and_password = from_base64(credentials);
  const size_t colon = user_and_password ? user_and_password->find(':') : std::string::npos;
  return colon != std::string::npos && is_equal(std::string_view(*user_and_password).substr(colon + 1), rules.token);
}

std::string ticket_of(const AccessRules& rules, const std::vector<std::string>& segments) {
  if (rules.token.empty()) return {};
  // With lengths, so that no other token and path have the same text.
  std::string text = fmt::format("weightfs ticket {} {}", rules.token.size(), rules.token);
  for (const std::string& segment : segments) text += fmt::format("/{} {}", segment.size(), segment);
  return sha256(text).hex();
}

Accepted<void> check_access(const AccessRules& rules, const Request& request, const Target& target, bool is_public) {
  const std::string* const host = request.field("host");
  for (const std::string& name : {host == nullptr ? "" : *host, target.authority})
    if (!name.empty() && !is_own_name(rules, name))
      return refused(421, fmt::format("{} is not a name of this server; use --host to add it", printable(name)));
  const bool may_be_read = permitted_origin(rules, request) != nullptr || std::ranges::count(rules.origins, "*") > 0;
  const bool may_be_linked = is_public || (target.segments.empty() && target.query.empty());
  if (is_of_another_page(request, may_be_linked) && !may_be_read)
    return refused(403, "a page of another origin; use --allow-origin to permit it, or open the address by hand");
  const bool is_preflight = request.method == "OPTIONS";
  if (rules.token.empty() || is_public || is_preflight || has_token(rules, request)) return {};
  const std::string ticket = parameter(target.query, "ticket").value_or("");
  if (is_equal(ticket, ticket_of(rules, target.segments))) return {};
  return refused(401, "a token is required: Authorization: Bearer TOKEN");
}

bool is_for_this_machine(const AccessRules& rules, const Request& request) {
  const std::string* const host = request.field("host");
  if (rules.is_any_host || host == nullptr) return true;
  const std::string name = lower_case(name_of(*host));
  return name == "localhost" || name == "::1" || name.starts_with("127.");
}

void allow_origin(const AccessRules& rules, const Request& request, Response& response) {
  if (rules.origins.empty()) return;
  response.add("Vary", "Origin");
  const std::string* const origin = permitted_origin(rules, request);
  if (origin == nullptr) return;
  response.add("Access-Control-Allow-Origin", *origin);
  response.add("Access-Control-Expose-Headers",
               "Accept-Ranges, Content-Length, Content-Range, Docker-Content-Digest, ETag, Last-Modified, Link, "
               "Repr-Digest, X-Error-Code, X-Error-Message, X-Linked-Etag, X-Linked-Size, X-Repo-Commit");
}

Response options_response(const AccessRules& rules, const Request& request, Posts posts) {
  Response response{204};
  const std::string methods = std::string(kMethods) + (posts == Posts::taken ? ", POST" : "");
  response.add("Allow", methods);
  if (permitted_origin(rules, request) == nullptr) return response;
  response.add("Access-Control-Allow-Methods", methods);
  response.add("Access-Control-Allow-Headers",
               "Accept, Authorization, Content-Type, If-Match, If-Modified-Since, If-None-Match, If-Range, "
               "If-Unmodified-Since, Range");
  response.add("Access-Control-Max-Age", "86400");
  if (request.field("access-control-request-private-network") != nullptr)
    response.add("Access-Control-Allow-Private-Network", "true");
  return response;
}

}  // namespace weightfs::httpd
