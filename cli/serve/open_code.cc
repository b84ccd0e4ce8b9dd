#include "cli/serve/open_code.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "fs/http/access_rules.h"

namespace weightfs {
namespace {

constexpr std::chrono::seconds kValidFor{60};
constexpr const char* kOpenPrinted = "open the address that weightfs open has printed";

// "0100007F:1F90": the address as a number of this machine, the port as a number.
std::string as_in_table(const in_addr& address, uint16_t port) {
  return fmt::format("{:08X}:{:04X}", address.s_addr, port);
}

uint16_t port_of(std::string_view server) {
  const size_t colon = server.rfind(':');
  const std::string_view port = server.substr(colon + 1, server.rfind('/') - colon - 1);
  return parse_number<uint16_t>(port).value_or(0);
}

// Whether another user has the other end of the connection; false if that cannot be told.
bool is_of_another_user(const httpd::Client& client, uint16_t port) {
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ostringstream text;
    text << std::ifstream(table).rdbuf();
    if (const auto owner = owner_of_connection(text.str(), client, port)) return *owner != ::geteuid();
  }
  return false;
}

}  // namespace

Result<std::string> random_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return failure(Code::io, "no random numbers");
  std::string secret;
  for (const unsigned char byte : bytes) secret += fmt::format("{:02x}", byte);
  return secret;
}

// The lines of proc(5): number, own end, other end, state, queues, timer, retransmissions, user. An IPv6 socket of an
// IPv4 connection has the same digits at the end of its addresses.
std::optional<uid_t> owner_of_connection(std::string_view table, const httpd::Client& client, uint16_t port) {
  in_addr address{};
  if (::inet_pton(AF_INET, client.address.c_str(), &address) != 1) return std::nullopt;
  const std::string own = as_in_table(address, client.port);
  const std::string other = fmt::format(":{:04X}", port);
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::array<std::string, 8> columns;
    for (std::string& column : columns) words >> column;
    if (columns[1].ends_with(own) && columns[2].ends_with(other)) return parse_number<uid_t>(columns[7]);
  }
  return std::nullopt;
}

void OpenCode::start() {
  const std::scoped_lock lock(mutex_);
  until_ = std::chrono::steady_clock::now() + kValidFor;
}

OpenCode::OpenCode(std::string server, std::string code, std::string token)
    : server_(std::move(server)), code_(std::move(code)), token_(std::move(token)), port_(port_of(server_)) {}

std::string OpenCode::url() const { return fmt::format("{}.weightfs/open?code={}", server_, code_); }

bool OpenCode::is_for(const httpd::Target& target) {
  return target.segments.size() == 2 && target.segments[0] == ".weightfs" && target.segments[1] == "open";
}

httpd::Accepted<httpd::Response> OpenCode::answer(const httpd::Request& request, const httpd::Target& target,
                                                  const httpd::Client& client) {
  const std::string code = httpd::parameter(target.query, "code").value_or("");
  if (request.is_head() || !httpd::is_equal(code, code_))
    return httpd::refused(403, fmt::format("the code is not valid; {}", kOpenPrinted));
  const std::scoped_lock lock(mutex_);
  if (is_used_) return httpd::refused(410, fmt::format("the code has been used; {}", kOpenPrinted));
  if (std::chrono::steady_clock::now() > until_)
    return httpd::refused(410, fmt::format("the code has expired; {}", kOpenPrinted));
  if (httpd::is_forwarded(request)) return httpd::refused(403, "a proxy has forwarded the code, for an unknown user");
  if (is_of_another_user(client, port_)) return httpd::refused(403, "the code is for another user");
  is_used_ = true;
  httpd::Response response{303};
  response.add("Location", "/#token=" + token_).add("Cache-Control", "no-store");
  response.add("Referrer-Policy", "no-referrer");
  return response;
}

}  // namespace weightfs
