#include "cli/serve/access_log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/os/system_error.h"
#include "base/text.h"
#include "fs/http/protocol/target.h"

namespace weightfs {
namespace {

// A text of the client between quotes: it must not end them, or the line.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 0x20 || byte >= 0x7F)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

// Tickets, tokens, codes and signatures let the readers of the log read models.
std::string without_credentials(std::string_view target) {
  const size_t query = target.find('?');
  std::string out(target.substr(0, query));
  for (size_t begin = query; begin < target.size();) {
    const size_t end = std::min(target.find('&', begin + 1), target.size());
    const std::string_view pair = target.substr(begin + 1, end - begin - 1);
    const bool is_secret = std::ranges::any_of(
        std::array{"ticket", "token", "code", "X-Amz-Signature"},
        [&](const char* name) { return httpd::parameter(pair.substr(0, pair.find('=')), name).has_value(); });
    out += target[begin];
    out += is_secret ? fmt::format("{}=*", pair.substr(0, pair.find('='))) : std::string(pair);
    begin = end;
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
  Descriptor file(path == "-" ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                              : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640));
  if (!file) return failure(io_error("--access-log " + printable(path)));
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(file)));
}

// One write(2), which appends at once. A reader of a pipe that does not read loses lines: requests do not wait for it.
void AccessLog::write(const httpd::Answered& answered) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 64> time{};
  const size_t size = std::strftime(time.data(), time.size(), "%d/%b/%Y:%H:%M:%S %z", &local);
  const httpd::Request* const request = answered.request;
  const std::string first = request == nullptr ? "-"
                                               : fmt::format("{} {} HTTP/1.{}", request->method,
                                                             without_credentials(request->target), request->minor);
  const std::string line =
      fmt::format("{} - - [{}] \"{}\" {} {}\n", answered.client.address, std::string_view(time.data(), size),
                  escaped(first), answered.status, answered.bytes);
  pollfd ready{file_.number(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 1) (void)!::write(file_.number(), line.data(), line.size());
}

}  // namespace weightfs
